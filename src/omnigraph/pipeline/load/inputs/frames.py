"""Frames from Python, of one type each: Arrow, pandas, Polars and whatever else speaks Arrow's stream protocol.

In: an object and a type. Out: pieces that lie in the scratch folder, where every executor reaches them, because each
load runs on Spark. A frame is read once, and a bounded part of it is held beside it at a time. Neither pandas nor
Polars is imported. The scratch folder is deleted by whoever opened it; a killed process leaves it for `cleanup`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from omnigraph.arrow.ipc import packed_stream
from omnigraph.base import limits
from omnigraph.base.errors import ContentError, UsageError
from omnigraph.graph.scratch import Scratch
from omnigraph.pipeline.load.inputs.blocks import (
    Block,
    arrow_block,
    block_rows,
    refuse_foreign_columns,
    reject_duplicate_columns,
    type_of_rows,
)
from omnigraph.schema.catalog import Catalog, Entity
from omnigraph.storage.files import open_bytes
from omnigraph.storage.location import Location

_KINDS: Final = "a pyarrow Table, RecordBatch or RecordBatchReader, a pandas, Polars or Spark DataFrame"


@dataclass(frozen=True, slots=True)
class FramePiece:
    """Some rows of a frame, as an Arrow stream in a scratch file."""

    name: str
    part: int
    type_name: str
    location: Location
    stored_bytes: int
    size_bytes: int

    @property
    def file(self) -> None:
        return None

    @property
    def text_bytes(self) -> int:
        return self.size_bytes

    def blocks(self, catalog: Catalog) -> Iterator[Block]:
        entity = type_of_rows(catalog, self.type_name)
        with open_bytes(self.location, self.stored_bytes) as file, pa.ipc.open_stream(file) as stream:
            for batch in stream:
                yield arrow_block(entity, batch)


def frame_name(entity: Entity) -> str:
    """What the rows of a frame are known by in reports, where files have their paths."""
    return f"<{entity.name}>"


def stage_frame(frame: object, entity: Entity, scratch: Scratch) -> tuple[FramePiece, ...]:
    """Write the rows of a frame where workers find them."""
    name = frame_name(entity)
    pieces: list[FramePiece] = []
    try:
        with arrow_reader(frame, name) as reader:
            reject_duplicate_columns(name, reader.schema.names)
            refuse_foreign_columns(name, reader.schema.names, entity)
            for batches in _grouped(reader):
                data = packed_stream(reader.schema, batches)
                size = sum(batch.nbytes for batch in batches)
                place = scratch.location.child(scratch.write("frame", data))
                pieces.append(FramePiece(name, len(pieces), entity.name, place, len(data), size))
    except pa.ArrowException as error:
        raise _unreadable(name, error) from error
    return tuple(pieces)


def arrow_reader(frame: object, name: str) -> pa.RecordBatchReader:
    """The rows of a frame as Arrow batches; raise `UsageError` for an object that is no frame."""
    if isinstance(frame, pa.RecordBatchReader):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(frame.schema, [frame])
    if isinstance(frame, pa.Table):
        return frame.to_reader()
    if _is_from(frame, "pandas") and hasattr(frame, "columns"):
        return _pandas_table(frame, name).to_reader()
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(frame)
    if hasattr(frame, "to_arrow"):
        table = frame.to_arrow()
        if isinstance(table, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
            return arrow_reader(table, name)
    raise unsupported(frame)


def is_spark_frame(frame: object) -> bool:
    """Whether it is a DataFrame of Spark, classic or Connect."""
    return any(
        kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame"
        for kind in type(frame).__mro__
    )


def unsupported(data: object) -> UsageError:
    """The error for an object that nothing can be loaded from."""
    kind = f"{type(data).__module__}.{type(data).__qualname__}".removeprefix("builtins.")
    lazy = "collect it first; " if type(data).__name__ == "LazyFrame" else ""
    return UsageError(
        f"nothing can be loaded from an object of type {kind}",
        code="load_data",
        hint=f"{lazy}pass file names, {_KINDS}, or a dict of them by type",
        facts={"kind": kind},
    )


def _is_from(frame: object, package: str) -> bool:
    return any(kind.__module__.partition(".")[0] == package for kind in type(frame).__mro__)


def _pandas_table(frame: Any, name: str) -> pa.Table:
    """Without its index, which is no column. NaN is null, as pandas means it."""
    reject_duplicate_columns(name, [str(column) for column in frame.columns])
    return pa.Table.from_pandas(frame, preserve_index=False)


def _grouped(reader: pa.RecordBatchReader) -> Iterator[list[pa.RecordBatch]]:
    """The rows in groups for one file each, in batches that a worker may hold.

    Nobody knows how much will come: the first groups are small, so that a middling frame leaves no core without one.
    """
    group: list[pa.RecordBatch] = []
    size = groups = 0
    for batch in reader:
        for piece in _sliced(batch):
            group.append(piece)
            size += piece.nbytes
            if size >= (
                limits.LOAD_RANGE_BYTES_MIN if groups < limits.LOAD_RANGES_MIN else limits.LOAD_RANGE_BYTES
            ):
                yield group
                group, size = [], 0
                groups += 1
    if group:
        yield group


def _sliced(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = block_rows(batch.nbytes, batch.num_rows)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _unreadable(name: str, error: Exception) -> ContentError:
    lines = [str(part) for part in error.args if part] or [type(error).__name__]
    return ContentError(
        f"{name} cannot be turned into Arrow: {' '.join(' '.join(lines).split())[:400]}",
        code="input_columns",
        hint="nothing was written; let each column of the frame hold values of one kind",
        facts={"data": name},
    )
