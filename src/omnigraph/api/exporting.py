"""`Graph.export`: a snapshot goes out as lines of graph data or as Parquet files. It runs on Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from omnigraph.base.errors import UsageError
from omnigraph.base.progress import Report, report_nothing
from omnigraph.pipeline.connect import is_connect
from omnigraph.pipeline.export import Exported, ExportRequest, export
from omnigraph.pipeline.export_part import ExportFormat, Part, write_part
from omnigraph.pipeline.export_target import TargetKind, parse_target
from omnigraph.pipeline.session import SparkSettings, spark_session
from omnigraph.pipeline.tasks import RunOptions, run_tasks
from omnigraph.pipeline.watch import TaskSize
from omnigraph.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How to export. `out` None writes lines to `stream`, which is stdout unless given; no types are all of them."""

    out: str | None = None
    format: str = "ndjson"
    types: tuple[str, ...] = ()
    commit: str | None = None
    force: bool = False
    stream: BinaryIO | None = None
    spark: SparkSettings = field(default_factory=SparkSettings)
    report: Report = report_nothing


@dataclass(frozen=True, slots=True)
class ExportOutcome:
    """What an export did, and the shape of what it wrote."""

    exported: Exported
    kind: TargetKind
    format: ExportFormat


def export_graph(root: Location, branch: str, options: ExportOptions) -> ExportOutcome:
    """Export a branch, or what one of its commits published. Nothing of the graph changes."""
    format_ = _format(options.format)
    target = parse_target(options.out, format_, dict(root.options) or None, force=options.force)
    stream = options.stream or sys.stdout.buffer if target.kind is TargetKind.STREAM else None
    request = ExportRequest(target, format_, options.types, branch, options.commit, stream)
    return ExportOutcome(export(root, request, SparkWorkers(options)), target.kind, format_)


@dataclass(slots=True)
class SparkWorkers:
    """Tasks on a Spark session that starts when the first of them is asked for."""

    options: ExportOptions

    def run(self, step: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
        how = RunOptions(step, self.options.report, part_size if function is write_part else None)
        return run_tasks(self._session(), function, tasks, how)

    def share_disk(self) -> bool:
        session = self._session()
        return not is_connect(session) and str(session.sparkContext.master).startswith("local")

    def _session(self) -> SparkSession:
        return spark_session(self.options.spark)


def part_size(part: Part) -> TaskSize:
    """What a finished part adds to the progress."""
    return TaskSize(part.rows, part.size_bytes)


def _format(name: str) -> ExportFormat:
    try:
        return ExportFormat(name)
    except ValueError as unknown:
        names = ", ".join(found.value for found in ExportFormat)
        raise UsageError(
            f"'{name}' is no export format", code="export_format", hint=f"pass one of {names}"
        ) from unknown
