"""Runs one Spark action, reports its progress and cancels it on an interrupt.

In: a session, an action and its `JobProgress`. Out: what the action returns. The action runs in a thread of its own
while the calling thread polls Spark for finished tasks. After Ctrl-C or any other exception the job is cancelled on the
cluster, and the exception is raised when the action has ended. An exception of Spark is raised as an Omnigraph error.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import uuid4

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.progress import Progress, Report
from omnigraph.pipeline.runner import TaskSize
from omnigraph.pipeline.spark.connect import is_connect
from omnigraph.pipeline.spark.jvm import spark_log
from omnigraph.pipeline.spark.task_errors import decode_error, java_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Outcome = TypeVar("Outcome")


def run_job(
    session: SparkSession, action: Callable[[], Outcome], progress: JobProgress, tick: Callable[[], None] = lambda: None
) -> Outcome:
    """Return what the action returns. `tick` is called while it runs; an exception of `tick` ends the action."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import inheritable_thread_target
    from pyspark.errors import PySparkException

    job = _ConnectJob(session) if is_connect(session) else _ClassicJob(session)

    def act() -> Outcome:
        job.mark_thread()
        return action()

    with ThreadPoolExecutor(1, "omnigraph-spark") as threads:
        running: Future[Outcome] = threads.submit(inheritable_thread_target(session)(act))
        try:
            while wait([running], limits.SPARK_POLL_SECONDS).not_done:
                with _delayed_interrupts():
                    progress.update(job.count_tasks())
                tick()
            outcome = running.result()
        except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
            if job.has_lost_java():
                raise java_ended(str(spark_log())) from error
            if isinstance(error, ConnectionError | EOFError):
                raise
            raise decode_error(error, str(spark_log())) from error
        finally:
            if not running.done() and not job.has_lost_java():
                job.cancel()
                if wait([running], limits.SPARK_CANCEL_SECONDS_MAX).not_done:
                    job.abandon()
            job.close()
    progress.finish()
    return outcome


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """How many tasks of a job are finished, and how many Spark knows of."""

    done: int
    total: int


class JobProgress:
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

    def update(self, counts: TaskCounts) -> None:
        """Report what has changed since the last call."""
        if self._asks_total:
            self._tasks_total = max(self._tasks_total, counts.total)
        self._send(min(counts.done, self._tasks_total), is_last=False)

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
                step=self._step,
                seconds=SYSTEM_CLOCK.monotonic() - self._started,
                tasks_done=tasks_done,
                tasks_total=self._tasks_total,
                rows=size.rows if size else None,
                bytes=size.bytes if size else None,
                bytes_total=self._bytes_total,
                is_last=is_last,
            )
        )


class SizeSum(Protocol):
    """The sum of the sizes of tasks; only the driver reads it."""

    @property
    def value(self) -> TaskSize: ...


class SizeAccumulator(SizeSum, Protocol):
    """An accumulator of Spark, to which tasks add their sizes when they are finished."""

    def add(self, term: TaskSize) -> None: ...


def make_size_sum(session: SparkSession) -> SizeAccumulator:
    """Return an accumulator of sizes. Only a classic session has them."""
    from pyspark.accumulators import AccumulatorParam

    class _Sizes(AccumulatorParam[TaskSize]):
        def zero(self, value: TaskSize) -> TaskSize:
            return type(value)()

        def addInPlace(self, value1: TaskSize, value2: TaskSize) -> TaskSize:  # noqa: N802  # the name that Spark requires
            return value1 + value2

    param: AccumulatorParam[Any] = _Sizes()
    return session.sparkContext.accumulator(TaskSize(), param)


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


class _ClassicJob:
    """One action on a classic session."""

    def __init__(self, session: SparkSession) -> None:
        self._group = f"omnigraph-{uuid4().hex}"
        self._context = session.sparkContext
        self._process: subprocess.Popen[bytes] | None = getattr(self._context._gateway, "proc", None)

    def mark_thread(self) -> None:
        """Name the jobs that this thread starts, so that they can be cancelled."""
        self._context.setJobGroup(self._group, "omnigraph", interruptOnCancel=True)

    def count_tasks(self) -> TaskCounts:
        """Return what Spark knows of the tasks."""
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        known_stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        stages = [stage for stage in known_stages if stage]
        return TaskCounts(sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages))

    def cancel(self) -> None:
        """Ask Spark to cancel the jobs."""
        self._context.cancelJobGroup(self._group)

    def abandon(self) -> None:
        """Close the connection, because Spark did not cancel the jobs."""
        if self._process is not None:
            self._process.kill()

    def has_lost_java(self) -> bool:
        """Return whether the Java process that this process started has ended."""
        if self._process is None:
            return False
        with suppress(subprocess.TimeoutExpired):  # its connections close shortly before it ends
            self._process.wait(limits.SPARK_POLL_SECONDS)
        return self._process.poll() is not None

    def close(self) -> None:
        """Release what the job registered, after the action has ended."""


class _ConnectJob:
    """One action on a session of Spark Connect, with the methods of `_ClassicJob`."""

    def __init__(self, session: SparkSession) -> None:
        self._tag = f"omnigraph-{uuid4().hex}"
        self._session = session
        self._counts = TaskCounts(0, 0)
        # Spark declares a class for the handler, but calls any object with the same arguments.
        self._handler = cast(Any, self._count)
        session.registerProgressHandler(self._handler)

    def mark_thread(self) -> None:
        self._session.addTag(self._tag)

    def count_tasks(self) -> TaskCounts:
        return self._counts

    def _count(self, stages: Iterable[Any] | None, **_: Any) -> None:
        reported = list(stages or ())
        self._counts = TaskCounts(
            max(self._counts.done, sum(stage.num_completed_tasks for stage in reported)),
            max(self._counts.total, sum(stage.num_tasks for stage in reported)),
        )

    def cancel(self) -> None:
        self._session.interruptTag(self._tag)

    def abandon(self) -> None:
        self._session.stop()

    def has_lost_java(self) -> bool:
        return False

    def close(self) -> None:
        self._session.removeProgressHandler(self._handler)
