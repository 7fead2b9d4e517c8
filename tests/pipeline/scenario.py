"""Tasks and sessions in processes of their own: `python -m tests.pipeline.scenario NAME` prints JSON.

A process has one Spark session, so every kind of session has a process. Workers import the task functions from here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from omnigraph.base.errors import Applied, ConflictError, OmnigraphError
from omnigraph.base.progress import Progress
from omnigraph.pipeline.runner import TaskSize, task
from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.pipeline.spark.session import SparkSettings, spark_session
from omnigraph.wire.errors import error_document
from tests.waiting import SECONDS_MAX, wait_until

SETTINGS = ("spark.sql.caseSensitive", "spark.ui.enabled", "spark.driver.host", "spark.sql.shuffle.partitions")


@dataclass(frozen=True, slots=True)
class SquareTask:
    number: int
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Square:
    number: int
    daemon: int
    python: str


class WriteConflictError(ConflictError):
    applied = Applied.NO


def measure_square(square: Square) -> TaskSize:
    return TaskSize(rows=square.number, bytes=10)


def input_bytes(_: SquareTask) -> int:
    return 10


@task("squares", measure_square, input_bytes=input_bytes)
def square(task: SquareTask) -> Square:
    return Square(task.number**2, os.getppid(), sys.executable)


def square_with_the_other(task: SquareTask) -> Square:
    """Wait until two of these tasks run at the same time, so that both executors take part."""
    folder = Path(task.folder)
    (folder / f"task-{task.number}").touch()
    wait_until(lambda: len(list(folder.glob("task-*"))) >= 2, "the other task runs")
    return square(task)


def fail_with_omnigraph_error(task: SquareTask) -> Square:
    if task.number == 1:
        raise WriteConflictError(
            "another writer was first", code="race", hint="again", facts={"table": "node:P", "at": [1, 2]}
        )
    return square(task)


def fail_with_other_error(task: SquareTask) -> Square:
    raise ValueError(f"no square today\nfor {task.number}")


def fail_with_more_state(_: SquareTask) -> Square:
    error = ConflictError("cannot travel whole", code="race")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    raise error


def die(_: SquareTask) -> Square:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def return_a_lock(_: SquareTask) -> Any:
    return threading.Lock()


def wait_forever(task: SquareTask) -> Square:
    Path(task.folder, f"worker-{os.getpid()}").touch()
    threading.Event().wait(SECONDS_MAX)
    return square(task)


def tasks(count: int) -> list[SquareTask]:
    return [SquareTask(number, os.environ["SCENARIO_FOLDER"]) for number in range(count)]


def run_local() -> dict[str, Any]:
    def interrupt(_: int, __: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    session = spark_session(SparkSettings(conf={"spark.sql.shuffle.partitions": "3"}))
    jvm: Any = session.sparkContext._jvm
    events: list[Progress] = []
    results = SparkRunner(report=events.append)(square, tasks(7))
    return {
        "results": [asdict(result) for result in results],
        "master": session.sparkContext.master,
        "settings": {name: session.conf.get(name) for name in SETTINGS},
        "flags": list(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()),
        "sigint_is_ours": signal.getsignal(signal.SIGINT) is interrupt,
        "environment_is_ours": "PYSPARK_PYTHON" not in os.environ,
        "same_session": spark_session() is session and spark_session(SparkSettings(master="local[2]")) is session,
        "other_master": _error(lambda: spark_session(SparkSettings(master="local[3]"))),
        "no_tasks": list(SparkRunner()(square, [])),
        "errors": run_errors(),
        "events": [asdict(event) for event in events],
        "after": [result.number for result in SparkRunner()(square, tasks(2))],
        "left_behind": [path.name for path in Path().iterdir()],
    }


def run_flags() -> dict[str, Any]:
    session = spark_session(SparkSettings(master="local[1]"))
    jvm: Any = session.sparkContext._jvm
    return {
        "results": [result.number for result in SparkRunner()(square, tasks(2))],
        "flags": list(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()),
    }


def run_errors() -> dict[str, Any]:
    failing = (fail_with_omnigraph_error, fail_with_other_error, fail_with_more_state, die, return_a_lock)
    return {function.__name__: _error(partial(SparkRunner(), function, tasks(3))) for function in failing}


def run_pair() -> dict[str, Any]:
    """Run two tasks at the same time on the configured session, and one that fails."""
    session = spark_session()
    results = SparkRunner()(square_with_the_other, tasks(2))
    return {
        "results": [asdict(result) for result in results],
        "kind": type(session).__module__,
        "error": _error(lambda: SparkRunner()(fail_with_omnigraph_error, tasks(2))),
    }


def run_events() -> dict[str, Any]:
    """Collect the progress of a Connect session, whose workers report sizes through a directory."""
    events: list[Progress] = []
    session = spark_session()
    results = SparkRunner(report=events.append)(square, tasks(5))
    return {"kind": type(session).__module__, "results": len(results), "events": [asdict(event) for event in events]}


def run_forever() -> dict[str, Any]:
    SparkRunner()(wait_forever, tasks(2))
    raise AssertionError


def run_lacking() -> dict[str, Any]:
    return {"error": _error(lambda: SparkRunner()(square, tasks(2)))}


def run_nothing() -> dict[str, Any]:
    return {"error": _error(spark_session)}


def _error(work: Callable[[], object]) -> dict[str, Any] | None:
    try:
        work()
    except OmnigraphError as error:
        return {
            "class": type(error).__name__,
            "notes": getattr(error, "__notes__", []),
            **error_document(error, error.hint),
        }
    return None


def main() -> None:
    run: Callable[[], dict[str, Any]] = globals()[f"run_{sys.argv[1]}"]
    sys.stdout.write(json.dumps(run()))


if __name__ == "__main__":
    from tests.pipeline import scenario  # so that workers know the functions by this name

    scenario.main()
