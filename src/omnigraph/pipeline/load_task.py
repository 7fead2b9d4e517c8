"""What a worker does in a load: read one byte range, check its rows, write them as Lance fragments.

In: a `LoadTask`, a description of some hundred bytes. Out: a `LoadPart` with fragments that nothing references
yet, exact counts, violations with local line numbers, and the key columns that the rules over sets compare.
Safe to repeat: a second attempt writes other files. Nothing is written for a type once a row of the range was
found bad.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.base.limits import LOAD_FRAGMENT_BYTES
from omnigraph.integrity.breaches import Places
from omnigraph.integrity.check_batch import check_batch
from omnigraph.integrity.report import TaskFindings, Violation, ViolationReport, merge_reports
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.ndjson import Entity, parse_block
from omnigraph.pipeline.ranges import ByteRange, read_line_blocks
from omnigraph.schema import Catalog, EdgeType, catalog_from_json
from omnigraph.storage.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.staging import write_rows

LINE: Final = "omnigraph:line"


@dataclass(frozen=True, slots=True)
class FragmentTarget:
    """The dataset that fragments of a type are written for: a place, a Lance branch and the pinned version."""

    location: Location
    branch: str | None
    version: int


@dataclass(frozen=True, slots=True)
class LoadTask:
    """One range to load. `targets` by alias; a type without one is checked and its rows come back instead."""

    piece: ByteRange
    catalog_json: str
    targets: Mapping[str, FragmentTarget]


@dataclass(frozen=True, slots=True)
class LoadedRows:
    """What one range holds of one type. `fragments` is pickled; `columns` is an Arrow stream, the rows themselves or
    their key columns, with each row's local line."""

    count: int
    fragments: bytes
    columns: bytes


@dataclass(frozen=True, slots=True)
class LoadPart:
    """The result of one task."""

    findings: TaskFindings
    rows: Mapping[str, LoadedRows]
    bytes_read: int


def load_range(task: LoadTask) -> LoadPart:
    """Read, check and write one range."""
    catalog = catalog_from_json(task.catalog_json)
    gathered: dict[str, _Gathered] = {}
    reports: list[ViolationReport] = []
    lines = 0
    for block in read_line_blocks(task.piece):
        report, count = _load_block(block.data, lines, catalog, task, gathered)
        reports.append(report)
        lines += count
        if block.is_cut:
            long = Violation(
                task.piece.file.name, lines, None, "", Rule.LINE_TOO_LONG, "the line is too long"
            )
            reports.append(ViolationReport.of_violations([long]))
    merged = merge_reports(reports)
    findings = TaskFindings(task.piece.file.name, task.piece.part, lines, merged)
    rows = {alias: found.finish() for alias, found in gathered.items()}
    return LoadPart(findings, rows, task.piece.end - task.piece.start)


def key_columns(entity: Entity) -> list[str]:
    """The columns that the rules over sets compare."""
    ends = ["src", "dst"] if isinstance(entity, EdgeType) else []
    uniques = [name for names in entity.rules.uniques for name in names]
    return list(dict.fromkeys(["id", *ends, *uniques]))


def _load_block(
    data: bytes, lines_before: int, catalog: Catalog, task: LoadTask, gathered: dict[str, _Gathered]
) -> tuple[ViolationReport, int]:
    block = parse_block(data, catalog)
    name = task.piece.file.name
    bad = [
        Violation(name, lines_before + line.line + 1, None, line.value, line.rule, line.message)
        for line in block.bad
    ]
    reports = [ViolationReport.of_violations(bad)] if bad else []
    for typed in block.rows:
        checked = check_batch(typed.entity, typed.raw)
        places = typed.lines + (lines_before + 1)
        if checked.breaches:
            reports.append(ViolationReport.of_breaches(checked.breaches, Places.in_file(name, places)))
        alias = typed.entity.alias
        if alias not in gathered:
            gathered[alias] = _Gathered(typed.entity, task.targets.get(alias))
        gathered[alias].add(checked.rows, places, is_good=not (checked.breaches or bad))
    return merge_reports(reports), block.lines


@dataclass(slots=True)
class _Gathered:
    """The rows of one type in this range, written whenever enough of them have come together."""

    entity: Entity
    target: FragmentTarget | None
    batches: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    fragments: list[Any] = field(default_factory=list)
    columns: list[pa.RecordBatch] = field(default_factory=list)
    count: int = 0
    is_good: bool = True

    def add(self, rows: pa.RecordBatch, lines: np.ndarray[Any, Any], *, is_good: bool) -> None:
        self.count += rows.num_rows
        self.is_good = self.is_good and is_good
        kept = rows if self.target is None else rows.select(key_columns(self.entity))
        self.columns.append(kept.append_column(LINE, pa.array(lines, pa.int64())))
        if self.target is not None and self.is_good:
            self.batches.append(rows)
            self.waiting_bytes += rows.nbytes
            if self.waiting_bytes >= LOAD_FRAGMENT_BYTES:
                self._write()

    def finish(self) -> LoadedRows:
        if self.batches and self.is_good:
            self._write()
        fragments = pickle.dumps(self.fragments if self.is_good else [])
        return LoadedRows(self.count, fragments, _stream(self.columns))

    def _write(self) -> None:
        assert self.target is not None, "only a type with a target is written"
        dataset = open_dataset(self.target.location, branch=self.target.branch, version=self.target.version)
        self.fragments += write_rows(dataset, pa.Table.from_batches(self.batches))
        self.batches, self.waiting_bytes = [], 0


def _stream(batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
    ) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
