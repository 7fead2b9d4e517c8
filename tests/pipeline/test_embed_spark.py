"""`embed` on Spark: the same rows and report as in this process, and the key is in no file or output."""

from __future__ import annotations

import pytest

from tests.pipeline.process import ProcessEnvironment

pytestmark = pytest.mark.xdist_group("spark")

KEY = "sk-0123456789abcdef"
"""Spark hides values with words such as secret by itself: this one has none."""


def test_same_rows_and_report_and_no_key(world: ProcessEnvironment) -> None:
    folder = world.folder / "embed"
    folder.mkdir()
    environment = {"SCENARIO_FOLDER": str(folder), "SCENARIO_KEY": KEY}
    document = world.run("embed", environment, "tests.pipeline.embed_scenario")
    local, spark = document["local"], document["spark"]
    assert (local.pop("runner"), spark.pop("runner")) == ("local", "spark local[2]")
    assert local == spark
    [stats] = spark["report"]["properties"]
    assert (stats["pending"], stats["embedded"], stats["failed"], stats["texts"]) == (60, 58, 2, 40)
    local_rows, spark_rows = document["nearest"]
    assert len(local_rows) == 3
    assert local_rows == spark_rows
    assert document["requests"] == 0, "both used the provider of the graph, not that of the environment"
    assert spark["query_texts"] == ["text 7"]
    assert [(row["k"], row["text"]) for row in spark["nearest"][:2]] == [("k007", "text 7"), ("k047", "text 7")]
    code, status, message = document["failed"]
    assert (code, status) == ("embedding_failed", 500)
    assert KEY not in message
    assert document["notes"] == ["20 rows of earlier waves are committed; the next run starts again with every row"]
    assert document["interrupted_commits"] == 1
    for path, page in document["pages"].items():
        assert "local[2]" in page or "Spark" in page, path
        assert KEY not in page
    files = [path for path in world.folder.rglob("*") if path.is_file()]
    assert any("events" in path.parts for path in files)
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
