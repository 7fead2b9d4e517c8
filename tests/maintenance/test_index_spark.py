"""Ensure indices, optimize and cleanup on real Spark: two executor processes do the work, the driver commits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omnigraph.storage.location import Location
from tests.pipeline.process import ProcessEnvironment
from tests.pipeline.test_clusters import small_executors

pytestmark = pytest.mark.xdist_group("spark")


def test_executors_build_and_the_driver_commits(world: ProcessEnvironment) -> None:
    seen = _run_and_check(world, {})
    # The anti-join on executors finds the unreferenced file.
    assert seen["orphan"] in seen["removed"]
    assert sum(row["orphan_files_removed"] for row in seen["cleaned"]) == 1


@pytest.mark.soak
def test_on_s3(world: ProcessEnvironment, s3_location: Location) -> None:
    options = json.dumps(dict(s3_location.options))
    _run_and_check(world, {"SCENARIO_GRAPH": s3_location.uri, "SCENARIO_OPTIONS": options})


def _run_and_check(world: ProcessEnvironment, more: dict[str, str]) -> dict[str, Any]:
    env = {"MASTER": "local-cluster[2,1,1024]", **small_executors(world), **more}
    seen = world.run("cluster", env, "tests.maintenance.index_scenario")
    assert {row["status"] for row in seen["first"]["indexes"]} == {"built", "skipped"}
    assert seen["first"]["commit"] is not None
    assert "index.build" not in seen["driver_effects"], "only executors write index files"
    assert "dataset.index" in seen["driver_effects"]
    assert seen["built"]["doc"] == seen["built"]["cites"] == 1
    assert seen["built"]["types"]["face_vector"] == "IVF_RQ"
    # Measured: 28 of 30. A random choice among 120,000 rows would find none.
    assert seen["built"]["nearest"] >= 20
    assert seen["extended"]["nearest"] >= 20
    assert seen["idle"]["commit"] is None
    assert {row["status"] for row in seen["idle"]["indexes"]} == {"complete", "skipped"}
    assert seen["second"]["commit"] == seen["head"]
    assert {row["status"] for row in seen["second"]["indexes"]} == {"extended"}
    assert seen["extended"]["doc"] == 2
    assert seen["extended"]["cites"] == 21, "Cites was not requested"
    steps = {"build indexes", "work", "read snapshots", "find files"}
    steps |= {"check rows", "write columns"}
    assert set(seen["steps"]) == steps
    assert seen["failure"] is not None
    # Optimize, in the same session: only executors rewrite, and both of them do.
    assert "dataset.rewrite" not in seen["driver_effects"]
    assert len(seen["executors"]) == 2
    assert all(row["error"] is None for row in seen["optimized"])
    assert {row["table_key"] for row in seen["optimized"] if row["fragments_removed"]} > {"node:Doc", "edge:Cites"}
    assert (seen["failure"]["class"], seen["failure"]["kind"]) == ("FormatError", "unreadable")
    # Cleanup: executors find and delete the files of a preview in one process.
    assert seen["cleaned"] == seen["previewed"]
    assert seen["same_files"]
    assert seen["find_files"] == [2, 2], "the manifest and three tables, two at the same time"
    assert {row["table_key"] for row in seen["cleaned"] if row["old_versions_removed"]} > {"node:Doc", "edge:Cites"}
    assert seen["rows_after"] == 120_000 + 6 * 20
    _check_schema_change(seen["evolved"])
    return seen


def _check_schema_change(seen: dict[str, Any]) -> None:
    """Check the schema change: executors check every row and write the columns; the driver only commits."""
    rejected = seen["rejected"]
    assert rejected["code"] == "schema_rejected"
    errors = {(error["property"], error["code"]) for error in rejected["validation_errors"]}
    assert errors == {("size", "V202"), ("tag", "V402")}
    assert rejected["total"] == 1_000 + 5_000 - 2
    assert seen["commit"] == seen["head"]
    assert seen["rows"] == seen["filled"] == 5_000
    assert "note" not in seen["columns"]
    assert "dataset.stage" not in seen["driver_writes"]
    assert "dataset.commit" in seen["driver_writes"]
