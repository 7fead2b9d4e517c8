"""Frames from Python, of one type each: Arrow, pandas, Polars and all objects with Arrow's stream protocol.

In: an object and a type. Out: pieces in the scratch directory, which every executor can read. A frame is read once, and
a bounded part of it is held in memory in addition to it. Neither pandas nor Polars is imported. The caller that opened
the scratch directory deletes it; after a crash `cleanup` deletes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from omnigraph.base import limits
from omnigraph.base.errors import ContentError, UsageError
from omnigraph.graph.scratch import Scratch
from omnigraph.pipeline.load.inputs.blocks import (
    Block,
    Piece,
    arrow_block,
    block_rows,
    reject_duplicate_columns,
    require_known_column,
)
from omnigraph.schema.catalog import Catalog, Entity
from omnigraph.storage.files import open_bytes
from omnigraph.storage.location import Location

_KINDS: Final = (
    "a pyarrow Table, RecordBatch or RecordBatchReader, a pandas, Polars or Spark DataFrame, a list of dicts"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FramePiece(Piece):
    """Some rows of a frame, as an Arrow stream of `stored_bytes` in a scratch file."""

    type_name: str
    location: Location
    stored_bytes: int

    def blocks(self, catalog: Catalog) -> Iterator[Block]:
        entity = catalog.require_type(self.type_name)
        with open_bytes(self.location, self.stored_bytes) as file, pa.ipc.open_stream(file) as stream:
            for batch in stream:
                yield arrow_block(entity, batch)


def frame_name(entity: Entity) -> str:
    """Return the name of a frame in reports, where files have their paths."""
    return f"<{entity.name}>"


def stage_frame(frame: object, entity: Entity, scratch: Scratch) -> tuple[FramePiece, ...]:
    """Write the rows of a frame to the scratch directory."""
    name = frame_name(entity)
    pieces: list[FramePiece] = []
    try:
        with arrow_reader(frame, name) as reader:
            reject_duplicate_columns(name, reader.schema.names)
            require_known_column(name, reader.schema.names, entity)
            for batches in _group_batches(reader):
                file = scratch.write_batches("frame", reader.schema, batches)
                size = sum(batch.nbytes for batch in batches)
                pieces.append(
                    FramePiece(
                        name=name,
                        file=None,
                        part=len(pieces),
                        size_bytes=size,
                        text_bytes=size,
                        type_name=entity.name,
                        location=scratch.location.child(file.name),
                        stored_bytes=file.size_bytes,
                    )
                )
    except pa.ArrowException as error:
        lines = [str(part) for part in error.args if part] or [type(error).__name__]
        raise ContentError(
            f"{name} is not convertible to Arrow: {' '.join(' '.join(lines).split())[:400]}",
            code="input_columns",
            hint="Nothing was written. Use values of one type in each column of the frame.",
            facts={"data": name},
        ) from error
    return tuple(pieces)


def arrow_reader(frame: object, name: str) -> pa.RecordBatchReader:
    """Return the rows of a frame as Arrow batches; raise `UsageError` for any other object."""
    if isinstance(frame, pa.RecordBatchReader):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(frame.schema, [frame])
    if isinstance(frame, pa.Table):
        return frame.to_reader()
    is_pandas = any(kind.__module__.partition(".")[0] == "pandas" for kind in type(frame).__mro__)
    if is_pandas and hasattr(frame, "columns"):
        reject_duplicate_columns(name, [str(column) for column in frame.columns])
        pandas_frame: Any = frame
        # Without the index. NaN becomes null, as in pandas.
        return pa.Table.from_pandas(pandas_frame, preserve_index=False).to_reader()
    if type(frame).__name__ == "LazyFrame" and hasattr(frame, "collect"):
        try:
            collected = frame.collect()
        except OSError as error:
            reason = " ".join(str(error).split())
            raise UsageError(
                f"cannot read the LazyFrame {name}: {reason}",
                code="input_missing",
                hint="Nothing was written. Scan a file that exists.",
                facts={"data": name},
            ) from error
        return arrow_reader(collected, name)
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(frame)
    if hasattr(frame, "to_arrow"):
        table = frame.to_arrow()
        if isinstance(table, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
            return arrow_reader(table, name)
    raise unsupported_data(frame)


def is_spark_frame(frame: object) -> bool:
    """Return whether this is a DataFrame of Spark, classic or Connect."""
    return any(
        kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame" for kind in type(frame).__mro__
    )


def unsupported_data(data: object) -> UsageError:
    """Return the error for an object that load does not support."""
    kind = _kind_of(data)
    message = f"expected file names or frames, got an object of type {kind}"
    advice = f"Pass file names, {_KINDS}, or a dict of them by type."
    if is_iterator(data):
        advice = "Pass a list: `list(…)`."
    elif isinstance(data, list | tuple) and any(isinstance(item, Mapping) for item in data):
        position, item = next((index, item) for index, item in enumerate(data) if not isinstance(item, Mapping))
        message = f"expected a dict in each item of the {kind}, got an object of type {_kind_of(item)} at [{position}]"
    return UsageError(f"unsupported data: {message}", code="load_data", hint=advice, facts={"data_kind": kind})


def is_iterator(data: object) -> bool:
    """Return whether this is an iterator of Python, such as a generator, and neither a file nor Arrow data."""
    return isinstance(data, Iterator) and not hasattr(data, "read") and not hasattr(data, "__arrow_c_stream__")


def _kind_of(data: object) -> str:
    return f"{type(data).__module__}.{type(data).__qualname__}".removeprefix("builtins.")


def _group_batches(reader: pa.RecordBatchReader) -> Iterator[list[pa.RecordBatch]]:
    """Return the rows in groups for one file each, in batches that a worker can hold.

    The total is unknown, so the first groups are small: a frame of medium size still gives every core some work.
    """
    group: list[pa.RecordBatch] = []
    size = groups = 0
    for batch in reader:
        rows = block_rows(batch.nbytes, batch.num_rows)
        for start in range(0, batch.num_rows, rows):
            piece = batch.slice(start, rows)
            group.append(piece)
            size += piece.nbytes
            if size >= (limits.LOAD_RANGE_BYTES_MIN if groups < limits.LOAD_RANGES_MIN else limits.LOAD_RANGE_BYTES):
                yield group
                group, size = [], 0
                groups += 1
    if group:
        yield group
