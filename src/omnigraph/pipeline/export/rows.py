"""The rows of one part: read, put in the order of their ids, and cut into slices that fit memory with their blobs.

Rows are held without the contents of their blobs; those are read a slice at a time.
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
from omnigraph.arrow.ordering import id_order, place_of
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
    """The rows of slices with their addresses."""
    columns = arrow_schema(table.entity).names
    for piece in slices:
        yield from read_slice(dataset, piece, columns, batch_rows)


def rows_within(batches: Iterable[pa.RecordBatch], id_range: IdRange) -> Iterator[pa.RecordBatch]:
    """The rows whose ids lie in the range."""
    for batch in batches:
        ids = batch.column(ID)
        in_range = None
        if id_range.low is not None:
            in_range = pc.greater_equal(ids, id_range.low)
        if id_range.high is not None:
            below = pc.less(ids, id_range.high)
            in_range = below if in_range is None else pc.and_(in_range, below)
        selected = batch if in_range is None else batch.filter(in_range)
        if selected.num_rows:
            yield selected


def ordered(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    """The rows in the order of their ids; None when there are none."""
    if not batches:
        return None
    concat: Any = pa.concat_batches  # type: ignore[attr-defined]
    rows: pa.RecordBatch = concat(batches)
    order = id_order(rows.column(ID))
    taken: pa.RecordBatch = rows if order is None else rows.take(order)
    return taken


def bounded(entity: Entity, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows in slices that are small with the contents of their blobs, at least one row each."""
    blobs = sum(int(pc.sum(_blob_sizes(rows.column(name))).as_py() or 0) for name in blob_names(entity))
    is_large = rows.nbytes + blobs > limits.EXPORT_BATCH_BYTES or rows.num_rows > limits.EXPORT_BATCH_ROWS_MAX
    if not is_large or rows.num_rows < 2:
        yield rows
        return
    half = rows.num_rows // 2
    yield from bounded(entity, rows.slice(0, half))
    yield from bounded(entity, rows.slice(half))


def blob_contents(dataset: Dataset, name: str, rows: pa.RecordBatch) -> list[bytes | str | None]:
    """The blobs of some rows: their bytes, or the URI of one that lies outside of the graph."""
    described: Any = rows.column(name)
    uris: list[Any] = described.field("blob_uri").to_pylist()
    valid: list[Any] = described.is_valid().to_pylist()
    addresses: list[Any] = rows.column(ADDRESS).to_pylist()
    contents: list[bytes | str | None] = [
        uri if is_valid and uri else None for is_valid, uri in zip(valid, uris, strict=True)
    ]
    inside = [row for row, is_valid in enumerate(valid) if is_valid and not uris[row]]
    blobs = read_blobs(dataset, name, [addresses[row] for row in inside])
    for row, content in zip(inside, blobs, strict=True):
        contents[row] = content
    return contents


def measured_bytes(entity: Entity, rows: pa.RecordBatch) -> int:
    """How long the lines of some rows would be, blobs included."""
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


@dataclass(frozen=True, slots=True)
class RunTask:
    """Rows to sort, and where the second part begins and each after it."""

    table: ExportTable
    slices: tuple[RowSlice, ...]
    batch_rows: int
    bounds: tuple[str, ...]
    scratch: Scratch


@dataclass(frozen=True, slots=True)
class RunPiece:
    """The rows of one part in one run: some bytes of a file in scratch."""

    name: str
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Run:
    """The pieces of one run by the number of their part."""

    pieces: dict[int, RunPiece]


@task("sort")
def write_run(task: RunTask) -> Run:
    """Sort some rows."""
    rows = ordered(list(read_slices(task.table.version.open(), task.table, task.slices, task.batch_rows)))
    if rows is None:
        return Run({})
    ids = rows.column(ID)
    places = [0, *(place_of(ids, bound) for bound in task.bounds), rows.num_rows]
    name = f"run-{new_ulid()}"
    pieces = {}
    with write_file(task.scratch.location.child(name)) as file:
        for part, (start, end) in enumerate(pairwise(places)):
            if end > start:
                begin, sink = file.tell(), cast(IOBase, file)
                with pa.ipc.new_stream(sink, rows.schema) as stream:
                    stream.write_batch(rows.slice(start, end - start))
                pieces[part] = RunPiece(name, begin, file.tell() - begin)
    return Run(pieces)


def read_runs(scratch: Scratch, pieces: Iterable[RunPiece]) -> Iterator[pa.RecordBatch]:
    """The rows of pieces, each in its own order."""
    for piece in pieces:
        stream = pa.ipc.open_stream(scratch.read(piece.name, piece.start, piece.length))
        yield from stream


_ROWS_AT_ONCE: Final = 256
_CUTS_PER_WEIGHED: Final = np.uint64(4)


@dataclass(frozen=True, slots=True)
class SampleTask:
    """Slices of one table to look at."""

    table: ExportTable
    slices: tuple[RowSlice, ...]


@task("read ids")
def sample_ids(task: SampleTask) -> Sample:
    """Look at the ids of some slices."""
    dataset = task.table.version.open()
    distance = np.uint64(cut_distance(task.table.rows))
    zones: list[Zone] = []
    cuts: list[str] = []
    places: list[int] = []
    for piece in task.slices:
        done = 0
        for batch in read_slice(dataset, piece, [ID], limits.EXPORT_BATCH_ROWS_MAX):
            ids = batch.column(ID)
            here = RowSlice(piece.fragment, piece.start + done, len(ids), piece.index + done)
            zones += _zones(ids, here, zone_rows(task.table.rows))
            hashes = hash_texts(ids)
            chosen = pa.array(np.flatnonzero(hashes % distance == 0))
            cuts += [str(cut) for cut in ids.take(chosen).to_pylist()]
            places += (np.flatnonzero(hashes % (distance * _CUTS_PER_WEIGHED) == 0) + here.index).tolist()
            done += len(ids)
    weight = _text_bytes(dataset, task.table, places)
    return Sample(tuple(zones), tuple(cuts), len(places), weight)


def _zones(ids: Column, here: RowSlice, rows: int) -> Iterator[Zone]:
    for offset in range(0, len(ids), rows):
        some = ids.slice(offset, rows)
        extremes = pc.min_max(some).as_py()
        piece = RowSlice(here.fragment, here.start + offset, len(some), here.index + offset)
        yield Zone(piece, extremes["min"], extremes["max"])


def _text_bytes(dataset: Dataset, table: ExportTable, places: Sequence[int]) -> int:
    """How long the lines of these rows are, all together."""
    columns = arrow_schema(table.entity).names
    total = 0
    for start in range(0, len(places), _ROWS_AT_ONCE):
        rows = dataset.take(places[start : start + _ROWS_AT_ONCE], columns)
        total += sum(measured_bytes(table.entity, batch) for batch in rows.to_batches())
    return total
