"""Runs one Spark action so that it can be watched and stopped.

The action runs in a thread of its own; this one looks after it. When it is interrupted, by Ctrl-C or any other
exception, the job is cancelled on the cluster and the exception goes on as soon as the action has ended. What Spark
raises is turned into an error of ours.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import uuid4

from omnigraph.base import limits
from omnigraph.pipeline.class_archive import cancel_build
from omnigraph.pipeline.connect import is_connect
from omnigraph.pipeline.jvm import spark_log
from omnigraph.pipeline.task_errors import java_ended, unpack_error
from omnigraph.pipeline.watch import ConnectCounter, JobGroupCounter, Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Outcome = TypeVar("Outcome")


def run_job(
    session: SparkSession,
    action: Callable[[], Outcome],
    watch: Watch,
    tick: Callable[[], None] = lambda: None,
) -> Outcome:
    """What the action returns. `tick` is called while it runs; what it raises ends the action."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import inheritable_thread_target
    from pyspark.errors import PySparkException

    job: _Job = _ConnectJob(session, watch) if is_connect(session) else _ClassicJob(session, watch)

    def act() -> Outcome:
        job.mark_thread()
        return action()

    with ThreadPoolExecutor(1, "omnigraph-spark") as threads:
        running: Future[Outcome] = threads.submit(inheritable_thread_target(session)(act))
        try:
            _look_after(job, running, tick)
            outcome = running.result()
        except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
            if job.has_lost_java():
                raise java_ended(str(spark_log())) from error
            if isinstance(error, ConnectionError | EOFError):
                raise
            raise unpack_error(error, str(spark_log())) from error
        finally:
            if not running.done() and not job.has_lost_java():
                _stop(job, running)
            job.forget()
    watch.finish()
    return outcome


class _Job(Protocol):
    """One action on one kind of session."""

    def mark_thread(self) -> None:
        """Give the jobs that this thread starts a name by which they can be cancelled."""

    def look(self) -> None:
        """Report how far it is."""

    def cancel(self) -> None:
        """Ask Spark to stop it."""

    def abandon(self) -> None:
        """Cut the connection when Spark does not stop it."""

    def has_lost_java(self) -> bool:
        """Whether the Java process that this one started has ended."""

    def forget(self) -> None:
        """It has ended."""


def _look_after(job: _Job, running: Future[Outcome], tick: Callable[[], None]) -> None:
    while wait([running], limits.SPARK_POLL_SECONDS).not_done:
        with _interrupts_later():
            job.look()
        tick()


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Let Ctrl-C wait a moment: amid an answer it would break the connection that is needed to cancel the job."""
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


def _stop(job: _Job, running: Future[Outcome]) -> None:
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

    def look(self) -> None:
        self._watch.look(self._counter)

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
        with suppress(subprocess.TimeoutExpired):  # its connections close a moment before it is gone
            process.wait(limits.SPARK_POLL_SECONDS)
        return process.poll() is not None

    def forget(self) -> None:
        pass


class _ConnectJob:
    def __init__(self, session: SparkSession, watch: Watch) -> None:
        self._tag = f"omnigraph-{uuid4().hex}"
        self._session = session
        self._counter = ConnectCounter()
        # Spark wants a class of its own here, and calls it by the same words.
        self._handler = cast(Any, self._counter)
        self._watch = watch
        self._session.registerProgressHandler(self._handler)

    def mark_thread(self) -> None:
        self._session.addTag(self._tag)

    def look(self) -> None:
        self._watch.look(self._counter)

    def cancel(self) -> None:
        self._session.interruptTag(self._tag)

    def abandon(self) -> None:
        self._session.stop()

    def has_lost_java(self) -> bool:
        return False

    def forget(self) -> None:
        self._session.removeProgressHandler(self._handler)
