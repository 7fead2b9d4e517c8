"""Convert rows of a type to lines of graph data, one column at a time, without a Python object per row.

In: a batch with the columns of the table of the type, its blobs as text (`blob_text`). Out: a column of lines, each
with its line end. Nulls are omitted. The id is first, so every property begins with a comma. Numbers have the
shortest digits that parse to the same value, floats always a point or an exponent. Text is escaped only in rows that
need it.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Sequence
from typing import Any, Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Bytes, Column, text_buffers
from omnigraph.integrity.identity import canonical_text, escaped_text, join_pieces
from omnigraph.schema.catalog import EdgeType, Entity, Property
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType
from omnigraph.schema.values import BASE64_PREFIX

_QUOTE: Final = '"'
Piece = Column | str


def json_lines(entity: Entity, rows: pa.RecordBatch) -> Column:
    """Return one line of text for each row."""
    pieces = [_beginning(entity), *_text(rows.column("id"))]
    if isinstance(entity, EdgeType):
        pieces = [_beginning(entity), *_text(rows.column("src")), ',"to":', *_text(rows.column("dst"))]
        pieces += [',"data":{"id":', *_text(rows.column("id"))]
    for property_ in entity.properties:
        pieces += _member(property_, rows.column(property_.name))
    return join_pieces(*pieces, "}}\n")


def line_bytes(lines: Column) -> Bytes:
    """Return the bytes of all lines, concatenated."""
    offsets, data = text_buffers(lines)
    return data[offsets[0] : offsets[-1]]


def blob_text(contents: Sequence[bytes | str | None]) -> Column:
    """Return the text for blobs in a line: bytes as base64, and the URI of a blob that is stored elsewhere."""
    texts = [
        BASE64_PREFIX + binascii.b2a_base64(content, newline=False).decode() if isinstance(content, bytes) else content
        for content in contents
    ]
    return pa.array(texts, pa.utf8())


def _beginning(entity: Entity) -> str:
    if isinstance(entity, EdgeType):
        return f'{{"edge":"{entity.name}","from":'
    return f'{{"type":"{entity.name}","data":{{"id":'


def _member(property_: Property, column: Column) -> list[Piece]:
    """Return a property with its name; nothing where it is null."""
    name = f",{json.dumps(property_.name)}:"
    value = _value(property_.type, column)
    if not column.null_count:
        return [name, *value]
    return [join_pieces(name, *value).fill_null("")]


def _value(kind: PropertyType, column: Column) -> list[Piece]:
    """Return the JSON of a column as pieces that are concatenated; null where the column is null."""
    match kind:
        case EnumType():
            return _text(column)
        case VectorType():
            return _list(ScalarType(Scalar.F32), column)
        case ListType(item):
            return _list(ScalarType(item), column)
        case ScalarType(scalar):
            return _scalar(scalar, column)
        case _:
            assert_never(kind)


def _scalar(scalar: Scalar, column: Column) -> list[Piece]:
    match scalar:
        case Scalar.STRING | Scalar.BLOB:
            return _text(column)
        case Scalar.DATE | Scalar.DATETIME:
            return [_QUOTE, canonical_text(column), _QUOTE]
        case Scalar.BOOL | Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return [pc.cast(column, pa.utf8())]
        case Scalar.F32 | Scalar.F64:
            return [_floats(column)]
        case _:
            assert_never(scalar)


def _floats(column: Column) -> Column:
    """Add a point to whole numbers, so that readers get floats everywhere."""
    text: Column = pc.cast(column, pa.utf8())
    if not pc.any(pc.equal(column, pc.trunc(column))).as_py():
        return text
    pointed: Column = pc.replace_substring_regex(text, r"^(-?[0-9]+)$", r"\1.0")
    return pointed


def _text(column: Column) -> list[Piece]:
    return [_QUOTE, escaped_text(column), _QUOTE]


def _list(item: ScalarType, column: Column) -> list[Piece]:
    """Convert all items as one column, then join them by list."""
    flat: Any = column
    values = flat.flatten()
    tokens = _value(item, values)
    texts = tokens[0] if len(tokens) == 1 else join_pieces(*tokens)
    build: Any = pa.ListArray.from_arrays
    lengths = pc.list_value_length(column).fill_null(0)
    ends = pc.cumulative_sum(pc.cast(lengths, pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    mask = column.is_null() if column.null_count else None
    return ["[", pc.binary_join(build(offsets, texts, mask=mask), ","), "]"]
