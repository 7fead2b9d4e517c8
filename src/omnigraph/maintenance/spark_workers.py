"""Runs maintenance tasks on Spark. The session starts with the first task, so a run without work starts none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from omnigraph.base.progress import Report, report_nothing
from omnigraph.maintenance.cleanup_tasks import plan_dataset, read_pins
from omnigraph.maintenance.concurrency import batches_of, maintenance_concurrency
from omnigraph.maintenance.index_tasks import BuiltSegments, build_segments, train_index
from omnigraph.maintenance.rewrite_tasks import rewrite_group
from omnigraph.maintenance.schema_tasks import fill_columns, run_check
from omnigraph.maintenance.task_outcome import TaskOutcome
from omnigraph.pipeline.load_source import Result, RunTasks, Task
from omnigraph.pipeline.session import SparkSettings, spark_session
from omnigraph.pipeline.tasks import RunOptions, run_tasks
from omnigraph.pipeline.watch import TaskSize
from omnigraph.storage.compaction import Rewritten

_STEPS: Final = {
    train_index.__name__: "train indexes",
    read_pins.__name__: "read snapshots",
    plan_dataset.__name__: "find files",
    run_check.__name__: "check rows",
    fill_columns.__name__: "write columns",
}


def on_spark(settings: SparkSettings, report: Report = report_nothing) -> RunTasks:
    """Whoever runs tasks on the configured session and reports how far they are."""

    def run(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
        # A task of this one is a table; the other callers choose the tables of a job themselves.
        size = maintenance_concurrency() if function is plan_dataset else max(1, len(tasks))
        options = _options(function, report)
        return [
            result
            for part in batches_of(tasks, size)
            for result in run_tasks(spark_session(settings), function, part, options)
        ]

    return run


def on_master(master: str | None, report: Report | None) -> RunTasks:
    """The same for a master by its URL; the configured one when None."""
    return on_spark(SparkSettings(master=master), report or report_nothing)


def built_size(built: TaskOutcome[BuiltSegments]) -> TaskSize:
    """What a finished build adds to the progress."""
    return TaskSize(rows=built.result.rows if isinstance(built.result, BuiltSegments) else 0)


def rewritten_size(rewritten: TaskOutcome[Rewritten]) -> TaskSize:
    """What a finished rewrite adds to the progress."""
    new = rewritten.result.new if isinstance(rewritten.result, Rewritten) else ()
    return TaskSize(rows=sum(fragment.num_rows for fragment in new))


def _options(function: Callable[..., Any], report: Report) -> RunOptions:
    if function is rewrite_group:
        return RunOptions("rewrite fragments", report, rewritten_size)
    if function is build_segments:
        return RunOptions("build indexes", report, built_size)
    return RunOptions(_STEPS.get(function.__name__, "work"), report)
