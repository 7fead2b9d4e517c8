"""Parquet files of one type: some row groups per piece, which a task reads batch by batch.

In: files and a type. Out: pieces, whose line numbers are the row numbers of their file. The driver reads the footers,
so that a file that is not Parquet is rejected before any task starts. A worker holds some pages of each column and one
batch, independent of the size of a row group. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.base import limits
from omnigraph.pipeline.load.inputs.blocks import (
    Block,
    arrow_block,
    block_rows,
    reject_duplicate_columns,
    require_known_column,
    require_type,
)
from omnigraph.pipeline.load.inputs.files import InputFile, unreadable_input
from omnigraph.schema.catalog import Catalog, Entity
from omnigraph.storage.files import open_bytes


@dataclass(frozen=True, slots=True)
class ParquetPiece:
    """Some row groups of one file, with their uncompressed bytes, their rows and their fields."""

    file: InputFile
    type_name: str
    part: int
    row_groups: tuple[int, ...]
    size_bytes: int
    rows: int
    fields: int

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def text_bytes(self) -> int:
        """Return the size as text. A repeated value is stored once, so each field counts as a few characters."""
        return max(self.size_bytes, self.fields * limits.PARQUET_FIELD_TEXT_BYTES)

    def blocks(self, catalog: Catalog) -> Iterator[Block]:
        entity = require_type(catalog, self.type_name)
        for batch in self._batches():
            yield arrow_block(entity, batch)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        rows = block_rows(self.size_bytes, self.rows)
        try:
            with _open(self.file) as file:
                yield from file.iter_batches(batch_size=rows, row_groups=list(self.row_groups), use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise unreadable_input(self.file, error) from error


def plan_parquet_pieces(files: Sequence[InputFile], entity: Entity) -> tuple[ParquetPiece, ...]:
    """Return the pieces of Parquet files whose rows are of the type."""
    with ThreadPoolExecutor(limits.INPUT_PLAN_THREADS) as threads:
        planned = threads.map(lambda file: _plan_file(file, entity), files)
        return tuple(piece for pieces in planned for piece in pieces)


def _plan_file(file: InputFile, entity: Entity) -> list[ParquetPiece]:
    try:
        with _open(file) as opened:
            metadata, names = opened.metadata, opened.schema_arrow.names
    except (pa.ArrowException, OSError) as error:
        raise unreadable_input(file, error) from error
    reject_duplicate_columns(f"'{file.name}'", names)
    require_known_column(f"'{file.name}'", names, entity)
    pieces: list[ParquetPiece] = []
    groups: list[int] = []
    size = rows = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        size += metadata.row_group(group).total_byte_size
        rows += metadata.row_group(group).num_rows
        if size >= limits.LOAD_RANGE_BYTES or group == metadata.num_row_groups - 1:
            fields = rows * len(names)
            pieces.append(ParquetPiece(file, entity.name, len(pieces), tuple(groups), size, rows, fields))
            groups, size, rows = [], 0, 0
    return pieces


def _open(file: InputFile) -> pq.ParquetFile:
    return pq.ParquetFile(open_bytes(file.location, file.size), buffer_size=limits.PARQUET_BUFFER_BYTES)
