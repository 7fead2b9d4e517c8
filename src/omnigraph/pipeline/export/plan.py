"""How the rows of a table are cut into the parts of an export, and how each part finds its rows. Pure.

Parts are ranges of ids. Where they are cut depends on the rows alone and never on the files they lie in, so the parts
are the same on every cluster and after every compaction: an id whose hash says so may begin a part, and the rows of
those ids tell how large rows are. Only how a part is read depends on the files. When rows lie nearly in the order of
their ids, a part reads the zones that overlap it. Otherwise all rows are sorted into runs first.
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
"""What a row is taken for when none was weighed."""


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table at its pin, and the type whose rows it has."""

    entity: Entity
    version: DatasetVersion
    rows: int


@dataclass(frozen=True, slots=True)
class IdRange:
    """The ids from `low` on and before `high`; None is open."""

    low: str | None = None
    high: str | None = None


@dataclass(frozen=True, slots=True)
class Zone:
    """A slice of rows with its least and its greatest id."""

    piece: RowSlice
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen of some rows: their zones, the ids at which parts may begin, and the text of a few of them."""

    zones: tuple[Zone, ...]
    cuts: tuple[str, ...]
    weighed_rows: int
    weighed_bytes: int


@dataclass(frozen=True, slots=True)
class TableExportPlan:
    """The parts of a table. `reads` has the slices of each part; None when the rows are sorted into runs first."""

    ranges: tuple[IdRange, ...]
    batch_rows: int
    reads: tuple[tuple[RowSlice, ...], ...] | None
    runs: tuple[tuple[RowSlice, ...], ...] = ()

    @property
    def bounds(self) -> tuple[str, ...]:
        """Where the second part begins, and each after it."""
        return tuple(range_.low for range_ in self.ranges if range_.low is not None)


def is_one_part(rows: int) -> bool:
    """Whether a table is so small that nothing has to be seen of it first."""
    return rows <= limits.EXPORT_WHOLE_ROWS_MAX


def plan_whole(slices: Sequence[RowSlice]) -> TableExportPlan:
    """A small table as one part."""
    return TableExportPlan(
        (IdRange(),), _batch_rows(limits.EXPORT_PART_BYTES / limits.EXPORT_WHOLE_ROWS_MAX), (tuple(slices),)
    )


def cut_distance(rows: int) -> int:
    """One of how many ids may begin a part, on average: a power of two."""
    return 1 << max(4, (rows // limits.EXPORT_CUTS).bit_length())


def zone_rows(rows: int) -> int:
    """How many rows a zone has: few against the rows of a part, and not too many zones."""
    return min(max(rows // limits.EXPORT_ZONES, limits.EXPORT_ZONE_ROWS_MIN), limits.EXPORT_BATCH_ROWS_MAX)


def plan_table(
    rows: int, samples: Sequence[Sample], part_bytes: int = limits.EXPORT_PART_BYTES
) -> TableExportPlan:
    """The parts of a table that was looked at."""
    cuts = sorted(cut for sample in samples for cut in sample.cuts)
    weighed = sum(sample.weighed_rows for sample in samples)
    row_bytes = sum(sample.weighed_bytes for sample in samples) / weighed if weighed else _ROW_BYTES
    cuts_per_part = max(1, round(part_bytes / row_bytes / cut_distance(rows)))
    bounds = cuts[cuts_per_part::cuts_per_part]
    ranges = tuple(IdRange(low, high) for low, high in zip([None, *bounds], [*bounds, None], strict=True))
    zones = [zone for sample in samples for zone in sample.zones]
    batch_rows = _batch_rows(row_bytes)
    reads = _plan_reads(bounds, zones, rows)
    if reads is not None:
        return TableExportPlan(ranges, batch_rows, reads)
    run_rows = max(1, int(limits.EXPORT_RUN_PARTS * part_bytes / row_bytes))
    return TableExportPlan(
        ranges, batch_rows, None, tuple(group_slices([zone.piece for zone in zones], run_rows))
    )


def group_slices(slices: Sequence[RowSlice], rows_max: int) -> Iterator[tuple[RowSlice, ...]]:
    """The same rows in groups of at most so many; slices that are larger are cut."""
    waiting: list[RowSlice] = []
    rows = 0
    for piece in slices:
        for offset in range(0, piece.rows, rows_max):
            part = RowSlice(
                piece.fragment, piece.start + offset, min(rows_max, piece.rows - offset), piece.index + offset
            )
            if waiting and rows + part.rows > rows_max:
                yield tuple(_joined(waiting))
                waiting, rows = [], 0
            waiting.append(part)
            rows += part.rows
    if waiting:
        yield tuple(_joined(waiting))


def _batch_rows(row_bytes: float) -> int:
    return max(1, min(limits.EXPORT_BATCH_ROWS_MAX, int(limits.EXPORT_BATCH_BYTES / row_bytes)))


def _plan_reads(
    bounds: Sequence[str], zones: Sequence[Zone], rows: int
) -> tuple[tuple[RowSlice, ...], ...] | None:
    """The slices that each part reads; None when rows would be read too often."""
    reads: list[list[RowSlice]] = [[] for _ in range(len(bounds) + 1)]
    read_rows = 0
    for zone in zones:
        parts = range(bisect_right(bounds, zone.low), bisect_right(bounds, zone.high) + 1)
        read_rows += zone.piece.rows * len(parts)
        if read_rows > rows * limits.EXPORT_REREAD_MAX:
            return None
        for part in parts:
            reads[part].append(zone.piece)
    return tuple(tuple(_joined(slices)) for slices in reads)


def _joined(slices: Sequence[RowSlice]) -> Iterator[RowSlice]:
    """The same rows in fewer slices: those that follow each other become one."""
    last: RowSlice | None = None
    for piece in slices:
        if last is not None and (last.fragment, last.start + last.rows) == (piece.fragment, piece.start):
            last = RowSlice(last.fragment, last.start, last.rows + piece.rows, last.index)
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last
