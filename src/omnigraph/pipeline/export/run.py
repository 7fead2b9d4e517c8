"""Export: a snapshot becomes lines of graph data or Parquet files, whatever its size.

In: a graph, what of it, and a target. Out: an `ExportResult` with exact counts. The driver cuts tables into parts by
ids that workers have looked at (`export_plan`), workers read, sort and write parts (`export_part`), and the driver
joins them. No table is ever held in memory. The order is that of the types in the schema, nodes before edges, and of
the ids by their bytes; the same graph gives the same bytes wherever the workers are and however its files are stored.
The graph is not changed. Whatever ends an export, only whole files have final names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO, Protocol, TypeVar

from omnigraph.base import limits
from omnigraph.base.display import Displayed
from omnigraph.base.errors import InvariantError, NotFoundError
from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest.refs import SnapshotSelector, read_state
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, pinned_version
from omnigraph.graph.manifest.stamp import FORMAT, Format
from omnigraph.graph.scratch import Scratch
from omnigraph.pipeline.export.plan import (
    ExportTable,
    TableExportPlan,
    group_slices,
    is_one_part,
    plan_table,
    plan_whole,
)
from omnigraph.pipeline.export.rows import Run, RunTask, SampleTask, sample_ids, write_run
from omnigraph.pipeline.export.target import (
    PARTS,
    ExportTarget,
    TargetKind,
    copy_parts,
    delete_parts,
    deliver_file,
    deliver_folder,
    open_workplace,
    part_name,
    refuse_taken,
    take_away,
)
from omnigraph.pipeline.export.tasks import ExportFormat, Part, PartTask, write_part
from omnigraph.storage.lance.read import slice_dataset
from omnigraph.storage.location import Location

Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers(Protocol):
    """Whoever runs tasks."""

    def run(self, step: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
        """The results in the order of the tasks."""

    def share_disk(self) -> bool:
        """Whether they surely see the files of this machine."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What to export, and where to. No types are all of them. `stream` takes the lines of a target that is one.

    `part_bytes` is about how long the text of a part is, which decides where parts are cut.
    """

    target: ExportTarget
    format: ExportFormat = ExportFormat.NDJSON
    types: tuple[str, ...] = ()
    branch: str = MAIN
    when: SnapshotSelector = field(default_factory=SnapshotSelector)
    stream: BinaryIO | None = None
    part_bytes: int = limits.EXPORT_PART_BYTES


@dataclass(frozen=True, slots=True, repr=False)
class ExportResult(Displayed):
    """What an export did."""

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

    @property
    def total(self) -> int:
        """The number of exported rows."""
        return sum(self.counts.values())

    def summary(self) -> Mapping[str, object]:
        return {
            "commit": self.commit,
            "format": self.format.value,
            "files": len(self.files),
            "bytes": f"{self.size_bytes:,}",
            "total": f"{self.total:,}",
            **{alias: f"{count:,}" for alias, count in self.counts.items()},
        }


def export(root: Location, request: ExportRequest, workers: Workers, rules: Format = FORMAT) -> ExportResult:
    """Export a snapshot, or raise with nothing left behind."""
    snapshot = read_state(root, request.branch, request.when, rules)
    tables = _chosen_tables(snapshot, request.types)
    refuse_taken(request.target)
    with open_workplace(root, request.target, share_disk=workers.share_disk()) as scratch:
        exporting = _Exporting(request, workers, scratch)
        tasks = exporting.plan(tables)
        files: tuple[Location, ...] = ()
        match request.target.kind:
            case TargetKind.STREAM:
                parts = exporting.stream(tasks)
                size = sum(part.size_bytes for part in parts)
            case TargetKind.FILE:
                parts = exporting.write(tasks)
                size = deliver_file(request.target, parts)
                files = (request.target.place,)
            case TargetKind.FOLDER:
                parts = exporting.write(tasks)
                files = deliver_folder(request.target, parts)
                size = sum(part.size_bytes for part in parts)
    counts = {table.entity.alias: 0 for table in tables}
    for task, part in zip(tasks, parts, strict=True):
        counts[task.table.entity.alias] += part.rows
    uris = tuple(file.uri for file in files)
    return ExportResult(counts, snapshot.head, uris, size, request.target.kind, request.format)


@dataclass(frozen=True, slots=True)
class _Exporting:
    """One export under way."""

    request: ExportRequest
    workers: Workers
    scratch: Scratch

    def plan(self, tables: Sequence[ExportTable]) -> list[PartTask]:
        """The parts of all tables, in the order of the export."""
        plans = self._plan_tables(tables)
        runs = self._sort(tables, plans)
        tasks: list[PartTask] = []
        for table, plan, found in zip(tables, plans, runs, strict=True):
            tasks += self._part_tasks(table, plan, found)
        return tasks

    def write(self, tasks: Sequence[PartTask]) -> Sequence[Part]:
        done = False
        try:
            parts = self.workers.run("export", write_part, tasks)
            _refuse_lost_rows(tasks, parts)
            done = True
        finally:
            if not done and self.request.target.takes_parts:
                take_away(self.request.target, [task.output.uri.rpartition("/")[2] for task in tasks])
        return parts

    def stream(self, tasks: Sequence[PartTask]) -> Sequence[Part]:
        """Some parts at a time, each in the stream before the next are made."""
        assert self.request.stream is not None, "a stream was given"
        parts: list[Part] = []
        left = iter(tasks)
        while some := list(islice(left, limits.EXPORT_STREAMED_PARTS)):
            found = self.workers.run("export", write_part, some)
            copy_parts(found, self.request.stream)
            delete_parts(found)
            parts += found
        _refuse_lost_rows(tasks, parts)
        return parts

    def _plan_tables(self, tables: Sequence[ExportTable]) -> list[TableExportPlan]:
        slices = [slice_dataset(table.version.open(), limits.EXPORT_SAMPLE_ROWS) for table in tables]
        large = [at for at, table in enumerate(tables) if not is_one_part(table.rows)]
        looks = [
            (at, SampleTask(tables[at], pieces))
            for at in large
            for pieces in group_slices(slices[at], limits.EXPORT_SAMPLE_ROWS)
        ]
        samples = self.workers.run("read ids", sample_ids, [task for _, task in looks]) if looks else ()
        plans = [plan_whole(found) for found in slices]
        for at in large:
            seen = [sample for (of, _), sample in zip(looks, samples, strict=True) if of == at]
            plans[at] = plan_table(tables[at].rows, seen, self.request.part_bytes)
        return plans

    def _sort(self, tables: Sequence[ExportTable], plans: Sequence[TableExportPlan]) -> list[list[Run]]:
        """The runs of each table whose rows have to be sorted first."""
        tasks = [
            (at, RunTask(table, pieces, plan.batch_rows, plan.bounds, self.scratch))
            for at, (table, plan) in enumerate(zip(tables, plans, strict=True))
            for pieces in plan.runs
        ]
        done = self.workers.run("sort", write_run, [task for _, task in tasks]) if tasks else ()
        runs: list[list[Run]] = [[] for _ in tables]
        for (at, _), run in zip(tasks, done, strict=True):
            runs[at].append(run)
        return runs

    def _part_tasks(self, table: ExportTable, plan: TableExportPlan, runs: Sequence[Run]) -> list[PartTask]:
        request = self.request
        if not table.rows and request.format is ExportFormat.NDJSON:
            return []
        folder = request.target.place if request.target.takes_parts else self.scratch.location.child(PARTS)
        tasks = []
        for number, wanted in enumerate(plan.ranges):
            slices = () if plan.reads is None else plan.reads[number]
            pieces = tuple(run.pieces[number] for run in runs if number in run.pieces)
            output = folder.child(part_name(table.entity, number, request.format))
            source = (table, wanted, plan.batch_rows, slices, pieces)
            tasks.append(PartTask(*source, self.scratch, output, request.format, request.target.compression))
        return tasks


def _chosen_tables(snapshot: Snapshot, names: Sequence[str]) -> list[ExportTable]:
    """The tables to export in the order of the schema; raise `NotFoundError` for a name that it has not."""
    catalog = snapshot.schema.catalog
    for name in names:
        if catalog.type_named(name) is None:
            known = ", ".join(found.name for found in catalog.types)
            raise NotFoundError(
                f"the schema has no type '{name}'",
                code="type_missing",
                hint=f"the types are: {known}",
                facts={"type": name},
            )
    tables = []
    for entity in catalog.types:
        if not names or entity.name in names:
            found = snapshot.tables[entity.alias]
            tables.append(ExportTable(entity, pinned_version(snapshot.root, found), found.row_count))
    return tables


def _refuse_lost_rows(tasks: Sequence[PartTask], parts: Sequence[Part]) -> None:
    """Each row of a table is in exactly one part, or the export is no good."""
    rows: dict[str, int] = {}
    for task, part in zip(tasks, parts, strict=True):
        rows[task.table.entity.alias] = rows.get(task.table.entity.alias, 0) + part.rows
    for table in {task.table.entity.alias: task.table for task in tasks}.values():
        found = rows[table.entity.alias]
        if found != table.rows:
            raise InvariantError(
                f"{table.entity.alias} has {table.rows} rows, and {found} were exported",
                code="export_incomplete",
                hint="this is a defect of omnigraph; please report it",
                facts={"table": table.entity.alias, "expected": table.rows, "actual": found},
            )
