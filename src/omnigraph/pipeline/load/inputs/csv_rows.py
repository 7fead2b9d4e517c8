"""CSV files of one type: one piece per file, read as a stream.

In: files and a type. Out: pieces, whose line numbers are those of the file; the header and line breaks inside quotes
count. The first line has the column names. The driver reads it, so that a bad header is rejected before any task
starts. A row with a syntax error, or with more or fewer fields than the header, is a bad line. Files are UTF-8, with or
without a byte order mark, with commas between fields and quotes as in RFC 4180. Nothing is written.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, assert_never

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from omnigraph.arrow.columns import Column, Rows, plain_array
from omnigraph.base import limits
from omnigraph.base.errors import ContentError
from omnigraph.integrity.convert.scalars import is_unicode
from omnigraph.integrity.raw import MixedColumn, RawBatch, RawColumn, values_of
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.load.inputs.blocks import (
    LINE_TOO_LONG,
    BadLine,
    Block,
    Piece,
    TypedRows,
    input_columns,
    reject_duplicate_columns,
    require_known_column,
)
from omnigraph.pipeline.load.inputs.files import InputFile
from omnigraph.pipeline.load.inputs.ranges import read_file_blocks, text_bytes
from omnigraph.schema import property_types as types
from omnigraph.schema.catalog import Catalog, Entity

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
# Every integer with at most this many characters fits 64 bits.
_SURELY_FITTING_CHARACTERS: Final = 18
# Python does not parse longer integers; no property can hold one.
_DIGITS_MAX: Final = 1_000
_BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_TRUE_TEXTS: Final = pa.array([text for text, value in _BOOLEANS.items() if value])
_BOOLEAN_TEXTS: Final = pa.array(list(_BOOLEANS))
_QUOTE, _COMMA, _NEWLINE, _RETURN = b'",\n\r'
_FIELD: Final = rb'(?:"(?:[^"]++|"")*+"|[^",\r\n]*+)'
_RECORD: Final = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*+(?:\r?\n|\Z)")
_QUOTED: Final = re.compile(rb'"(?:[^"]++|"")*+"')
_UNCLOSED: Final = re.compile(rb"(?:" + _FIELD + rb',)*+"(?:[^"]++|"")*+"?\Z')
_SYNTAX_MESSAGE: Final = "invalid CSV: expected a closed quote around the whole field and no bare CR"
_SEPARATORS: Final = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_HEADER_LINE: Final = Block(1, (), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvPiece(Piece):
    """One file."""

    file: InputFile
    type_name: str

    def blocks(self, catalog: Catalog) -> Iterator[Block]:
        entity = catalog.require_type(self.type_name)
        header = _split_header(self.file, read_file_blocks(self.file))
        if header is None:
            return
        _require_header(self.file, header.names, entity)
        yield _HEADER_LINE
        for chunk in read_chunks(header.rest):
            yield _block(entity, header.names, chunk)


def plan_csv_pieces(files: Sequence[InputFile], entity: Entity) -> tuple[CsvPiece, ...]:
    """Return the pieces of CSV files whose rows are of the type."""
    with ThreadPoolExecutor(limits.INPUT_PLAN_THREADS) as threads:
        return tuple(threads.map(lambda file: _plan_file(file, entity), files))


@dataclass(frozen=True, slots=True, eq=False)
class RecordChunk:
    """Some rows: their bytes, the line of each from 0, the bad lines, and the number of lines in all."""

    data: bytes
    starts: Rows
    bad: tuple[BadLine, ...]
    lines: int


def read_chunks(blocks: Iterator[bytes]) -> Iterator[RecordChunk]:
    """Read the rows of a file after its header. A blank line is not a row."""
    rest = b""
    for block in blocks:
        chunk, rest = _split_rows(rest + block if rest else block, is_last=False)
        yield chunk
        while len(rest) > limits.LOAD_LINE_BYTES_MAX:
            cut = rest.find(b"\n") + 1
            if not cut:
                yield _bad_chunk(rest, Rule.LINE_TOO_LONG, LINE_TOO_LONG)
                return
            yield _bad_chunk(rest[:cut], Rule.LINE_SYNTAX, _SYNTAX_MESSAGE)
            chunk, rest = _split_rows(rest[cut:], is_last=False)
            yield chunk
    if rest:
        yield _split_rows(rest, is_last=True)[0]


def split_records(data: bytes) -> Iterator[bytes]:
    """Return the rows of a chunk one by one."""
    start = 0
    while start < len(data):
        match = _RECORD.match(data, start)
        assert match is not None, "the rows of a chunk are valid CSV"
        yield match[0]
        start = match.end()


def count_fields(record: bytes) -> int:
    """Return how many fields a row has."""
    return _QUOTED.sub(b"", record).count(b",") + 1


@dataclass(frozen=True, slots=True)
class FieldCountMismatch:
    """A row whose number of fields is not that of the header; `row` counts all rows from 0."""

    row: int
    fields: int
    text: str


def parse_fields(data: bytes, names: list[str]) -> tuple[pa.Table, list[FieldCountMismatch]]:
    """Return all fields as text, and the rows whose number of fields is not that of the header."""
    mismatches: list[FieldCountMismatch] = []

    def skip(row: Any) -> Literal["skip"]:
        mismatches.append(FieldCountMismatch(row.number - 1, row.actual_columns, row.text))
        return "skip"

    if not is_unicode(data):
        # The native parser fails on a row of the wrong length whose bytes are not UTF-8.
        data, mismatches = _drop_mismatches(data, len(names))
        if not data:
            return pa.schema([(name, pa.utf8()) for name in names]).empty_table(), mismatches
    source: Any = pa.BufferReader(data)
    table = pcsv.read_csv(
        source,
        read_options=pcsv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
        parse_options=pcsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=skip),
        convert_options=pcsv.ConvertOptions(
            check_utf8=False,
            column_types={name: pa.utf8() for name in names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table, mismatches


def raw_column(texts: Column, target: types.PropertyType) -> RawColumn:
    """Return the fields of one column as values for a property of this type."""
    match target:
        case types.ListType() | types.VectorType():
            return _convert_each(texts, _list_or_text)
        case types.ScalarType(types.Scalar.BOOL):
            return _booleans(texts)
        case types.ScalarType(scalar) if scalar in types.INTEGER_BOUNDS:
            return _integers(texts)
        case types.ScalarType(scalar) if scalar in types.FLOATS:
            return _floats(texts)
        case types.ScalarType() | types.EnumType():
            return texts
        case _:
            assert_never(target)


def _plan_file(file: InputFile, entity: Entity) -> CsvPiece:
    header = _split_header(file, read_file_blocks(file, limits.CSV_HEADER_BYTES_MAX))
    if header is not None:
        _require_header(file, header.names, entity)
    return CsvPiece(
        name=file.name,
        file=file,
        part=0,
        size_bytes=file.size,
        text_bytes=text_bytes(file, file.size),
        type_name=entity.name,
    )


@dataclass(frozen=True, slots=True)
class _Header:
    names: list[str]
    rest: Iterator[bytes]


def _split_header(file: InputFile, blocks: Iterator[bytes]) -> _Header | None:
    """Return the column names of the first line, without blanks around them, and the rest; None for an empty file."""
    data = b""
    for block in blocks:
        data += block
        if b"\n" in block or len(data) > limits.CSV_HEADER_BYTES_MAX:
            break
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data:
        return None
    line, _, rest = data.partition(b"\n")
    if len(line) > limits.CSV_HEADER_BYTES_MAX:
        raise _bad_header(file, f"expected at most {limits.CSV_HEADER_BYTES_MAX:,} bytes, got a longer line")
    try:
        rows = list(csv.reader([line.decode().removesuffix("\r")], strict=True))
    except UnicodeDecodeError as error:
        raise _bad_header(file, "expected UTF-8, got another encoding", advice="Save the file as UTF-8.") from error
    except csv.Error as error:
        raise _bad_header(file, f"expected CSV ({error})") from error

    def after() -> Iterator[bytes]:
        if rest:
            yield rest
        yield from blocks

    return _Header([name.strip() for name in rows[0]] if rows else [], after())


def _require_header(file: InputFile, names: list[str], entity: Entity) -> None:
    if not any(names):
        raise _bad_header(file, "expected column names, got an empty line", entity)
    separator = next((name for text, name in _SEPARATORS.items() if len(names) == 1 and text in names[0]), None)
    if separator is not None:
        raise _bad_header(file, f"expected commas between the names, got {separator}", entity)
    if "" in names:
        raise _bad_header(file, f"expected a name for column {names.index('') + 1}, got an empty field", entity)
    reject_duplicate_columns(f"'{file.name}'", names)
    require_known_column(f"the header of '{file.name}'", names, entity)


def _bad_header(file: InputFile, reason: str, entity: Entity | None = None, advice: str = "") -> ContentError:
    example = f" such as {','.join(input_columns(entity)[:4])}" if entity else ""
    return ContentError(
        f"invalid header in the first line of '{file.name}': {reason}",
        code="csv_header",
        hint=f"Nothing was written. {advice or f'Start the file with a line of column names{example}.'}",
        facts={"data": file.name},
    )


def _split_rows(data: bytes, *, is_last: bool) -> tuple[RecordChunk, bytes]:
    """Return the complete rows, and the bytes of the incomplete last row."""
    octets = np.frombuffer(data, dtype=np.uint8)
    newlines = np.flatnonzero(octets == _NEWLINE)
    quotes = np.flatnonzero(octets == _QUOTE)
    if not _is_plain(octets, quotes, is_last=is_last):
        return _split_invalid(data, newlines, is_last=is_last)
    ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0] + 1
    if is_last and (not len(ends) or ends[-1] < len(data)):
        ends = np.append(ends, len(data))
    cut = int(ends[-1]) if len(ends) else 0
    return _make_chunk(data[:cut], np.append(0, ends)[:-1], ends, newlines), data[cut:]


def _is_plain(octets: Any, quotes: Any, *, is_last: bool) -> bool:
    """Return whether each quote opens, closes or is doubled, and each CR is quoted or part of a line end."""
    last = len(octets) - 1
    opens, closes = quotes[0::2], quotes[1::2]
    before = octets[np.maximum(opens - 1, 0)]
    is_open = (opens == 0) | (before == _COMMA) | (before == _NEWLINE)
    is_open[1:] |= opens[1:] - 1 == closes[: len(opens) - 1]
    after = octets[np.minimum(closes + 1, last)]
    is_close = (closes == last) | np.isin(after, (_COMMA, _NEWLINE, _RETURN, _QUOTE))
    returns = np.flatnonzero(octets == _RETURN)
    is_end = octets[np.minimum(returns + 1, last)] == _NEWLINE
    if not is_last:
        is_end |= returns == last
    is_quoted = np.searchsorted(quotes, returns) % 2 == 1
    is_whole = not is_last or len(quotes) % 2 == 0
    return bool(is_whole and is_open.all() and is_close.all() and (is_end | is_quoted).all())


def _split_invalid(data: bytes, newlines: Any, *, is_last: bool) -> tuple[RecordChunk, bytes]:
    begins: list[int] = []
    ends: list[int] = []
    bad: list[BadLine] = []
    start = 0
    while start < len(data):
        match = _RECORD.match(data, start)
        is_incomplete = match.end() == len(data) and data[-1] != _NEWLINE if match else _UNCLOSED.match(data, start)
        if is_incomplete and not is_last:
            break
        end = match.end() if match else data.find(b"\n", start) + 1
        if not end and not is_last:
            break
        end = end or len(data)
        if match:
            begins.append(start)
            ends.append(end)
        else:
            line = int(np.searchsorted(newlines, start))
            bad.append(BadLine(line, Rule.LINE_SYNTAX, _SYNTAX_MESSAGE, _shown(data[start:end])))
        start = end
    offsets = np.array([begins, ends], dtype=np.int64)
    chunk = _make_chunk(data[:start], offsets[0], offsets[1], newlines)
    return replace(chunk, bad=tuple(bad)), data[start:]


def _make_chunk(data: bytes, begins: Any, ends: Any, newlines: Any) -> RecordChunk:
    """Return the rows between these offsets, without blank ones. The lines are those of all the data."""
    octets = np.frombuffer(data, dtype=np.uint8)
    lines = int(np.searchsorted(newlines, len(data))) + (data[-1:] not in (b"", b"\n"))
    blank = (octets[begins] == _NEWLINE) | ((ends - begins == 2) & (octets[begins] == _RETURN))
    begins, ends = begins[~blank], ends[~blank]
    starts = np.searchsorted(newlines, begins).astype(np.int64)
    is_whole = int((ends - begins).sum()) == len(data)
    rows = data if is_whole else b"".join(data[begin:end] for begin, end in zip(begins, ends, strict=True))
    return RecordChunk(rows, starts, (), lines)


def _bad_chunk(data: bytes, rule: Rule, message: str) -> RecordChunk:
    line = BadLine(0, rule, message, _shown(data))
    return RecordChunk(b"", np.empty(0, dtype=np.int64), (line,), 1)


def _shown(data: bytes) -> str:
    return (
        data[: 4 * limits.VIOLATION_VALUE_LENGTH_MAX]
        .decode(errors="replace")
        .strip()[: limits.VIOLATION_VALUE_LENGTH_MAX]
    )


def _block(entity: Entity, names: list[str], chunk: RecordChunk) -> Block:
    if not chunk.data:
        return Block(chunk.lines, (), chunk.bad)
    table, mismatches = parse_fields(chunk.data, names)
    starts = chunk.starts
    assert table.num_rows + len(mismatches) == len(starts), "the scanner and the parser agree on the rows"
    bad = [
        BadLine(
            int(starts[mismatch.row]),
            Rule.LINE_SYNTAX,
            f"invalid CSV: expected {len(names)} fields as in the header, got {mismatch.fields}",
            mismatch.text[: limits.VIOLATION_VALUE_LENGTH_MAX],
        )
        for mismatch in mismatches
    ]
    lines = np.delete(starts, [mismatch.row for mismatch in mismatches])
    rows = (TypedRows(entity, _raw_batch(entity, table), lines),) if table.num_rows else ()
    return Block(chunk.lines, rows, (*chunk.bad, *bad), len(chunk.data))


def _raw_batch(entity: Entity, table: pa.Table) -> RawBatch:
    columns: dict[str, RawColumn] = {}
    for name in table.schema.names:
        texts = plain_array(table.column(name))
        property_ = entity.property_named(name)
        columns[name] = texts if property_ is None else raw_column(texts, property_.type)
    return RawBatch(table.num_rows, columns, is_table=True)


def _drop_mismatches(data: bytes, names: int) -> tuple[bytes, list[FieldCountMismatch]]:
    """Return the rows with as many fields as the header, and the other rows."""
    good: list[bytes] = []
    mismatches: list[FieldCountMismatch] = []
    for row, record in enumerate(split_records(data)):
        fields = count_fields(record)
        if fields == names:
            good.append(record)
        else:
            mismatches.append(FieldCountMismatch(row, fields, record.decode(errors="replace").strip()))
    return b"".join(good), mismatches


def _integers(texts: Column) -> RawColumn:
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest <= _SURELY_FITTING_CHARACTERS and _all_match(texts, _INTEGER):
        numbers: Column = pc.cast(texts, pa.int64())
        return numbers
    return _convert_each(texts, lambda text: int(text[:_DIGITS_MAX]) if _INTEGER.fullmatch(text) else text)


def _floats(texts: Column) -> RawColumn:
    if _all_match(texts, _NUMBER):
        numbers: Column = pc.cast(texts, pa.float64())
        return numbers
    return _convert_each(texts, lambda text: float(text) if _NUMBER.fullmatch(text) else text)


def _booleans(texts: Column) -> RawColumn:
    if pc.all(pc.or_kleene(pc.is_in(texts, _BOOLEAN_TEXTS), pc.is_null(texts))).as_py() is False:
        return _convert_each(texts, lambda text: _BOOLEANS.get(text, text))
    values: Column = pc.if_else(pc.is_null(texts), pa.scalar(None, pa.bool_()), pc.is_in(texts, _TRUE_TEXTS))
    return values


def _all_match(texts: Column, pattern: re.Pattern[str]) -> bool:
    return pc.all(pc.match_substring_regex(texts, rf"\A(?:{pattern.pattern})\z")).as_py() is not False


def _convert_each(texts: Column, read: Callable[[str], object]) -> MixedColumn:
    return MixedColumn([read(text) if isinstance(text, str) else None for text in values_of(texts)])


def _list_or_text(text: str) -> object:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text
    return value if isinstance(value, list) else text
