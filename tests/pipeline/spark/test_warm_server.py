"""The warm server: used by later processes, private, stopped when idle, without processes left after a stop."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.process import ProcessEnvironment, is_alive, processes_with
from tests.waiting import SECONDS_MAX, wait_until

pytestmark = pytest.mark.xdist_group("spark")

CONNECT = "pyspark.sql.connect.session"


@pytest.fixture(scope="module")
def warm(spark_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessEnvironment]:
    """Return an environment with a server that two starts at the same time created."""
    world = ProcessEnvironment(spark_home, tmp_path_factory.mktemp("warm"))
    command = (str(Path(sys.executable).parent / "omnigraph"), "spark", "start", "--json")
    starts = [world.start(*command) for _ in range(2)]
    printed = [json.loads(start.communicate(timeout=SECONDS_MAX)[0]) for start in starts]
    try:
        assert sorted(document["started"] for document in printed) == [False, True]
        assert printed[0]["pid"] == printed[1]["pid"]
        yield world
    finally:
        stopped = world.spark_json("stop")
    assert stopped == {"stopped": True}
    wait_until(lambda: processes_with(f"SCENARIO_FOLDER={world.folder}\0") == [])
    assert world.spark_json("stop") == {"stopped": False}


def test_its_file_is_private(warm: ProcessEnvironment) -> None:
    path = warm.home / "spark" / "server.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    token = json.loads(path.read_text())["token"]
    assert len(token) > 30
    assert token not in warm.omnigraph("spark", "status", "--json").stdout
    words = [Path(f"/proc/{pid}/cmdline").read_text() for pid in processes_with(f"SCENARIO_FOLDER={warm.folder}\0")]
    assert not [word for word in words if token in word]


def test_later_processes_use_it_and_share_its_workers(warm: ProcessEnvironment) -> None:
    first, second = (_pair(warm) for _ in range(2))
    assert (first["kind"], second["kind"]) == (CONNECT, CONNECT)
    assert {result["daemon"] for result in first["results"]} == {result["daemon"] for result in second["results"]}
    assert first["error"]["class"] == "WriteConflictError"
    assert first["error"]["table"] == "node:P"


def test_progress_over_connect_counts_tasks_rows_and_bytes(warm: ProcessEnvironment) -> None:
    outcome = warm.run("events")
    assert (outcome["kind"], outcome["results"]) == (CONNECT, 5)
    last = outcome["events"][-1]
    assert (last["tasks_done"], last["rows"], last["bytes"], last["bytes_total"]) == (5, 30, 50, 50)


def test_unknown_token_is_rejected(warm: ProcessEnvironment) -> None:
    port = warm.spark_json("status")["port"]
    error = warm.run("nothing", {"SPARK_REMOTE": f"sc://localhost:{port}/;token=guess"})["error"]
    assert error["error_code"] == "spark_unreachable"


@pytest.mark.soak
def test_ctrl_c_cancels_the_job_on_the_server(warm: ProcessEnvironment) -> None:
    process = warm.start(sys.executable, "-m", "tests.pipeline.scenario", "forever")
    try:
        wait_until(lambda: len(list(warm.folder.glob("worker-*"))) == 2)
        assert warm.spark_json("status")["in_use"] is True
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
    workers = [int(path.name.partition("-")[2]) for path in warm.folder.glob("worker-*")]
    wait_until(lambda: not any(map(is_alive, workers)))
    assert warm.spark_json("status")["status"] == "running"
    assert _pair(warm)["kind"] == CONNECT


@pytest.mark.soak
def test_killed_server_is_replaced_and_idle_server_ends(fresh_world: ProcessEnvironment, spark_home: Path) -> None:
    fresh_world.borrow_archive(spark_home)
    first = fresh_world.spark_json("start")
    os.kill(first["pid"], signal.SIGKILL)
    mark = f"SCENARIO_FOLDER={fresh_world.folder}\0"
    wait_until(lambda: processes_with(mark) == [])
    assert (fresh_world.home / "spark" / "server.json").exists()
    assert fresh_world.spark_json("status")["status"] == "stopped"
    second = fresh_world.spark_json("start", "--idle-minutes", "0.02")
    assert second["started"] is True
    assert second["pid"] != first["pid"]
    wait_until(lambda: processes_with(mark) == [])
    assert not (fresh_world.home / "spark" / "server.json").exists()
    assert fresh_world.spark_json("status")["status"] == "stopped"


def _pair(world: ProcessEnvironment) -> dict[str, Any]:
    for path in world.folder.glob("task-*"):
        path.unlink()
    return world.run("pair")
