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
    Piece,
    arrow_block,
    block_rows,
    reject_duplicate_columns,
    require_known_column,
)
from omnigraph.pipeline.load.inputs.files import InputFile, unreadable_input
from omnigraph.schema.catalog import Catalog, Entity
from omnigraph.storage.files import open_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetPiece(Piece):
    """Some row groups of one file; `size_bytes` is their uncompressed size."""

    file: InputFile
    type_name: str
    row_groups: tuple[int, ...]
    rows: int

    def blocks(self, catalog: Catalog) -> Iterator[Block]:
        entity = catalog.require_type(self.type_name)
        rows = block_rows(self.size_bytes, self.rows)
        try:
            with _open(self.file) as file:
                groups = list(self.row_groups)
                for batch in file.iter_batches(batch_size=rows, row_groups=groups, use_threads=False):
                    yield arrow_block(entity, batch)
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
            pieces.append(
                ParquetPiece(
                    name=file.name,
                    file=file,
                    part=len(pieces),
                    size_bytes=size,
                    # A repeated value is stored once, so each field counts as a few characters.
                    text_bytes=max(size, rows * len(names) * limits.PARQUET_FIELD_TEXT_BYTES),
                    type_name=entity.name,
                    row_groups=tuple(groups),
                    rows=rows,
                )
            )
            groups, size, rows = [], 0, 0
    return pieces


def _open(file: InputFile) -> pq.ParquetFile:
    return pq.ParquetFile(open_bytes(file.location, file.size), buffer_size=limits.PARQUET_BUFFER_BYTES)
