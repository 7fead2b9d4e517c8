"""The rows of one part: read, put in the order of their ids, and cut into slices that fit memory with their blobs.

Rows are held without the contents of their blobs; those are read a slice at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.graph.images import blob_names
from omnigraph.integrity.ndjson_text import json_lines, line_bytes
from omnigraph.integrity.raw import ID, Column
from omnigraph.pipeline.export_plan import ExportTable, IdRange
from omnigraph.pipeline.id_order import id_order
from omnigraph.schema import Entity, arrow_schema
from omnigraph.storage.dataset import ADDRESS, Dataset
from omnigraph.storage.row_slices import RowSlice, read_blobs, read_slice

_BASE64_GROWTH: Final = 4 / 3


def read_slices(
    dataset: Dataset, table: ExportTable, slices: Iterable[RowSlice], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """The rows of slices with their addresses."""
    columns = arrow_schema(table.entity).names
    for piece in slices:
        yield from read_slice(dataset, piece, columns, batch_rows)


def rows_within(batches: Iterable[pa.RecordBatch], wanted: IdRange) -> Iterator[pa.RecordBatch]:
    """The rows whose ids lie in the range."""
    for batch in batches:
        ids = batch.column(ID)
        kept = None
        if wanted.low is not None:
            kept = pc.greater_equal(ids, wanted.low)
        if wanted.high is not None:
            below = pc.less(ids, wanted.high)
            kept = below if kept is None else pc.and_(kept, below)
        found = batch if kept is None else batch.filter(kept)
        if found.num_rows:
            yield found


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
        uri if there and uri else None for there, uri in zip(valid, uris, strict=True)
    ]
    inside = [row for row, there in enumerate(valid) if there and not uris[row]]
    found = read_blobs(dataset, name, [addresses[row] for row in inside])
    for row, content in zip(inside, found, strict=True):
        contents[row] = content
    return contents


def measured_bytes(entity: Entity, rows: pa.RecordBatch) -> int:
    """How long the lines of some rows would be, blobs included."""
    total = 0.0
    for name in blob_names(entity):
        at = rows.schema.get_field_index(name)
        total += _BASE64_GROWTH * int(pc.sum(_blob_sizes(rows.column(name))).as_py() or 0)
        rows = rows.set_column(at, name, pa.nulls(rows.num_rows, pa.utf8()))
    return int(total) + len(line_bytes(json_lines(entity, rows)))


def _blob_sizes(described: Column) -> Column:
    struct: Any = described
    sizes: Column = pc.if_else(struct.is_valid(), struct.field("size"), pa.scalar(0, pa.uint64()))
    return sizes
