"""The task of an export: writes one part of a table as a file.

In: a `PartTask` with the rows to read and the file to write. Out: a `Part` with exact counts. Rows are converted from
Lance to text or Parquet in the worker. Safe to repeat: a second attempt writes the same bytes with the same name, and a
file becomes visible when it is complete.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa
import zstandard

from omnigraph.base.errors import RefusedError
from omnigraph.base.hints import Argument, Placeholder, hint
from omnigraph.graph.rows.entity_rows import blob_names
from omnigraph.graph.rows.ndjson import blob_text, json_lines, line_bytes
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.raw import FROM, TO
from omnigraph.pipeline.export import rows as export_rows
from omnigraph.pipeline.export.plan import ExportTable, IdRange
from omnigraph.pipeline.runner import TaskSize, task
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.files import Compression, write_file
from omnigraph.storage.lance.dataset import ADDRESS, Dataset
from omnigraph.storage.lance.read import RowSlice
from omnigraph.storage.location import Location

_GZIP_LEVEL: Final = 6
_ZSTD_LEVEL: Final = 3
_PARQUET_NAMES: Final = {"src": FROM, "dst": TO}


class ExportFormat(Enum):
    """The format of the written rows."""

    NDJSON = "ndjson"
    """One line of JSON per row, which `load` reads."""
    PARQUET = "parquet"
    """Parquet files, one type each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTask:
    """The rows of a range of ids, in `slices` of the table or in `pieces` of runs, and the file to write."""

    table: ExportTable
    id_range: IdRange
    batch_rows: int
    slices: tuple[RowSlice, ...]
    pieces: tuple[export_rows.RunPiece, ...]
    scratch: Scratch
    output: Location
    format: ExportFormat = ExportFormat.NDJSON
    compression: Compression = Compression.NONE


@dataclass(frozen=True, slots=True)
class Part:
    """A written part."""

    output: Location
    rows: int
    size_bytes: int


def part_size(part: Part) -> TaskSize:
    """Return what a finished part adds to the progress."""
    return TaskSize(part.rows, part.size_bytes)


@task("export", part_size)
def write_part(task: PartTask) -> Part:
    """Write one part."""
    dataset = task.table.version.open()
    rows = _read(dataset, task)
    with write_file(task.output) as file:
        if task.format is ExportFormat.PARQUET:
            _write_parquet(dataset, task, rows, file)
        elif rows is not None:
            with compressed(file, task.compression) as sink:
                _write_lines(dataset, task.table, rows, sink)
        size = file.tell()
    return Part(task.output, 0 if rows is None else rows.num_rows, size)


@contextmanager
def compressed(file: BinaryIO, compression: Compression) -> Iterator[BinaryIO]:
    """Return a file that compresses what is written to it. Concatenated compressed parts are one valid file."""
    match compression:
        case Compression.NONE:
            yield file
        case Compression.GZIP:
            with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as sink:
                yield cast(BinaryIO, sink)
        case Compression.ZSTD:
            compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
            with compressor.stream_writer(file, closefd=False) as sink:
                yield cast(BinaryIO, sink)


def _read(dataset: Dataset, task: PartTask) -> pa.RecordBatch | None:
    if task.pieces:
        return export_rows.sort_rows(list(export_rows.read_runs(task.scratch, task.pieces)))
    batches = export_rows.read_slices(dataset, task.table, task.slices, task.batch_rows)
    return export_rows.sort_rows(list(export_rows.rows_within(batches, task.id_range)))


def _write_lines(dataset: Dataset, table: ExportTable, rows: pa.RecordBatch, sink: BinaryIO) -> None:
    for batch in export_rows.split_rows(table.entity, rows):
        with_text = batch
        for name in blob_names(table.entity):
            text = blob_text(export_rows.blob_contents(dataset, name, batch))
            with_text = with_text.set_column(batch.schema.get_field_index(name), name, text)
        sink.write(line_bytes(json_lines(table.entity, with_text)).data)


def _write_parquet(dataset: Dataset, task: PartTask, rows: pa.RecordBatch | None, file: BinaryIO) -> None:
    import pyarrow.parquet as pq

    schema = _parquet_schema(task.table)
    blobs = blob_names(task.table.entity)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in () if rows is None else export_rows.split_rows(task.table.entity, rows) if blobs else (rows,):
            columns = {name: batch.column(name) for name in batch.schema.names if name != ADDRESS}
            for name in blobs:
                columns[name] = _binary(export_rows.blob_contents(dataset, name, batch), name, task.table)
            arrays: Any = list(columns.values())
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _parquet_schema(table: ExportTable) -> pa.Schema:
    """Return the columns of a Parquet file of a type: the id, the endpoints of an edge, the properties."""
    blobs = blob_names(table.entity)
    fields = [
        pa.field(
            _PARQUET_NAMES.get(field.name, field.name),
            pa.large_binary() if field.name in blobs else field.type,
            nullable=field.nullable,
        )
        for field in arrow_schema(table.entity)
    ]
    return pa.schema(fields)


def _binary(contents: list[bytes | str | None], name: str, table: ExportTable) -> pa.Array[Any]:
    if any(isinstance(content, str) for content in contents):
        raise RefusedError(
            f"{table.entity.name}.{name} has blobs outside the graph, which Parquet cannot reference",
            code="export_blob_uri",
            hint=hint(
                "Pass {}, or other types with {}.", Argument("format", "ndjson"), Argument("types", Placeholder("TYPE"))
            ),
            facts={"type": table.entity.name, "property": name},
        )
    binary: Any = pa.array(contents, pa.large_binary())
    return cast("pa.Array[Any]", binary)
