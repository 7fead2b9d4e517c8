"""`Graph.export`: a snapshot goes out as lines of graph data or as Parquet files. It runs on Spark."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.base.errors import UsageError
from omnigraph.base.ids import CommitId
from omnigraph.base.progress import Report, ignore_progress
from omnigraph.graph.manifest.refs import SnapshotSelector
from omnigraph.pipeline.export.run import Exported, ExportRequest, export
from omnigraph.pipeline.export.target import TargetKind, parse_target
from omnigraph.pipeline.export.tasks import ExportFormat
from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.pipeline.spark.session import SparkSettings
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How to export. `out` None writes lines to stdout; no types are all of them."""

    out: str | None = None
    format: str = "ndjson"
    types: tuple[str, ...] = ()
    when: SnapshotSelector = field(default_factory=SnapshotSelector)
    force: bool = False
    spark: SparkSettings = field(default_factory=SparkSettings)
    report: Report = ignore_progress


@dataclass(frozen=True, slots=True)
class ExportOutcome:
    """What an export did."""

    exported: Exported
    kind: TargetKind
    """The shape of what it wrote."""
    format: ExportFormat
    """How the rows are written."""

    @property
    def counts(self) -> Mapping[str, int]:
        """The rows by the alias of their type, `node:Person` or `edge:Knows`."""
        return self.exported.counts

    @property
    def total(self) -> int:
        """All rows."""
        return self.exported.total

    @property
    def commit(self) -> CommitId:
        """The newest commit of what was exported."""
        return self.exported.commit

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it wrote, as absolute paths or `s3://…`; none for stdout."""
        return tuple(file.uri for file in self.exported.files)

    @property
    def size_bytes(self) -> int:
        """How many bytes it wrote."""
        return self.exported.size_bytes


def export_graph(root: Location, branch: str, options: ExportOptions) -> ExportOutcome:
    """Export a branch as it is, or an earlier state of it. Nothing of the graph changes."""
    format_ = _format(options.format)
    target = parse_target(
        options.out, format_, dict(root.options), force=options.force, durability=root.durability
    )
    stream = sys.stdout.buffer if target.kind is TargetKind.STREAM else None
    request = ExportRequest(target, format_, options.types, branch, options.when, stream)
    return ExportOutcome(
        export(root, request, SparkRunner(options.spark, options.report)), target.kind, format_
    )


def _format(name: str) -> ExportFormat:
    try:
        return ExportFormat(name)
    except ValueError as unknown:
        names = ", ".join(found.value for found in ExportFormat)
        raise UsageError(
            f"'{name}' is no export format", code="export_format", hint=f"pass one of {names}"
        ) from unknown
