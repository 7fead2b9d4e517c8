"""Export: the driver that writes a snapshot of any size as lines of graph data or as Parquet files.

In: a graph, the types to export, and a target. Out: an `ExportResult` with exact counts. The driver divides tables into
parts by ids that workers sample (`plan`), workers read, sort and write parts (`tasks`), and the driver joins them. No
table is held in memory. The order is that of the types in the schema, nodes before edges, and of the bytes of the ids,
so the same graph gives the same bytes on every runner and with every file layout. The graph is never changed. If an
export fails, only complete files have final names.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO

from omnigraph.base import limits
from omnigraph.base.display import Displayed
from omnigraph.base.errors import InvariantError
from omnigraph.base.ids import CommitId
from omnigraph.base.progress import log_event
from omnigraph.graph.manifest.refs import SnapshotSelector, read_state
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, pinned_version
from omnigraph.graph.manifest.stamp import FORMAT, StorageFormat
from omnigraph.graph.scratch import Scratch
from omnigraph.pipeline.export.plan import (
    ExportTable,
    TableExportPlan,
    group_slices,
    is_one_part,
    plan_table,
    plan_whole,
)
from omnigraph.pipeline.export.rows import RunPiece, RunTask, SampleTask, sample_ids, write_run
from omnigraph.pipeline.export.target import (
    PARTS,
    ExportTarget,
    TargetKind,
    copy_parts,
    delete_parts,
    delete_target_parts,
    deliver_file,
    deliver_folder,
    open_work_directory,
    part_name,
    require_free_target,
)
from omnigraph.pipeline.export.tasks import ExportFormat, Part, PartTask, write_part
from omnigraph.pipeline.runner import Result, Runner, Task, batches_of
from omnigraph.storage.lance.read import slice_dataset
from omnigraph.storage.location import Location

logger = logging.getLogger("omnigraph.export")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What to export, and where to. Without types, all are exported. A target of kind stream needs `stream`.

    `part_bytes` is about how long the text of a part is; it decides the bounds of parts.
    """

    target: ExportTarget
    format: ExportFormat = ExportFormat.NDJSON
    types: tuple[str, ...] = ()
    branch: str = MAIN
    selector: SnapshotSelector = field(default_factory=SnapshotSelector)
    stream: BinaryIO | None = None
    part_bytes: int = limits.EXPORT_PART_BYTES


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExportResult(Displayed):
    """The result of an export."""

    counts: Mapping[str, int]
    """The exported rows by the alias of their type, `node:Person` or `edge:Knows`."""
    commit: CommitId
    """The newest commit of the exported state."""
    files: tuple[str, ...]
    """The files that it wrote, as absolute paths or `s3://…`; none for stdout."""
    size_bytes: int
    """How many bytes it wrote."""
    kind: TargetKind
    """Whether it wrote a file, a directory or to stdout."""
    format: ExportFormat
    """How the rows are written."""
    runner: str = "local"
    """Where the export ran: `local`, or `spark` and its master."""

    @property
    def total(self) -> int:
        """The number of exported rows."""
        return sum(self.counts.values())

    def _summary(self) -> Mapping[str, object]:
        return {
            "commit": self.commit,
            "format": self.format.value,
            "files": len(self.files),
            "size_bytes": f"{self.size_bytes:,}",
            "total": f"{self.total:,}",
            **{alias: f"{count:,}" for alias, count in self.counts.items()},
        }


def export(
    root: Location, request: ExportOptions, runner: Runner, storage_format: StorageFormat = FORMAT
) -> ExportResult:
    """Export a snapshot, or raise and delete what was written."""
    started = time.monotonic()
    snapshot = read_state(root, request.branch, request.selector, storage_format)
    tables = _select_tables(snapshot, request.types)
    require_free_target(request.target)
    with open_work_directory(root, request.target, shares_disk=runner.shares_disk(_data_bytes(tables))) as scratch:
        state = _Export(request, runner, scratch)
        tasks = state.plan(tables)
        parts = state.stream(tasks) if request.target.kind is TargetKind.STREAM else state.write(tasks)
        size = sum(part.size_bytes for part in parts)
        files: tuple[Location, ...] = ()
        if request.target.kind is TargetKind.FILE:
            size = deliver_file(request.target, parts)
            files = (request.target.destination,)
        elif request.target.kind is TargetKind.FOLDER:
            files = deliver_folder(request.target, parts)
    rows = _count_rows(tasks, parts)
    counts = {table.entity.alias: rows[table.entity.alias] for table in tables}
    uris = tuple(file.uri for file in files)
    log_event(
        logger,
        "exported",
        branch=request.branch,
        commit=snapshot.head,
        rows=dict(counts),
        files=len(uris),
        bytes=size,
        runner=runner.description,
        seconds=round(time.monotonic() - started, 3),
    )
    return ExportResult(
        counts=counts,
        commit=snapshot.head,
        files=uris,
        size_bytes=size,
        kind=request.target.kind,
        format=request.format,
        runner=runner.description,
    )


