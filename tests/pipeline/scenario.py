"""What the tests let Spark do, in processes of their own: `python -m tests.pipeline.scenario NAME` prints JSON.

A process has one Spark session, so every kind of session gets a process. The task functions are here because workers
import them from here.
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
from omnigraph.pipeline.runner import TaskSize
from omnigraph.pipeline.spark.runner import JobOptions, run_tasks
from omnigraph.pipeline.spark.session import SparkSettings, spark_session
from omnigraph.wire.errors import error_document

SETTINGS = (
    "spark.sql.caseSensitive",
    "spark.ui.enabled",
    "spark.driver.host",
    "spark.sql.shuffle.partitions",
)


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


def square(task: SquareTask) -> Square:
    return Square(task.number**2, os.getppid(), sys.executable)


def measure_square(square: Square) -> TaskSize:
    return TaskSize(rows=square.number, bytes=10)


def square_with_the_other(task: SquareTask) -> Square:
    """Two of these end only when both run at the same time, so both executors must take part."""
    folder = Path(task.folder)
    (folder / f"task-{task.number}").touch()
    for _ in range(2_000):
        if len(list(folder.glob("task-*"))) >= 2:
            return square(task)
        threading.Event().wait(0.1)
    raise AssertionError("the other task never ran")


def fail_as_ours(task: SquareTask) -> Square:
    if task.number == 1:
        raise WriteConflictError(
            "somebody was first", code="race", hint="again", facts={"table": "node:P", "at": [1, 2]}
        )
    return square(task)


def fail_as_others(task: SquareTask) -> Square:
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


def wait_for_ever(task: SquareTask) -> Square:
    Path(task.folder, f"worker-{os.getpid()}").touch()
    threading.Event().wait(600)
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
    results = run_tasks(session, square, tasks(7), JobOptions("squares", events.append, measure_square, 70))
    return {
        "results": [asdict(result) for result in results],
        "master": session.sparkContext.master,
        "settings": {name: session.conf.get(name) for name in SETTINGS},
        "flags": list(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()),
        "sigint_is_ours": signal.getsignal(signal.SIGINT) is interrupt,
        "environment_is_ours": "PYSPARK_PYTHON" not in os.environ,
        "same_session": spark_session() is session
        and spark_session(SparkSettings(master="local[2]")) is session,
        "other_master": _error(lambda: spark_session(SparkSettings(master="local[3]"))),
        "no_tasks": list(run_tasks(session, square, [])),
        "errors": run_errors(),
        "events": [asdict(event) for event in events],
        "after": [result.number for result in run_tasks(session, square, tasks(2))],
        "left_behind": [path.name for path in Path().iterdir()],
    }


def run_flags() -> dict[str, Any]:
    session = spark_session(SparkSettings(master="local[1]"))
    jvm: Any = session.sparkContext._jvm
    return {
        "results": [result.number for result in run_tasks(session, square, tasks(2))],
        "flags": list(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()),
    }


def run_errors() -> dict[str, Any]:
    session = spark_session()
    failing = (fail_as_ours, fail_as_others, fail_with_more_state, die, return_a_lock)
    return {
        function.__name__: _error(partial(run_tasks, session, function, tasks(3))) for function in failing
    }


def run_pair() -> dict[str, Any]:
    """Two tasks at once on the configured session, and an error."""
    session = spark_session()
    results = run_tasks(session, square_with_the_other, tasks(2))
    return {
        "results": [asdict(result) for result in results],
        "kind": type(session).__module__,
        "error": _error(lambda: run_tasks(session, fail_as_ours, tasks(2))),
    }


def run_events() -> dict[str, Any]:
    """On a Connect session: counts come, sizes do not."""
    events: list[Progress] = []
    session = spark_session()
    results = run_tasks(session, square, tasks(5), JobOptions("squares", events.append, measure_square, 50))
    return {
        "kind": type(session).__module__,
        "results": len(results),
        "events": [asdict(event) for event in events],
    }


def run_for_ever() -> dict[str, Any]:
    run_tasks(spark_session(), wait_for_ever, tasks(2))
    raise AssertionError


def run_lacking() -> dict[str, Any]:
    return {"error": _error(lambda: run_tasks(spark_session(), square, tasks(2)))}


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
