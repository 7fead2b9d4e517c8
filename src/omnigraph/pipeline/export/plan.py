"""The parts of an export: which range of ids each part has, and which slices of the table it reads. Pure.

In: the size of a table and samples of its ids. Out: ranges of ids. Their bounds depend on the rows alone and never on
the files, so the parts are the same on every cluster and after every compaction: the hash of an id decides whether a
part may start there, and the rows of those ids give the average row size. Only the reads depend on the files. If rows
are stored nearly in id order, a part reads the zones that overlap it. Otherwise all rows are sorted into runs first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.base import limits
from omnigraph.schema.catalog import Entity
from omnigraph.storage.lance.dataset import DatasetVersion
from omnigraph.storage.lance.read import RowSlice

_ROW_BYTES: Final = 256.0
"""The size of a row if no row was measured."""


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table at its pin, and the type of its rows."""

    entity: Entity
    version: DatasetVersion
    rows: int


@dataclass(frozen=True, slots=True)
class IdRange:
    """The ids from `low` on and before `high`; None is unbounded."""

    low: str | None = None
    high: str | None = None


@dataclass(frozen=True, slots=True)
class Zone:
    """A slice of rows with its smallest and largest id."""

    row_slice: RowSlice
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of some rows: their zones, the ids at which parts may start, and the measured text of a few rows."""

    zones: tuple[Zone, ...]
    cuts: tuple[str, ...]
    measured_rows: int
    measured_bytes: int


@dataclass(frozen=True, slots=True)
class TableExportPlan:
    """The parts of a table. `reads` has the slices of each part; None if the rows are sorted into runs first."""

    ranges: tuple[IdRange, ...]
    batch_rows: int
    reads: tuple[tuple[RowSlice, ...], ...] | None
    runs: tuple[tuple[RowSlice, ...], ...] = ()

    @property
    def bounds(self) -> tuple[str, ...]:
        """Return where the second and each later part starts."""
        return tuple(range_.low for range_ in self.ranges if range_.low is not None)


def is_one_part(rows: int) -> bool:
    """Return whether a table is small enough to be one part without a sample."""
    return rows <= limits.EXPORT_WHOLE_ROWS_MAX


def plan_whole(slices: Sequence[RowSlice]) -> TableExportPlan:
    """Return the plan of a small table: one part."""
    return TableExportPlan(
        (IdRange(),), _batch_rows(limits.EXPORT_PART_BYTES / limits.EXPORT_WHOLE_ROWS_MAX), (tuple(slices),)
    )


def cut_distance(rows: int) -> int:
    """Return the average number of ids from one possible start of a part to the next: a power of two."""
    return 1 << max(4, (rows // limits.EXPORT_CUTS).bit_length())


def zone_rows(rows: int) -> int:
    """Return the number of rows of a zone: few compared with a part, but not too many zones."""
    return min(max(rows // limits.EXPORT_ZONES, limits.EXPORT_ZONE_ROWS_MIN), limits.EXPORT_BATCH_ROWS_MAX)


def plan_table(rows: int, samples: Sequence[Sample], part_bytes: int = limits.EXPORT_PART_BYTES) -> TableExportPlan:
    """Return the plan of a table from its samples."""
    cuts = sorted(cut for sample in samples for cut in sample.cuts)
    measured = sum(sample.measured_rows for sample in samples)
    row_bytes = sum(sample.measured_bytes for sample in samples) / measured if measured else _ROW_BYTES
    cuts_per_part = max(1, round(part_bytes / row_bytes / cut_distance(rows)))
    bounds = cuts[cuts_per_part::cuts_per_part]
    ranges = tuple(IdRange(low, high) for low, high in zip([None, *bounds], [*bounds, None], strict=True))
    zones = [zone for sample in samples for zone in sample.zones]
    batch_rows = _batch_rows(row_bytes)
    reads = _plan_reads(bounds, zones, rows)
    if reads is not None:
        return TableExportPlan(ranges, batch_rows, reads)
    run_rows = max(1, int(limits.EXPORT_RUN_PARTS * part_bytes / row_bytes))
    return TableExportPlan(ranges, batch_rows, None, tuple(group_slices([zone.row_slice for zone in zones], run_rows)))


def group_slices(slices: Sequence[RowSlice], rows_max: int) -> Iterator[tuple[RowSlice, ...]]:
    """Return the same rows in groups of at most `rows_max`; larger slices are divided."""
    pending: list[RowSlice] = []
    rows = 0
    for row_slice in slices:
        for offset in range(0, row_slice.rows, rows_max):
            part = RowSlice(
                row_slice.fragment,
                row_slice.start + offset,
                min(rows_max, row_slice.rows - offset),
                row_slice.index + offset,
            )
            if pending and rows + part.rows > rows_max:
                yield tuple(_join_slices(pending))
                pending, rows = [], 0
            pending.append(part)
            rows += part.rows
    if pending:
        yield tuple(_join_slices(pending))


def _batch_rows(row_bytes: float) -> int:
    return max(1, min(limits.EXPORT_BATCH_ROWS_MAX, int(limits.EXPORT_BATCH_BYTES / row_bytes)))


def _plan_reads(bounds: Sequence[str], zones: Sequence[Zone], rows: int) -> tuple[tuple[RowSlice, ...], ...] | None:
    """Return the slices that each part reads; None if rows would be read too often."""
    reads: list[list[RowSlice]] = [[] for _ in range(len(bounds) + 1)]
    read_rows = 0
    for zone in zones:
        parts = range(bisect_right(bounds, zone.low), bisect_right(bounds, zone.high) + 1)
        read_rows += zone.row_slice.rows * len(parts)
        if read_rows > rows * limits.EXPORT_REREAD_MAX:
            return None
        for part in parts:
            reads[part].append(zone.row_slice)
    return tuple(tuple(_join_slices(slices)) for slices in reads)


def _join_slices(slices: Sequence[RowSlice]) -> Iterator[RowSlice]:
    """Return the same rows in fewer slices: adjacent slices become one."""
    last: RowSlice | None = None
    for row_slice in slices:
        if last is not None and (last.fragment, last.start + last.rows) == (row_slice.fragment, row_slice.start):
            last = RowSlice(last.fragment, last.start, last.rows + row_slice.rows, last.index)
            continue
        if last is not None:
            yield last
        last = row_slice
    if last is not None:
        yield last