@dataclass(frozen=True, slots=True)
class _Export:
    """The state of one export."""

    request: ExportOptions
    runner: Runner
    scratch: Scratch

    def plan(self, tables: Sequence[ExportTable]) -> list[PartTask]:
        """Plan the parts of all tables, in the order of the export; sort tables that are not stored in id order."""
        slices = [slice_dataset(table.version.open(), limits.EXPORT_SAMPLE_ROWS) for table in tables]
        samplings = [
            [] if is_one_part(table.rows) else list(group_slices(table_slices, limits.EXPORT_SAMPLE_ROWS))
            for table, table_slices in zip(tables, slices, strict=True)
        ]
        samples = self._run_by_table(
            sample_ids,
            [[SampleTask(table, pieces) for pieces in groups] for table, groups in zip(tables, samplings, strict=True)],
        )
        plans = [
            plan_whole(table_slices)
            if is_one_part(table.rows)
            else plan_table(table.rows, table_samples, self.request.part_bytes)
            for table, table_slices, table_samples in zip(tables, slices, samples, strict=True)
        ]
        runs = self._run_by_table(
            write_run,
            [
                [
                    RunTask(
                        table=table, slices=pieces, batch_rows=plan.batch_rows, bounds=plan.bounds, scratch=self.scratch
                    )
                    for pieces in plan.runs
                ]
                for table, plan in zip(tables, plans, strict=True)
            ],
        )
        tasks: list[PartTask] = []
        for table, plan, table_runs in zip(tables, plans, runs, strict=True):
            tasks += self._part_tasks(table, plan, table_runs)
        return tasks

    def write(self, tasks: Sequence[PartTask]) -> Sequence[Part]:
        try:
            parts = self.runner(write_part, tasks)
            _require_all_rows(tasks, parts)
        except BaseException:
            if self.request.target.takes_parts:
                delete_target_parts(self.request.target, [task.output.uri.rpartition("/")[2] for task in tasks])
            raise
        return parts

    def stream(self, tasks: Sequence[PartTask]) -> Sequence[Part]:
        """Write some parts at a time, and copy them to the stream before the next parts are written."""
        assert self.request.stream is not None, "a target of kind stream has a stream"
        parts: list[Part] = []
        for batch in batches_of(tasks, limits.EXPORT_STREAMED_PARTS):
            written = self.runner(write_part, batch)
            copy_parts(written, self.request.stream)
            delete_parts(written)
            parts += written
        _require_all_rows(tasks, parts)
        return parts

    def _run_by_table(
        self, function: Callable[[Task], Result], tasks: Sequence[Sequence[Task]]
    ) -> list[tuple[Result, ...]]:
        """Run the tasks of all tables together; return the results of each table."""
        all_tasks = [task for table_tasks in tasks for task in table_tasks]
        results = iter(self.runner(function, all_tasks) if all_tasks else ())
        return [tuple(islice(results, len(table_tasks))) for table_tasks in tasks]

    def _part_tasks(
        self, table: ExportTable, plan: TableExportPlan, runs: Sequence[Mapping[int, RunPiece]]
    ) -> list[PartTask]:
        request = self.request
        if not table.rows and request.format is ExportFormat.NDJSON:
            return []
        directory = request.target.destination if request.target.takes_parts else self.scratch.location.child(PARTS)
        return [
            PartTask(
                table=table,
                id_range=id_range,
                batch_rows=plan.batch_rows,
                slices=() if plan.reads is None else plan.reads[number],
                pieces=tuple(run[number] for run in runs if number in run),
                scratch=self.scratch,
                output=directory.child(part_name(table.entity, number, request.format)),
                format=request.format,
                compression=request.target.compression,
            )
            for number, id_range in enumerate(plan.ranges)
        ]


def _data_bytes(tables: Sequence[ExportTable]) -> int:
    return sum(table.version.open().data_bytes() for table in tables)


def _select_tables(snapshot: Snapshot, names: Sequence[str]) -> list[ExportTable]:
    """Return the tables to export in schema order; raise `NotFoundError` for an unknown type."""
    tables = []
    for entity in snapshot.schema.catalog.select_types(names):
        table = snapshot.tables[entity.alias]
        tables.append(ExportTable(entity, pinned_version(snapshot.root, table), table.row_count))
    return tables


def _count_rows(tasks: Sequence[PartTask], parts: Sequence[Part]) -> Counter[str]:
    """Return the rows in the parts of each table, by alias."""
    rows: Counter[str] = Counter()
    for task, part in zip(tasks, parts, strict=True):
        rows[task.table.entity.alias] += part.rows
    return rows


def _require_all_rows(tasks: Sequence[PartTask], parts: Sequence[Part]) -> None:
    """Raise unless every row of each table is in exactly one part."""
    rows = _count_rows(tasks, parts)
    for alias, table in {task.table.entity.alias: task.table for task in tasks}.items():
        if rows[alias] != table.rows:
            raise InvariantError(
                f"incomplete export of {alias}: expected {table.rows:,} rows, got {rows[alias]:,}",
                code="export_incomplete",
                hint="Report this as a bug of Omnigraph.",
                facts={"table": alias, "expected": table.rows, "actual": rows[alias]},
            )
