"""Chooses where a job runs: in this process if it is small, otherwise on Spark.

In: what the caller asked for, the Spark settings, and the size of each job. Out: a runner. `choose_runner` is the rule.
An operation plans its tasks first, so that a run with nothing to do starts nothing. After a job on Spark the next jobs
of the same operation use its session.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.base.progress import Report, ignore_progress
from omnigraph.pipeline.runner import LocalRunner, Result, Runner, Task, task_info
from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.pipeline.spark.session import SparkSettings, active_session, configured_master
from omnigraph.storage.location import Location, Scheme, require_shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNNER_VARIABLE: Final = "OMNIGRAPH_RUNNER"


class RunnerChoice(StrEnum):
    """Where the caller wants a job to run."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class JobSize:
    """The input of a job; `bytes` is 0 if a job reads only metadata."""

    tasks: int
    bytes: int = 0


def choose_runner(choice: RunnerChoice, size: JobSize, *, names_spark: bool) -> RunnerChoice:
    """Return `LOCAL` or `SPARK`. `names_spark`: the caller or the configuration names a Spark, or one is active."""
    if choice is not RunnerChoice.AUTO:
        return choice
    is_small = size.bytes <= limits.LOCAL_RUNNER_BYTES_MAX and size.tasks <= limits.LOCAL_RUNNER_TASKS_MAX
    return RunnerChoice.LOCAL if is_small and not names_spark else RunnerChoice.SPARK


def parse_runner(name: str | None, environ: Mapping[str, str] = os.environ) -> RunnerChoice:
    """Return the choice of a caller; None: the value of the environment variable, or `auto`."""
    text = name if name is not None else environ.get(RUNNER_VARIABLE) or RunnerChoice.AUTO
    try:
        return RunnerChoice(text)
    except ValueError:
        source = "runner" if name is not None else RUNNER_VARIABLE
        raise UsageError(
            f"invalid {source}: expected auto, local or spark, got '{text}'",
            code="runner",
            hint="Use `auto` to run small jobs in this process and large ones on Spark.",
        ) from None


def choose_for_graph(choice: RunnerChoice, root: Location) -> RunnerChoice:
    """Return the choice for jobs on a graph: a graph in memory exists only in this process, which Spark cannot read."""
    if root.scheme is not Scheme.MEMORY:
        return choice
    if choice is RunnerChoice.SPARK:
        require_shared(root)
    return RunnerChoice.LOCAL


@dataclass(slots=True)
class AutoRunner:
    """Runs each job of one operation where `choose_runner` says."""

    choice: RunnerChoice = RunnerChoice.AUTO
    settings: SparkSettings = field(default_factory=SparkSettings)
    report: Report = ignore_progress
    _spark: SparkRunner | None = None

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> Sequence[Result]:
        """Return the results in the order of the tasks."""
        read_bytes = task_info(function).input_bytes
        size = JobSize(len(tasks), 0 if read_bytes is None else sum(map(read_bytes, tasks)))
        return self._runner(size)(function, tasks)

    @property
    def description(self) -> str:
        return LocalRunner.description if self._spark is None else self._spark.description

    def prefer_spark(self) -> None:
        """Run the next jobs on Spark, whatever their size, unless the caller chose this process."""
        if self.choice is not RunnerChoice.LOCAL:
            self._spark = self._spark or SparkRunner(self.settings, self.report)

    def use_session(self, session: SparkSession) -> None:
        """Run the next jobs on this session: only Spark can read its DataFrames."""
        if self.choice is RunnerChoice.LOCAL:
            raise UsageError(
                "runner 'local' cannot read a DataFrame of Spark",
                code="runner",
                hint="Nothing was written. Use the runner `auto` or `spark`, or pass `frame.toArrow()`.",
            )
        self._spark = SparkRunner(self.settings, self.report, session)

    def shares_disk(self, job_bytes: int, /) -> bool:
        return self._runner(JobSize(1, job_bytes)).shares_disk(job_bytes)

    def _runner(self, size: JobSize) -> Runner:
        names_spark = self._spark is not None or _names_spark(self.settings)
        if choose_runner(self.choice, size, names_spark=names_spark) is RunnerChoice.LOCAL:
            return LocalRunner(self.report)
        self.prefer_spark()
        assert self._spark is not None, "the caller did not choose this process"
        return self._spark


def _names_spark(settings: SparkSettings) -> bool:
    """Return whether the caller, Spark's own settings or this process names a Spark."""
    if settings.session is not None or settings.master is not None or settings.conf or configured_master() is not None:
        return True
    return "pyspark" in sys.modules and active_session() is not None
