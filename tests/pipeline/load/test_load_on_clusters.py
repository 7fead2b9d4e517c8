"""The same loads on threads, on two executor processes and on a standalone cluster: identical exports."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.pipeline.load_scenario import PEOPLE, write_inputs
from tests.pipeline.process import ProcessEnvironment, is_alive
from tests.pipeline.test_clusters import small_executors, standalone  # noqa: F401  # a fixture
from tests.waiting import SECONDS_MAX, wait_until

pytestmark = pytest.mark.xdist_group("spark")

MODULE = "tests.pipeline.load_scenario"
EXPORT = "6a21a8d87181c09e7b6187fd09023a82c15af664054ce507b5b495faa9b516f3"
"""Check the outcome and return the hash of the export."""


@pytest.fixture(scope="module")
def two_executors(spark_home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run all loads on one session with two executor processes."""
    world = ProcessEnvironment(spark_home, tmp_path_factory.mktemp("two-executors"))
    write_inputs(world.folder)
    (world.folder / "killed-executor").mkdir()
    write_inputs(world.folder / "killed-executor")
    environ = {"MASTER": "local-cluster[2,1,1024]", **small_executors(world)}
    seen = world.run("all_and_killed_executor", environ, MODULE)
    return {"folder": world.folder, **seen}


def run_all(world: ProcessEnvironment, master: str) -> str:
    write_inputs(world.folder)
    return checked(world.run("all", {"MASTER": master, **small_executors(world)}, MODULE))


def checked(outcome: dict[str, Any]) -> str:
    """Check the outcome and return the hash of the export."""
    assert [sum(counts.values()) for counts in outcome["counts"]] == [3 * PEOPLE, PEOPLE + 1, PEOPLE * 2 // 3 + 1]
    assert outcome["failed_tasks"] == 2, "two pieces were written twice"
    assert outcome["bad"] == {"dangling_end": 1, "duplicate_id": 1, "unique": 1}
    assert outcome["unmoved"]
    assert not outcome["scratch"]
    assert outcome["written_by_driver"] == [], "only executors write fragments"
    assert outcome["lines"] == PEOPLE * 3 // 2 + PEOPLE // 6 + 2 * PEOPLE + 2
    export = outcome["export"]
    assert isinstance(export, str)
    return export


@pytest.mark.soak
def test_threads_of_one_process_give_the_same_bytes(world: ProcessEnvironment) -> None:
    assert run_all(world, "local[2,3]") == EXPORT


def test_two_executors_give_the_same_bytes(two_executors: dict[str, Any]) -> None:
    assert two_executors["all"]["executors"] == 2
    assert checked(two_executors["all"]) == EXPORT


@pytest.mark.soak
def test_a_standalone_master_gives_the_same_bytes(world: ProcessEnvironment, standalone: str) -> None:  # noqa: F811
    assert run_all(world, standalone) == EXPORT


def test_a_killed_executor_loses_nothing_and_doubles_nothing(two_executors: dict[str, Any]) -> None:
    seen = two_executors["killed_executor"]
    assert seen == {"counts": {"node:Person": PEOPLE, "edge:Knows": 2 * PEOPLE}, "killed": True}
    tables = og.open(str(two_executors["folder"] / "killed-executor" / "graph.omni")).snapshot().tables
    assert {alias: table.row_count for alias, table in tables.items()} == seen["counts"]


@pytest.mark.soak
def test_killed_driver_leaves_the_graph_unchanged(world: ProcessEnvironment) -> None:
    write_inputs(world.folder)
    environ = {"MASTER": "local-cluster[2,1,1024]", **small_executors(world)}

    process = world.start(sys.executable, "-m", MODULE, "wait", env=environ)
    waiting = lambda: len(list(world.folder.glob("waiting-*"))) >= 2  # noqa: E731
    wait_until(waiting)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not is_alive(process.pid))
    graph = og.open(str(world.folder / "graph.omni"))
    assert [table.row_count for table in graph.snapshot().tables.values()] == [0, 0]
    assert graph.pending_writes() == ()
    assert len(list(graph.log(None))) == 1


@pytest.mark.parametrize(
    ("failpoint", "rows"),
    [
        pytest.param("commit.after@1", 0, marks=pytest.mark.soak),
        pytest.param("publish.before", 1, marks=pytest.mark.soak),
        pytest.param("publish.after", 1, marks=pytest.mark.soak),
    ],
)
def test_a_driver_killed_in_the_commit_is_finished_or_undone(
    world: ProcessEnvironment, failpoint: str, rows: int
) -> None:
    """Two tables are committed one after the other; after a kill between the two, the first is undone."""
    folder = world.folder
    (folder / "schema.pg").write_text("node P { slug: String @key }\nedge K: P -> P\n")
    (folder / "data.jsonl").write_text('{"type":"P","data":{"slug":"a"}}\n{"edge":"K","from":"a","to":"a"}\n')
    assert world.omnigraph("init", "--schema", "schema.pg", "g.omni").returncode == 0
    command = (str(Path(sys.executable).parent / "omnigraph"), "load", "--data", "data.jsonl", "g.omni")
    name, _, count = failpoint.partition("@")
    process = world.start(*command, env={"OMNIGRAPH_FAILPOINTS": f"{name}@{count or 1}=kill"})
    process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == -signal.SIGKILL
    graph = og.open(str(folder / "g.omni"))
    assert [table.row_count for table in graph.snapshot().tables.values()] == [rows, rows]
    assert graph.pending_writes() == ()
