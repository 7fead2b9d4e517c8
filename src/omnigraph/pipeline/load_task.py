"""What a worker does in a load: read one piece of the input, check its rows, write them as Lance fragments.

In: a `LoadTask`, a description of some hundred bytes. Out: a `LoadPart` with fragments that nothing references
yet, exact counts, violations with local line numbers, and the key columns that the rules over sets compare.
Safe to repeat: a second attempt writes other files. Nothing is written for a type once a row of the piece was
found bad.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.base.limits import LOAD_FRAGMENT_BYTES
from omnigraph.integrity.breaches import Places
from omnigraph.integrity.check_batch import check_batch
from omnigraph.integrity.report import TaskFindings, Violation, ViolationReport, merge_reports
from omnigraph.pipeline.blocks import Block, Entity, Piece
from omnigraph.schema import EdgeType, catalog_from_json
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
class LoadShape:
    """What every worker of one load knows: the schema, and by alias the datasets that rows are written for.

    A type without a target is checked and its rows come back instead.
    """

    catalog_json: str
    targets: Mapping[str, FragmentTarget]


@dataclass(frozen=True, slots=True)
class LoadTask:
    """One piece to load."""

    piece: Piece
    shape: LoadShape


@dataclass(frozen=True, slots=True)
class LoadedRows:
    """What one piece holds of one type. `fragments` is pickled; `columns` is an Arrow stream, the rows themselves or
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


def load_piece(task: LoadTask) -> LoadPart:
    """Read, check and write one piece."""
    piece = task.piece
    catalog = catalog_from_json(task.shape.catalog_json)
    return load_blocks(task.shape, (piece.name, piece.part), piece.blocks(catalog), piece.size_bytes)


def load_blocks(
    shape: LoadShape, place: tuple[str, int], blocks: Iterable[Block], size_bytes: int
) -> LoadPart:
    """Check and write the rows of some blocks. `place` is the name and the number of the piece that they come from."""
    name, part = place
    gathered: dict[str, _Gathered] = {}
    reports: list[ViolationReport] = []
    lines = 0
    for block in blocks:
        reports.append(_load_block(block, Place(name, lines), shape, gathered))
        lines += block.lines
    findings = TaskFindings(name, part, lines, merge_reports(reports))
    rows = {alias: found.finish() for alias, found in gathered.items()}
    return LoadPart(findings, rows, size_bytes)


def key_columns(entity: Entity) -> list[str]:
    """The columns that the rules over sets compare."""
    ends = ["src", "dst"] if isinstance(entity, EdgeType) else []
    uniques = [name for names in entity.rules.uniques for name in names]
    return list(dict.fromkeys(["id", *ends, *uniques]))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block begins: its file and the lines of the piece before it."""

    name: str
    lines_before: int


def _load_block(
    block: Block, place: Place, shape: LoadShape, gathered: dict[str, _Gathered]
) -> ViolationReport:
    first = place.lines_before + 1
    bad = [
        Violation(place.name, first + line.line, None, line.value, line.rule, line.message)
        for line in block.bad
    ]
    reports = [ViolationReport.of_violations(bad)] if bad else []
    for typed in block.rows:
        checked = check_batch(typed.entity, typed.raw)
        lines = typed.lines + first
        if checked.breaches:
            reports.append(ViolationReport.of_breaches(checked.breaches, Places.in_file(place.name, lines)))
        alias = typed.entity.alias
        if alias not in gathered:
            gathered[alias] = _Gathered(typed.entity, shape.targets.get(alias))
        gathered[alias].add(checked.rows, lines, is_good=not (checked.breaches or bad))
    return merge_reports(reports)


@dataclass(slots=True)
class _Gathered:
    """The rows of one type in this piece, written whenever enough of them have come together."""

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
