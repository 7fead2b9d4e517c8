"""Follows a running Spark job: how many tasks have finished, and how much they did.

A classic session is asked about its stages, and finished tasks add their size to an accumulator. A Connect session
calls a handler with the counts and has no accumulators, so sizes stay unknown there. Looking does not slow the
job down, and every event is a value for whoever asked for the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.progress import Progress, Report
from omnigraph.pipeline.runner import TaskSize

if TYPE_CHECKING:
    from pyspark import SparkStageInfo
    from pyspark.sql import SparkSession


class SizeSum(Protocol):
    """Where tasks add their sizes; only the driver reads the sum."""

    @property
    def value(self) -> TaskSize: ...

    def add(self, term: TaskSize) -> None: ...


class TaskCounter(Protocol):
    """Asks Spark how many tasks of a job have finished, and of how many that it knows."""

    def tasks_done(self) -> int: ...

    def tasks_known(self) -> int: ...


class Watch:
    """Turns what Spark says about one job into progress events, each only when something has changed."""

    def __init__(self, step: str, tasks_total: int | None, report: Report) -> None:
        """Without `tasks_total`, Spark is asked for that too: it learns of a plan's tasks stage by stage."""
        self._step = step
        self._asks_total = tasks_total is None
        self._tasks_total = tasks_total or 0
        self._report = report
        self._started = SYSTEM_CLOCK.monotonic()
        self._told: tuple[int, TaskSize | None] | None = None
        self._bytes_total: int | None = None
        self._size_sum: SizeSum | None = None

    def measure_with(self, size_sum: SizeSum | None, bytes_total: int | None) -> None:
        """Tell sizes too, out of this sum."""
        self._size_sum, self._bytes_total = size_sum, bytes_total

    def look(self, counter: TaskCounter) -> None:
        """Tell what has changed since the last look."""
        if self._asks_total:
            self._tasks_total = max(self._tasks_total, counter.tasks_known())
        self._tell(min(counter.tasks_done(), self._tasks_total), is_last=False)

    def finish(self) -> None:
        """Tell that all is done."""
        self._tell(self._tasks_total, is_last=True)

    def _tell(self, tasks_done: int, *, is_last: bool) -> None:
        size = self._size_sum.value if self._size_sum else None
        if (tasks_done, size) == self._told and not is_last:
            return
        self._told = (tasks_done, size)
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


def make_size_sum(session: SparkSession) -> SizeSum:
    """An accumulator of sizes; a classic session only."""
    from pyspark.accumulators import AccumulatorParam

    class _Sizes(AccumulatorParam[TaskSize]):
        def zero(self, value: TaskSize) -> TaskSize:
            return type(value)()

        def addInPlace(self, value1: TaskSize, value2: TaskSize) -> TaskSize:  # noqa: N802  # Spark's own name
            return value1 + value2

    param: AccumulatorParam[Any] = _Sizes()
    return session.sparkContext.accumulator(TaskSize(), param)


class JobGroupCounter:
    """Counts through the status tracker of a classic session."""

    def __init__(self, session: SparkSession, group: str) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._group = group

    def tasks_done(self) -> int:
        return sum(stage.numCompletedTasks for stage in self._stages())

    def tasks_known(self) -> int:
        return sum(stage.numTasks for stage in self._stages())

    def _stages(self) -> list[SparkStageInfo]:
        jobs = [self._tracker.getJobInfo(job) for job in self._tracker.getJobIdsForGroup(self._group)]
        found = [self._tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return [stage for stage in found if stage]


class ConnectCounter:
    """Counts what a Connect server tells its client; register it as a progress handler."""

    def __init__(self) -> None:
        self._done = 0
        self._known = 0

    def __call__(self, stages: Iterable[Any] | None, **_: Any) -> None:
        told = list(stages or ())
        self._done = max(self._done, sum(stage.num_completed_tasks for stage in told))
        self._known = max(self._known, sum(stage.num_tasks for stage in told))

    def tasks_done(self) -> int:
        return self._done

    def tasks_known(self) -> int:
        return self._known
