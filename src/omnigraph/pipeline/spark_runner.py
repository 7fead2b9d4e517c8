"""Runs tasks on a Spark session, which starts with the first task, so a run without work starts none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.base.progress import Report, report_nothing
from omnigraph.pipeline.connect import is_on_this_machine
from omnigraph.pipeline.runner import Result, RunTasks, Task, batches_of, maintenance_concurrency, task_info
from omnigraph.pipeline.session import SparkSettings, spark_session
from omnigraph.pipeline.tasks import RunOptions, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def on_spark(settings: SparkSettings, report: Report = report_nothing) -> RunTasks:
    """Return a runner for the configured session that reports the progress of its tasks."""

    def run(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
        info = task_info(function)
        size = maintenance_concurrency() if info.is_table else max(1, len(tasks))
        options = RunOptions(info.step, report, info.measure)
        return [
            result
            for part in batches_of(tasks, size)
            for result in run_tasks(spark_session(settings), function, part, options)
        ]

    return run


def on_master(master: str | None, report: Report | None) -> RunTasks:
    """Return a runner for a master by its URL; None is the configured one."""
    return on_spark(SparkSettings(master=master), report or report_nothing)


@dataclass(frozen=True, slots=True)
class SparkWorkers:
    """Executors of the session that the settings choose; `report` receives their progress."""

    settings: SparkSettings = field(default_factory=SparkSettings)
    report: Report = report_nothing

    def run(self, step: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
        return run_tasks(
            self._session(), function, tasks, RunOptions(step, self.report, task_info(function).measure)
        )

    def share_disk(self) -> bool:
        return is_on_this_machine(self._session())

    def _session(self) -> SparkSession:
        return spark_session(self.settings)
