"""The rows of one part: reads them, sorts them by id and divides them into slices that fit into memory with blobs.

In: slices of a table or pieces of sorted runs. Out: batches in id order, runs in the scratch directory, and samples of
ids for the plan. Rows are held without the contents of their blobs, which are read one slice at a time. Tasks are safe
to repeat; a crash leaves scratch files for `cleanup`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import IOBase
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column
from omnigraph.arrow.hashing import hash_texts
from omnigraph.arrow.ordering import count_below, sort_ids
from omnigraph.base import limits
from omnigraph.base.ids import new_ulid
from omnigraph.graph.rows.entity_rows import blob_names
from omnigraph.graph.rows.ndjson import json_lines, line_bytes
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.raw import ID
from omnigraph.pipeline.export.plan import ExportTable, IdRange, Sample, Zone, cut_distance, zone_rows
from omnigraph.pipeline.runner import task
from omnigraph.schema.catalog import Entity
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.files import write_file
from omnigraph.storage.lance.dataset import ADDRESS, Dataset
from omnigraph.storage.lance.read import RowSlice, read_blobs, read_slice

_BASE64_GROWTH: Final = 4 / 3


def read_slices(
    dataset: Dataset, table: ExportTable, slices: Iterable[RowSlice], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Read the rows of slices with their addresses."""
    columns = arrow_schema(table.entity).names
    for row_slice in slices:
        yield from read_slice(dataset, row_slice, columns, batch_rows)


def rows_within(batches: Iterable[pa.RecordBatch], id_range: IdRange) -> Iterator[pa.RecordBatch]:
    """Return the rows whose ids are in the range."""
    for batch in batches:
        ids = batch.column(ID)
        in_range = None
        if id_range.low is not None:
            in_range = pc.greater_equal(ids, id_range.low)
        if id_range.high is not None:
            is_below = pc.less(ids, id_range.high)
            in_range = is_below if in_range is None else pc.and_(in_range, is_below)
        selected = batch if in_range is None else batch.filter(in_range)
        if selected.num_rows:
            yield selected


