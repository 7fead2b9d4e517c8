"""Runs one Spark action, reports its progress and cancels it on an interrupt.

In: a session, an action and a `Watch`. Out: what the action returns. The action runs in a thread of its own while the
calling thread polls Spark for finished tasks. After Ctrl-C or any other exception the job is cancelled on the cluster,
and the exception is raised when the action has ended. An exception of Spark is raised as an Omnigraph error.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import uuid4

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.progress import Progress, Report
from omnigraph.pipeline.runner import TaskSize
from omnigraph.pipeline.spark.class_archive import cancel_build
from omnigraph.pipeline.spark.connect import is_connect
from omnigraph.pipeline.spark.jvm import spark_log
from omnigraph.pipeline.spark.task_errors import decode_error, java_ended

if TYPE_CHECKING:
    from pyspark import SparkStageInfo
    from pyspark.sql import SparkSession

Outcome = TypeVar("Outcome")


def run_job(
    session: SparkSession, action: Callable[[], Outcome], watch: Watch, tick: Callable[[], None] = lambda: None
) -> Outcome:
    """Return what the action returns. `tick` is called while it runs; an exception of `tick` ends the action."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import inheritable_thread_target
    from pyspark.errors import PySparkException

    job: _SparkJob = _ConnectJob(session, watch) if is_connect(session) else _ClassicJob(session, watch)

    def act() -> Outcome:
        job.mark_thread()
        return action()

    with ThreadPoolExecutor(1, "omnigraph-spark") as threads:
        running: Future[Outcome] = threads.submit(inheritable_thread_target(session)(act))
        try:
            _poll(job, running, tick)
            outcome = running.result()
        except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
            if job.has_lost_java():
                raise java_ended(str(spark_log())) from error
            if isinstance(error, ConnectionError | EOFError):
                raise
            raise decode_error(error, str(spark_log())) from error
        finally:
            if not running.done() and not job.has_lost_java():
                _stop(job, running)
            job.close()
    watch.finish()
    return outcome


class Watch:
    """Reports the progress of one job, whenever it has changed. `size_sum` adds the sizes of results."""

    def __init__(self, step: str, tasks_total: int | None, report: Report, bytes_total: int | None = None) -> None:
        """Without `tasks_total`, the total comes from Spark too, which learns of a plan's tasks stage by stage."""
        self._step = step
        self._asks_total = tasks_total is None
        self._tasks_total = tasks_total or 0
        self._report = report
        self._started = SYSTEM_CLOCK.monotonic()
        self._last_report: tuple[int, TaskSize | None] | None = None
        self._bytes_total = bytes_total
        self.size_sum: SizeSum | None = None

    def update(self, counter: TaskCounter) -> None:
        """Report what has changed since the last call."""
        if self._asks_total:
            self._tasks_total = max(self._tasks_total, counter.tasks_known())
        self._send(min(counter.tasks_done(), self._tasks_total), is_last=False)

    def finish(self) -> None:
        """Report that all tasks are finished."""
        self._send(self._tasks_total, is_last=True)

    def _send(self, tasks_done: int, *, is_last: bool) -> None:
        size = self.size_sum.value if self.size_sum else None
        if (tasks_done, size) == self._last_report and not is_last:
            return
        self._last_report = (tasks_done, size)
        self._report(
            Progress(
                self._step,
                SYSTEM_CLOCK.monotonic() - self._started,
                tasks_done,
                self._tasks_total,
                rows=size.rows if size else None,
                bytes=size.bytes if size else None,
                bytes_total=self._bytes_total,
                is_last=is_last,
            )
        )


class SizeSum(Protocol):
    """An accumulator to which tasks add their sizes; only the driver reads it."""

    @property
    def value(self) -> TaskSize: ...

    def add(self, term: TaskSize) -> None: ...


def make_size_sum(session: SparkSession) -> SizeSum:
    """Return an accumulator of sizes. Only a classic session has them."""
    from pyspark.accumulators import AccumulatorParam

    class _Sizes(AccumulatorParam[TaskSize]):
        def zero(self, value: TaskSize) -> TaskSize:
            return type(value)()

        def addInPlace(self, value1: TaskSize, value2: TaskSize) -> TaskSize:  # noqa: N802  # the name that Spark requires
            return value1 + value2

    param: AccumulatorParam[Any] = _Sizes()
    return session.sparkContext.accumulator(TaskSize(), param)


