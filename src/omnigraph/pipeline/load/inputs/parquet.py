"""Parquet files of one type: groups of row groups that tasks read on their own, batch by batch.

In: files and a type. Out: pieces, whose line numbers are the numbers of the rows in their file. The driver reads the
footers, so that a file which is none is refused before any work begins. A worker holds some pages of each column and
one batch, however large a row group is.
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
    refuse_foreign_columns,
    reject_duplicate_columns,
    type_of_rows,
)
from omnigraph.pipeline.load.inputs.files import InputFile, unreadable_input
from omnigraph.schema.catalog import Catalog, Entity
from omnigraph.storage.files import open_bytes


@dataclass(frozen=True, slots=True)
class ParquetPiece:
    """Some row groups of one file, and how many bytes, rows and fields they unpack to."""

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
        """Repeated values are stored once, so a field counts as some characters at least."""
        return max(self.size_bytes, self.fields * limits.PARQUET_FIELD_TEXT_BYTES)

    def blocks(self, catalog: Catalog) -> Iterator[Block]:
        entity = type_of_rows(catalog, self.type_name)
        for batch in self._batches():
            yield arrow_block(entity, batch)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        rows = block_rows(self.size_bytes, self.rows)
        try:
            with _open(self.file) as file:
                yield from file.iter_batches(
                    batch_size=rows, row_groups=list(self.row_groups), use_threads=False
                )
        except (pa.ArrowException, OSError) as error:
            raise unreadable_input(self.file, error) from error


def plan_parquet_pieces(files: Sequence[InputFile], entity: Entity) -> tuple[ParquetPiece, ...]:
    """The pieces of Parquet files whose rows are of the type."""
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
    refuse_foreign_columns(f"'{file.name}'", names, entity)
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
