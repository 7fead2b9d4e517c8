"""Runs task functions: the protocol of a runner, and the runner in this process.

In: a top-level function and small picklable tasks. Out: the results in the order of the tasks. A function declares its
progress step, its input and the size of its results with `task`, so that no runner has to know the functions that it
runs. A function must be safe to repeat, and does not know its runner: results, errors, progress and Ctrl-C are the same
with each. `SparkRunner` is in `pipeline/spark/runner`, the choice between both in `pipeline/spark/auto`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Protocol, TypeVar

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import ErrorKind, OmnigraphError, UsageError
from omnigraph.base.hints import CAUSE, hint
from omnigraph.base.interrupts import raise_if_interrupted
from omnigraph.base.progress import Progress, Report, ignore_progress
from omnigraph.base.threads import thread_pool

Task = TypeVar("Task")
Result = TypeVar("Result")
Item = TypeVar("Item")
Function = TypeVar("Function", bound=Callable[..., Any])

CONCURRENCY_VARIABLE: Final = "OMNIGRAPH_MAINTENANCE_CONCURRENCY"


class RunTasks(Protocol):
    """Runs a function over tasks and returns the results in the order of the tasks."""

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> Sequence[Result]: ...


class Runner(RunTasks, Protocol):
    """Runs functions over tasks, and knows where."""

    @property
    def description(self) -> str:
        """Where the tasks ran, for the result of an operation: `local`, or `spark` and its master."""
        ...

    def shares_disk(self, job_bytes: int, /) -> bool:
        """Return whether the tasks of a job of this size are known to see the files of this machine."""
        ...


class TaskError(OmnigraphError):
    """An unexpected failure of a task, or a lost executor of Spark."""

    kind = ErrorKind.INTERNAL


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


_RUNNING: Final = threading.local()


def report_partial(size: TaskSize) -> None:
    """Report what the running task has done so far, for the progress of long tasks. Some runners ignore it."""
    receive: Callable[[TaskSize], None] | None = getattr(_RUNNING, "receive", None)
    if receive is not None:
        receive(size)


@contextmanager
def receive_partial(receive: Callable[[TaskSize], None]) -> Iterator[None]:
    """Call the function with what the task of this thread reports."""
    _RUNNING.receive = receive
    try:
        yield
    finally:
        del _RUNNING.receive


def raise_if_stopped(wait_seconds: float = 0.0) -> None:
    """End the running task if its run is stopped, by Ctrl-C or a failed task, now or while it waits.

    Some runners end the task themselves.
    """
    stop: threading.Event | None = getattr(_RUNNING, "stop", None)
    if stop is None:
        SYSTEM_CLOCK.sleep(wait_seconds)
    elif stop.wait(wait_seconds):
        raise CancelledError


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


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Runs tasks in threads of this process: pyarrow and Lance release the interpreter's lock.

    After Ctrl-C or a failed task no other task starts, and the running ones end before the exception is raised. A task
    of several steps ends at its next call of `raise_if_stopped`.
    """

    report: Report = ignore_progress
    threads_max: int = limits.LOCAL_RUNNER_THREADS
    description: ClassVar[str] = "local"

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> Sequence[Result]:
        """Return the results in the order of the tasks."""
        if not tasks:
            return []
        info = task_info(function)
        count = min(self.threads_max, maintenance_concurrency()) if info.is_table else self.threads_max
        progress = _StepProgress(info, tasks, self.report)
        stop = threading.Event()
        with thread_pool(min(count, len(tasks)), "omnigraph-task") as threads:
            try:
                futures = [
                    threads.submit(_run_task, function, task, stop, partial(progress.set_partial, number))
                    for number, task in enumerate(tasks)
                ]
                numbers = {future: number for number, future in enumerate(futures)}
                running = set(futures)
                while running:
                    done, running = wait(running, limits.PROGRESS_SECONDS, FIRST_COMPLETED)
                    raise_if_interrupted()
                    for future in done:
                        if not isinstance(future.exception(), CancelledError):  # the error of another task follows
                            progress.add(numbers[future], future.result())
                    if not done:
                        progress.send()
            finally:
                stop.set()
        return [future.result() for future in futures]

    def shares_disk(self, _job_bytes: int, /) -> bool:
        return True


def _run_task(
    function: Callable[[Task], Result], task: Task, stop: threading.Event, receive: Callable[[TaskSize], None]
) -> Result:
    _RUNNING.stop = stop
    try:
        raise_if_stopped()
        with receive_partial(receive):
            return function(task)
    except CancelledError:
        raise
    except BaseException as error:
        stop.set()
        if isinstance(error, Exception) and not isinstance(error, OmnigraphError):
            raise task_failed(error) from error
        raise


def task_failed(error: Exception) -> TaskError:
    """Return the error of a task that failed with an unexpected exception."""
    name = type(error).__name__
    return TaskError(
        f"a task failed: {name}: {error}"[: limits.SPARK_ERROR_BYTES_MAX],
        code="task_failed",
        hint=hint("{} shows the cause.", CAUSE),
        facts={"exception": name},
    )


class _StepProgress:
    """Reports the finished tasks of one step, and what the running ones have done."""

    def __init__(self, info: TaskInfo, tasks: Sequence[Any], report: Report) -> None:
        self._info, self._report = info, report
        self._done, self._total = 0, len(tasks)
        self._bytes_total = None if info.input_bytes is None else sum(map(info.input_bytes, tasks))
        self._size = None if info.measure is None else TaskSize()
        self._partial: dict[int, TaskSize] = {}
        self._started = SYSTEM_CLOCK.monotonic()

    def set_partial(self, number: int, size: TaskSize) -> None:
        """Set what a running task has done; called by its thread."""
        self._partial[number] = size

    def add(self, number: int, result: object) -> None:
        """Add a finished task, and report it."""
        self._done += 1
        self._partial.pop(number, None)
        if self._info.measure is not None and self._size is not None:
            self._size += self._info.measure(result)
        self.send()

    def send(self) -> None:
        """Report the progress."""
        size = self._size
        for partial_size in list(self._partial.values()):
            size = partial_size if size is None else size + partial_size
        self._report(
            Progress(
                step=self._info.step,
                seconds=SYSTEM_CLOCK.monotonic() - self._started,
                tasks_done=self._done,
                tasks_total=self._total,
                rows=size.rows if size else None,
                bytes=size.bytes if size else None,
                bytes_total=self._bytes_total,
                is_last=self._done == self._total,
            )
        )


def run_here(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
    """Run tasks in this thread, one after another."""
    return [function(task) for task in tasks]


def in_threads(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
    """Run tasks in threads of this process, at most `maintenance_concurrency()` at a time."""
    return LocalRunner(threads_max=maintenance_concurrency())(function, tasks)


def maintenance_concurrency(environ: Mapping[str, str] = os.environ) -> int:
    """Return how many tables maintenance works on at the same time: the environment variable, or the default."""
    text = environ.get(CONCURRENCY_VARIABLE, "")
    if not text:
        return limits.MAINTENANCE_CONCURRENCY
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError(
            f"invalid {CONCURRENCY_VARIABLE}: expected a positive integer, got '{text}'",
            code="maintenance_concurrency",
            hint=f"Set it to a positive integer, or unset it. The default is {limits.MAINTENANCE_CONCURRENCY}.",
        )
    return int(text)


def batches_of(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Return the items in their order, in batches of at most `size`."""
    return (items[start : start + size] for start in range(0, len(items), size))
