"""CSV files of one type: one piece a file, read as a stream.

In: files and a type. Out: pieces, whose line numbers are those of the file, header and quoted line ends counted. The
first line names the columns; the driver looks at it, so that a file without one is refused before any work begins. A
row that is no CSV, or has more or fewer fields than the header, is a bad line. Files are UTF-8, with or without a mark
at the start, fields stand between commas, and `"` quotes as RFC 4180 says.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from omnigraph.base import limits
from omnigraph.base.errors import ContentError
from omnigraph.integrity.raw import RawBatch, RawColumn, plain_array
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.blocks import BadLine, Block, TypedRows
from omnigraph.pipeline.csv_cells import raw_column
from omnigraph.pipeline.csv_records import Stretch, count_fields, read_stretches, split_records
from omnigraph.pipeline.input_types import (
    known_columns,
    refuse_foreign_columns,
    refuse_twin_columns,
    type_of_rows,
)
from omnigraph.pipeline.inputs import Compression, InputFile
from omnigraph.pipeline.ranges import read_file_blocks
from omnigraph.schema import Catalog, Entity

_HEADER_LINES: Final = Block(1, (), ())


@dataclass(frozen=True, slots=True)
class CsvPiece:
    """A whole file."""

    file: InputFile
    type_name: str

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def part(self) -> int:
        return 0

    @property
    def size_bytes(self) -> int:
        return self.file.size

    @property
    def text_bytes(self) -> int:
        packed = self.file.compression is not Compression.NONE
        return self.size_bytes * (limits.LOAD_PACKED_FACTOR if packed else 1)

    def blocks(self, catalog: Catalog) -> Iterator[Block]:
        entity = type_of_rows(catalog, self.type_name)
        header = _split_header(self.file, read_file_blocks(self.file))
        _check_header(self.file, header.names, entity)
        yield _HEADER_LINES
        for stretch in read_stretches(header.rest):
            yield _block(entity, header.names, stretch)


def plan_csv_pieces(files: Sequence[InputFile], entity: Entity) -> tuple[CsvPiece, ...]:
    """The pieces of CSV files whose rows are of the type."""
    with ThreadPoolExecutor(limits.INPUT_PLAN_THREADS) as threads:
        return tuple(threads.map(lambda file: _plan_file(file, entity), files))


@dataclass(frozen=True, slots=True)
class Ragged:
    """A row with another number of fields than there are names; `row` counts all rows from 0."""

    row: int
    fields: int
    text: str


def parse_fields(data: bytes, names: list[str]) -> tuple[pa.Table, list[Ragged]]:
    """Every field as text, and the rows with another number of fields than there are names."""
    ragged: list[Ragged] = []

    def skip(row: Any) -> Literal["skip"]:
        ragged.append(Ragged(row.number - 1, row.actual_columns, row.text))
        return "skip"

    if not _is_unicode(data):
        # The native parser cannot tell about a bad row whose bytes are no text.
        data, ragged = _without_ragged(data, len(names))
        if not data:
            return pa.schema([(name, pa.utf8()) for name in names]).empty_table(), ragged
    source: Any = pa.BufferReader(data)
    table = pcsv.read_csv(
        source,
        read_options=pcsv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
        parse_options=pcsv.ParseOptions(
            newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=skip
        ),
        convert_options=pcsv.ConvertOptions(
            check_utf8=False,
            column_types={name: pa.utf8() for name in names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table, ragged


def _plan_file(file: InputFile, entity: Entity) -> CsvPiece:
    header = _split_header(file, read_file_blocks(file, limits.CSV_HEADER_BYTES_MAX))
    _check_header(file, header.names, entity)
    return CsvPiece(file, entity.name)


@dataclass(frozen=True, slots=True)
class _Header:
    names: list[str]
    rest: Iterator[bytes]


def _split_header(file: InputFile, blocks: Iterator[bytes]) -> _Header:
    """The names on the first line, and the bytes after it."""
    data = b""
    for block in blocks:
        data += block
        if b"\n" in block or len(data) > limits.CSV_HEADER_BYTES_MAX:
            break
    line, _, rest = data.removeprefix(codecs.BOM_UTF8).partition(b"\n")
    if len(line) > limits.CSV_HEADER_BYTES_MAX:
        raise _bad_header(file, "is too long to be one")
    try:
        rows = list(csv.reader([line.decode().removesuffix("\r")], strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise _bad_header(file, f"is not CSV in UTF-8: {error}") from error

    def after() -> Iterator[bytes]:
        if rest:
            yield rest
        yield from blocks

    return _Header(rows[0] if rows else [], after())


def _check_header(file: InputFile, names: list[str], entity: Entity) -> None:
    if not any(names):
        raise _bad_header(file, "is empty", entity)
    if "" in names:
        raise _bad_header(file, f"has no name for column {names.index('') + 1}", entity)
    refuse_twin_columns(f"'{file.name}'", names)
    refuse_foreign_columns(f"the header of '{file.name}'", names, entity)


def _bad_header(file: InputFile, why: str, entity: Entity | None = None) -> ContentError:
    example = f" such as {','.join(known_columns(entity)[:4])}" if entity else ""
    return ContentError(
        f"the first line of '{file.name}', its header, {why}",
        code="csv_header",
        hint=f"nothing was written; begin the file with a line of column names{example}",
        facts={"data": file.name},
    )


def _block(entity: Entity, names: list[str], stretch: Stretch) -> Block:
    if not stretch.data:
        return Block(stretch.lines, (), stretch.bad)
    table, ragged = parse_fields(stretch.data, names)
    starts = stretch.starts
    assert table.num_rows + len(ragged) == len(starts), "both ways to find rows agree"
    bad = [_bad_line(found, int(starts[found.row]), len(names)) for found in ragged]
    lines = np.delete(starts, [found.row for found in ragged])
    rows = (TypedRows(entity, _raw(entity, table), lines),) if table.num_rows else ()
    return Block(stretch.lines, rows, (*stretch.bad, *bad))


def _raw(entity: Entity, table: pa.Table) -> RawBatch:
    columns: dict[str, RawColumn] = {}
    for name in table.schema.names:
        texts = plain_array(table.column(name))
        found = entity.property_named(name)
        columns[name] = texts if found is None else raw_column(texts, found.type)
    return RawBatch(table.num_rows, columns)


def _bad_line(found: Ragged, line: int, names: int) -> BadLine:
    fields = "1 field" if found.fields == 1 else f"{found.fields} fields"
    message = f"the row has {fields}, and the header has {names}"
    return BadLine(line, Rule.LINE_SYNTAX, message, found.text[: limits.VIOLATION_VALUE_LENGTH_MAX])


def _is_unicode(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _without_ragged(data: bytes, names: int) -> tuple[bytes, list[Ragged]]:
    """The rows with as many fields as names, and the others."""
    good: list[bytes] = []
    ragged: list[Ragged] = []
    for row, record in enumerate(split_records(data)):
        fields = count_fields(record)
        if fields == names:
            good.append(record)
        else:
            ragged.append(Ragged(row, fields, record.decode(errors="replace").strip()))
    return b"".join(good), ragged
