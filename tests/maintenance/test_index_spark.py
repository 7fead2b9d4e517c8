"""Ensure indices, optimize and cleanup on real Spark: two executor processes do the work, the driver commits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omnigraph.storage.location import Location
from tests.pipeline.process import WriteEnvironment
from tests.pipeline.test_clusters import small_executors

pytestmark = pytest.mark.xdist_group("spark")


def test_executors_build_and_the_driver_commits(world: WriteEnvironment) -> None:
    seen = _checked(world, {})
    # The anti-join on executors finds what only nothing needs.
    assert seen["orphan"] in seen["removed"]
    assert sum(row["orphan_files_removed"] for row in seen["cleaned"]) == 1


@pytest.mark.soak
def test_on_s3_too(world: WriteEnvironment, s3_location: Location) -> None:
    options = json.dumps(dict(s3_location.options))
    _checked(world, {"SCENARIO_GRAPH": s3_location.uri, "SCENARIO_OPTIONS": options})


def _checked(world: WriteEnvironment, more: dict[str, str]) -> dict[str, Any]:
    env = {"MASTER": "local-cluster[2,1,1024]", **small_executors(world), **more}
    seen = world.run("cluster", env, "tests.maintenance.index_scenario")
    assert {row["status"] for row in seen["first"]["indexes"]} == {"built", "skipped"}
    assert seen["first"]["commit"] is not None
    assert "index.build" not in seen["driver_effects"], "only executors write index files"
    assert "dataset.index" in seen["driver_effects"]
    assert seen["built"]["doc"] == seen["built"]["cites"] == 1
    assert seen["built"]["types"]["face_vector"] == "IVF_PQ", "there is something to train"
    # Measured: 28 of 30; chance alone finds none among 120,000.
    assert seen["built"]["nearest"] >= 20
    assert seen["extended"]["nearest"] >= 20
    assert seen["idle"]["commit"] is None
    assert {row["status"] for row in seen["idle"]["indexes"]} == {"complete", "skipped"}
    assert seen["second"]["commit"] == seen["head"]
    assert {row["status"] for row in seen["second"]["indexes"]} == {"extended"}
    assert seen["extended"]["doc"] == 2
    assert seen["extended"]["cites"] == 21, "the citations were not asked for"
    steps = {"train indexes", "build indexes", "work", "read snapshots", "find files"}
    steps |= {"check rows", "write columns"}
    assert set(seen["steps"]) == steps
    assert seen["failure"] is not None
    # Optimize, in the same session: only executors rewrite, and both of them do.
    assert "dataset.rewrite" not in seen["driver_effects"]
    assert len(seen["executors"]) == 2
    assert all(row["error"] is None for row in seen["optimized"])
    assert {row["table_key"] for row in seen["optimized"] if row["fragments_removed"]} > {
        "node:Doc",
        "edge:Cites",
    }
    assert (seen["failure"]["class"], seen["failure"]["kind"]) == ("FormatError", "unreadable")
    # Cleanup, too: what executors find is what a preview in one process found, and it goes.
    assert seen["cleaned"] == seen["previewed"]
    assert seen["same_files"]
    assert seen["find_files"] == [2, 2], "the manifest and three tables, two at the same time"
    assert {row["table_key"] for row in seen["cleaned"] if row["old_versions_removed"]} > {
        "node:Doc",
        "edge:Cites",
    }
    assert seen["rows_after"] == 120_000 + 6 * 20
    _assert_evolved(seen["evolved"])
    return seen


def _assert_evolved(seen: dict[str, Any]) -> None:
    """Schema changes, too: executors look at every row and write the columns; the driver only commits."""
    rejected = seen["rejected"]
    assert rejected["code"] == "schema_rejected"
    told = {(found["property"], found["code"]) for found in rejected["validation_errors"]}
    assert told == {("size", "V202"), ("tag", "V402")}
    assert rejected["total"] == 1_000 + 5_000 - 2
    assert seen["commit"] == seen["head"]
    assert seen["rows"] == seen["filled"] == 5_000
    assert "note" not in seen["columns"]
    assert "dataset.stage" not in seen["driver_writes"]
    assert "dataset.commit" in seen["driver_writes"]
