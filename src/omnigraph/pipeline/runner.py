"""Runs task functions: the protocol of a runner, and the runners in this process.

In: a top-level function and small picklable tasks. Out: the results in the order of the tasks. A function declares its
progress step and the size of its results with `task`, so that no runner has to know the functions that it runs. A
function must be safe to repeat. The runner on Spark is `SparkRunner` in `pipeline/spark/runner`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from omnigraph.base import limits
from omnigraph.base.errors import UsageError

Task = TypeVar("Task")
Result = TypeVar("Result")
Item = TypeVar("Item")
Function = TypeVar("Function", bound=Callable[..., Any])

VARIABLE: Final = "OMNIGRAPH_MAINTENANCE_CONCURRENCY"


class RunTasks(Protocol):
    """Runs a function over tasks and returns the results in the order of the tasks."""

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> Sequence[Result]: ...


@dataclass(frozen=True, slots=True)
class TaskSize:
    """The rows and bytes that one finished task adds to the progress."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: TaskSize) -> TaskSize:
        return TaskSize(self.rows + other.rows, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """The properties of a task function that a runner uses.

    `measure` is a top-level function that returns the size of a result; it is called where the task runs.
    `input_bytes` returns how many bytes a task will read, for the total of the progress.
    `is_table` says that each task is one table, so that a run takes at most `maintenance_concurrency()` at a time.
    """

    step: str = "work"
    measure: Callable[[Any], TaskSize] | None = None
    input_bytes: Callable[[Any], int] | None = None
    is_table: bool = False


_INFO: Final[dict[Callable[..., Any], TaskInfo]] = {}


def task(
    step: str,
    measure: Callable[[Any], TaskSize] | None = None,
    *,
    input_bytes: Callable[[Any], int] | None = None,
    is_table: bool = False,
) -> Callable[[Function], Function]:
    """Declare the progress step of a task function, and how to measure its results."""

    def declare(function: Function) -> Function:
        _INFO[function] = TaskInfo(step, measure, input_bytes, is_table)
        return function

    return declare


def task_info(function: Callable[..., Any]) -> TaskInfo:
    """Return what a function declared with `task`, or the defaults."""
    return _INFO.get(function, TaskInfo())


def run_here(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
    """Run tasks in this process, one after another."""
    return [function(task) for task in tasks]


def in_threads(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
    """Run tasks in threads of this process, at most `maintenance_concurrency()` at a time."""
    with ThreadPoolExecutor(maintenance_concurrency()) as threads:
        return list(threads.map(function, tasks))


def maintenance_concurrency(environ: Mapping[str, str] = os.environ) -> int:
    """Return how many tables maintenance works on at the same time: the environment variable, or the default."""
    text = environ.get(VARIABLE, "")
    if not text:
        return limits.MAINTENANCE_CONCURRENCY
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError(
            f"invalid {VARIABLE}: expected a positive integer, got '{text}'",
            code="maintenance_concurrency",
            hint=f"Set it to a positive integer, or unset it. The default is {limits.MAINTENANCE_CONCURRENCY}.",
        )
    return int(text)


def batches_of(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Return the items in their order, in batches of at most `size`."""
    return (items[start : start + size] for start in range(0, len(items), size))