def sort_rows(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Return the rows in id order; None without rows."""
    if not batches:
        return None
    concat: Any = pa.concat_batches  # type: ignore[attr-defined]
    rows: pa.RecordBatch = concat(batches)
    order = sort_ids(rows.column(ID))
    return rows if order is None else rows.take(order)


def split_rows(entity: Entity, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Return the same rows in slices that are small with the contents of their blobs, at least one row each."""
    blobs = sum(int(pc.sum(_blob_sizes(rows.column(name))).as_py() or 0) for name in blob_names(entity))
    is_large = rows.nbytes + blobs > limits.EXPORT_BATCH_BYTES or rows.num_rows > limits.EXPORT_BATCH_ROWS_MAX
    if not is_large or rows.num_rows < 2:
        yield rows
        return
    half = rows.num_rows // 2
    yield from split_rows(entity, rows.slice(0, half))
    yield from split_rows(entity, rows.slice(half))


def blob_contents(dataset: Dataset, name: str, rows: pa.RecordBatch) -> list[bytes | str | None]:
    """Read the blobs of some rows: their bytes, or the URI of a blob that is stored outside the graph."""
    described: Any = rows.column(name)
    uris: list[Any] = described.field("blob_uri").to_pylist()
    valid: list[Any] = described.is_valid().to_pylist()
    addresses: list[Any] = rows.column(ADDRESS).to_pylist()
    contents: list[bytes | str | None] = [
        uri if is_valid and uri else None for is_valid, uri in zip(valid, uris, strict=True)
    ]
    stored = [row for row, is_valid in enumerate(valid) if is_valid and not uris[row]]
    blobs = read_blobs(dataset, name, [addresses[row] for row in stored])
    for row, content in zip(stored, blobs, strict=True):
        contents[row] = content
    return contents


def measured_bytes(entity: Entity, rows: pa.RecordBatch) -> int:
    """Return the length of the lines of some rows, including blobs."""
    total = 0.0
    for name in blob_names(entity):
        index = rows.schema.get_field_index(name)
        total += _BASE64_GROWTH * int(pc.sum(_blob_sizes(rows.column(name))).as_py() or 0)
        rows = rows.set_column(index, name, pa.nulls(rows.num_rows, pa.utf8()))
    return int(total) + len(line_bytes(json_lines(entity, rows)))


def _blob_sizes(described: Column) -> Column:
    struct: Any = described
    sizes: Column = pc.if_else(struct.is_valid(), struct.field("size"), pa.scalar(0, pa.uint64()))
    return sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    """Rows to sort, and where the second and each later part starts."""

    table: ExportTable
    slices: tuple[RowSlice, ...]
    batch_rows: int
    bounds: tuple[str, ...]
    scratch: Scratch


@dataclass(frozen=True, slots=True)
class RunPiece:
    """The rows of one part in one run: some bytes of a scratch file."""

    name: str
    start: int
    length: int


@task("sort")
def write_run(task: RunTask) -> dict[int, RunPiece]:
    """Sort some rows and write them to a scratch file; return its pieces by the number of their part."""
    rows = sort_rows(list(read_slices(task.table.version.open(), task.table, task.slices, task.batch_rows)))
    if rows is None:
        return {}
    ids = rows.column(ID)
    positions = [0, *(count_below(ids, bound) for bound in task.bounds), rows.num_rows]
    name = f"run-{new_ulid()}"
    pieces = {}
    with write_file(task.scratch.location.child(name)) as file:
        for part, (start, end) in enumerate(pairwise(positions)):
            if end > start:
                begin, sink = file.tell(), cast(IOBase, file)
                with pa.ipc.new_stream(sink, rows.schema) as stream:
                    stream.write_batch(rows.slice(start, end - start))
                pieces[part] = RunPiece(name, begin, file.tell() - begin)
    return pieces


def read_runs(scratch: Scratch, pieces: Iterable[RunPiece]) -> Iterator[pa.RecordBatch]:
    """Read the rows of pieces, each in its own order."""
    for piece in pieces:
        stream = pa.ipc.open_stream(scratch.read(piece.name, piece.start, piece.length))
        yield from stream


_ROWS_PER_READ: Final = 256
_CUTS_PER_MEASURED_ROW: Final = np.uint64(4)


@dataclass(frozen=True, slots=True)
class SampleTask:
    """Slices of one table to sample."""

    table: ExportTable
    slices: tuple[RowSlice, ...]


@task("read ids")
def sample_ids(task: SampleTask) -> Sample:
    """Read the ids of some slices and measure a few of their rows."""
    dataset = task.table.version.open()
    distance = np.uint64(cut_distance(task.table.rows))
    zones: list[Zone] = []
    cuts: list[str] = []
    positions: list[int] = []
    for row_slice in task.slices:
        rows_read = 0
        for batch in read_slice(dataset, row_slice, [ID], limits.EXPORT_BATCH_ROWS_MAX):
            ids = batch.column(ID)
            slice_of_batch = RowSlice(
                row_slice.fragment, row_slice.start + rows_read, len(ids), row_slice.index + rows_read
            )
            zones += _zones(ids, slice_of_batch, zone_rows(task.table.rows))
            hashes = hash_texts(ids)
            chosen = pa.array(np.flatnonzero(hashes % distance == 0))
            cuts += [str(cut) for cut in ids.take(chosen).to_pylist()]
            positions += (
                np.flatnonzero(hashes % (distance * _CUTS_PER_MEASURED_ROW) == 0) + slice_of_batch.index
            ).tolist()
            rows_read += len(ids)
    return Sample(tuple(zones), tuple(cuts), len(positions), _text_bytes(dataset, task.table, positions))


def _zones(ids: Column, slice_of_ids: RowSlice, rows: int) -> Iterator[Zone]:
    for offset in range(0, len(ids), rows):
        zone_ids = ids.slice(offset, rows)
        extremes = pc.min_max(zone_ids).as_py()
        first, index = slice_of_ids.start + offset, slice_of_ids.index + offset
        yield Zone(RowSlice(slice_of_ids.fragment, first, len(zone_ids), index), extremes["min"], extremes["max"])


def _text_bytes(dataset: Dataset, table: ExportTable, positions: Sequence[int]) -> int:
    """Return the total length of the lines of these rows."""
    columns = arrow_schema(table.entity).names
    total = 0
    for start in range(0, len(positions), _ROWS_PER_READ):
        rows = dataset.take(positions[start : start + _ROWS_PER_READ], columns)
        total += sum(measured_bytes(table.entity, batch) for batch in rows.to_batches())
    return total
