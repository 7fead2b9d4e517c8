"""The workers of an export: tasks on a Spark session, which starts when the first of them is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from omnigraph.base.progress import Report, report_nothing
from omnigraph.pipeline.connect import is_on_this_machine
from omnigraph.pipeline.export_part import Part, write_part
from omnigraph.pipeline.session import SparkSettings, spark_session
from omnigraph.pipeline.tasks import RunOptions, run_tasks
from omnigraph.pipeline.watch import TaskSize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SparkWorkers:
    """Executors of the session that the settings choose; `report` is told how far they are."""

    settings: SparkSettings = field(default_factory=SparkSettings)
    report: Report = report_nothing

    def run(self, step: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
        measure = part_size if function is write_part else None
        return run_tasks(self._session(), function, tasks, RunOptions(step, self.report, measure))

    def share_disk(self) -> bool:
        return is_on_this_machine(self._session())

    def _session(self) -> SparkSession:
        return spark_session(self.settings)


def part_size(part: Part) -> TaskSize:
    """What a finished part adds to the progress."""
    return TaskSize(part.rows, part.size_bytes)
