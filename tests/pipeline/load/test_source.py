"""`Graph.load` on real Spark, local and over Connect: files, frames of this process and DataFrames of Spark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.process import ProcessEnvironment

pytestmark = pytest.mark.xdist_group("spark")


def run(world: ProcessEnvironment) -> dict[str, Any]:
    return world.run("load", module="tests.pipeline.frame_scenario")


def check(outcome: dict[str, Any]) -> None:
    assert outcome["counts"] == [{"node:Person": 1}, {"node:Person": 1}, {"node:Person": 1_000, "edge:Knows": 1}]
    assert outcome["branches"] == ["main", "import", "main"]
    assert outcome["heads"][2] == outcome["head"]
    assert outcome["ages"] == {"ada": 36, **{f"p{row:04}": row % 100 for row in range(1_000)}}
    assert outcome["edges"] == [["p0001", "ada"]]
    assert outcome["empty"] is None
    assert outcome["dry"] == 1_000
    assert outcome["bad"] == [["<Person>", 31, "age"]]
    assert outcome["errors"] == ["input_columns", "input_columns"]
    assert outcome["scratch"] == []
    last = [event for event in outcome["events"] if event["is_last"]]
    assert [event["step"] for event in last][:2] == ["load", "load"]
    assert all(event["tasks_done"] == event["tasks_total"] for event in last)


@pytest.mark.soak
def test_on_a_local_session(world: ProcessEnvironment) -> None:
    outcome = run(world)
    check(outcome)
    assert "connect" not in outcome["kind"]
    frame = next(event for event in outcome["events"] if event["is_last"])
    assert frame["rows"] == 1_000


@pytest.mark.soak
def test_over_connect(world: ProcessEnvironment) -> None:
    world.spark_json("start")
    try:
        outcome = run(world)
    finally:
        world.omnigraph("spark", "stop")
    check(outcome)
    assert "connect" in outcome["kind"]