class TaskCounter(Protocol):
    """Asks Spark how many tasks of a job are finished, and how many it knows of."""

    def tasks_done(self) -> int: ...

    def tasks_known(self) -> int: ...


class JobGroupCounter:
    """Counts the tasks of a job group with the status tracker of a classic session."""

    def __init__(self, session: SparkSession, group: str) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._group = group

    def tasks_done(self) -> int:
        return sum(stage.numCompletedTasks for stage in self._stages())

    def tasks_known(self) -> int:
        return sum(stage.numTasks for stage in self._stages())

    def _stages(self) -> list[SparkStageInfo]:
        jobs = [self._tracker.getJobInfo(job) for job in self._tracker.getJobIdsForGroup(self._group)]
        stages = [self._tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return [stage for stage in stages if stage]


class ConnectCounter:
    """Counts tasks from the events of a Connect server; register it as a progress handler."""

    def __init__(self) -> None:
        self._done = 0
        self._known = 0

    def __call__(self, stages: Iterable[Any] | None, **_: Any) -> None:
        reported = list(stages or ())
        self._done = max(self._done, sum(stage.num_completed_tasks for stage in reported))
        self._known = max(self._known, sum(stage.num_tasks for stage in reported))

    def tasks_done(self) -> int:
        return self._done

    def tasks_known(self) -> int:
        return self._known


class _SparkJob(Protocol):
    """One action on one kind of session."""

    def mark_thread(self) -> None:
        """Name the jobs that this thread starts, so that they can be cancelled."""

    def report(self) -> None:
        """Report the progress."""

    def cancel(self) -> None:
        """Ask Spark to cancel the jobs."""

    def abandon(self) -> None:
        """Close the connection, because Spark did not cancel the jobs."""

    def has_lost_java(self) -> bool:
        """Return whether the Java process that this process started has ended."""

    def close(self) -> None:
        """Release what the job registered, after the action has ended."""


def _poll(job: _SparkJob, running: Future[Outcome], tick: Callable[[], None]) -> None:
    while wait([running], limits.SPARK_POLL_SECONDS).not_done:
        with _delayed_interrupts():
            job.report()
        tick()


@contextmanager
def _delayed_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block: an interrupted request breaks the connection that cancels the job."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if received and callable(handler):
        handler(*received[0])


def _stop(job: _SparkJob, running: Future[Outcome]) -> None:
    cancel_build()
    job.cancel()
    if wait([running], limits.SPARK_CANCEL_SECONDS_MAX).not_done:
        job.abandon()


class _ClassicJob:
    def __init__(self, session: SparkSession, watch: Watch) -> None:
        self._group = f"omnigraph-{uuid4().hex}"
        self._context = session.sparkContext
        self._counter = JobGroupCounter(session, self._group)
        self._watch = watch

    def mark_thread(self) -> None:
        self._context.setJobGroup(self._group, "omnigraph", interruptOnCancel=True)

    def report(self) -> None:
        self._watch.update(self._counter)

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)

    def abandon(self) -> None:
        process = getattr(self._context._gateway, "proc", None)
        if process is not None:
            process.kill()

    def has_lost_java(self) -> bool:
        process = getattr(self._context._gateway, "proc", None)
        if process is None:
            return False
        with suppress(subprocess.TimeoutExpired):  # its connections close shortly before it ends
            process.wait(limits.SPARK_POLL_SECONDS)
        return process.poll() is not None

    def close(self) -> None:
        pass


class _ConnectJob:
    def __init__(self, session: SparkSession, watch: Watch) -> None:
        self._tag = f"omnigraph-{uuid4().hex}"
        self._session = session
        self._counter = ConnectCounter()
        # Spark declares a class for the handler, but calls any object with the same arguments.
        self._handler = cast(Any, self._counter)
        self._watch = watch
        self._session.registerProgressHandler(self._handler)

    def mark_thread(self) -> None:
        self._session.addTag(self._tag)

    def report(self) -> None:
        self._watch.update(self._counter)

    def cancel(self) -> None:
        self._session.interruptTag(self._tag)

    def abandon(self) -> None:
        self._session.stop()

    def has_lost_java(self) -> bool:
        return False

    def close(self) -> None:
        self._session.removeProgressHandler(self._handler)
