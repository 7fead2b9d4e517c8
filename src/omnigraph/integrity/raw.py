"""Columns as a reader delivers them, before they have the types of the schema.

A raw column is an Arrow array, all of one kind, or `Cells`: values of mixed kinds as Python has them after reading
JSON. The contract with readers:

- A JSON reader asks the native parser for `raw_schema`. What that parser refuses (a wrong kind, a number beyond 64
  bits, two kinds in one column) it reads again with a parser that keeps Python values (whole numbers of any size stay
  whole numbers) and delivers as `Cells`. So no digit is ever lost on the way.
- Columns of other sources (Parquet, CSV, frames) come as they are; dictionaries, large and view types, run ends and
  extension types are unwrapped here. A frame's float column that stands for whole numbers with gaps is the reader's
  to cast: here a float is never a whole number.
- A missing column and a column of nulls are the same. `id` is the given id; the ends of an edge are `from` and `to`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema import (
    EdgeType,
    Entity,
    EnumType,
    ListType,
    PropertyType,
    Scalar,
    ScalarType,
    VectorType,
)

if TYPE_CHECKING:
    Column = pa.Array[Any]
else:
    Column = pa.Array
Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

ID: Final = "id"
FROM: Final = "from"
TO: Final = "to"


@dataclass(frozen=True, slots=True)
class Cells:
    """Values of mixed kinds: None, bool, int, float, str, list, dict, and bytes, date, datetime from programs."""

    values: Sequence[object]

    def __len__(self) -> int:
        return len(self.values)


RawColumn = Column | Cells


@dataclass(frozen=True, slots=True)
class RawBatch:
    """The raw columns of rows of one type; each column has `rows` values."""

    rows: int
    columns: Mapping[str, RawColumn]

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch | pa.Table) -> RawBatch:
        """The columns of a batch or table by their names."""
        names = batch.schema.names
        return cls(batch.num_rows, {name: plain_array(batch.column(at)) for at, name in enumerate(names)})

    @classmethod
    def from_records(cls, records: Sequence[Mapping[str, object]]) -> RawBatch:
        """The members of JSON objects; an absent member is null."""
        names = dict.fromkeys(name for record in records for name in record)
        columns = {name: Cells([record.get(name) for record in records]) for name in names}
        return cls(len(records), columns)


def raw_schema(entity: Entity) -> pa.Schema:
    """What to ask of a native JSON parser: types that lose nothing and that it checks strictly."""
    ends = [FROM, TO] if isinstance(entity, EdgeType) else []
    text: pa.DataType = pa.utf8()
    fields = [pa.field(name, text) for name in (ID, *ends)]
    fields += [pa.field(found.name, raw_type(found.type)) for found in entity.properties]
    return pa.schema(fields)


def raw_type(property_type: PropertyType) -> pa.DataType:
    """What to ask of a native JSON parser for one property."""
    match property_type:
        case EnumType():
            return pa.utf8()
        case VectorType():
            return pa.list_(pa.float32())
        case ListType(item):
            return pa.list_(raw_type(ScalarType(item)))
        case ScalarType(scalar):
            return _raw_scalar(scalar)
        case _:
            assert_never(property_type)


def _raw_scalar(scalar: Scalar) -> pa.DataType:
    match scalar:
        case Scalar.BOOL:
            return pa.bool_()
        case Scalar.I32 | Scalar.I64 | Scalar.U32:
            return pa.int64()
        case Scalar.U64:
            return pa.uint64()
        case Scalar.F32 | Scalar.F64:
            return pa.float64()
        case Scalar.STRING | Scalar.DATE | Scalar.DATETIME | Scalar.BLOB:
            return pa.utf8()
        case _:
            assert_never(scalar)


def plain_array(column: Column | pa.ChunkedArray[Any]) -> Column:
    """The column as one array of a plain type: no dictionary, view, run ends, extension or large text."""
    array = whole_array(column)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain_array(pc.cast(array, kind.value_type))
    if pa.types.is_run_end_encoded(kind):
        return plain_array(pc.run_end_decode(array))
    wanted = _plain_type(kind)
    return array if wanted == kind else pc.cast(array, wanted)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.utf8()
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.large_binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return pa.list_(kind.value_type)
    return kind


def whole_array(column: Column | pa.ChunkedArray[Any]) -> Column:
    """The column as one array; what is in one piece already is not copied."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    joined: Any = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return joined  # type: ignore[no-any-return]


def nulls(count: int, kind: pa.DataType) -> Column:
    """A column without values."""
    make: Any = pa.nulls
    column: Column = make(count, kind)
    return column


def null_rows(column: RawColumn) -> Rows:
    """The rows without a value."""
    if isinstance(column, Cells):
        return np.array([row for row, value in enumerate(column.values) if value is None], dtype=np.int64)
    return rows_where(column.is_null()) if column.null_count else NO_ROWS


def taken(column: RawColumn, rows: Rows) -> RawColumn:
    """The values of some rows."""
    if isinstance(column, Cells):
        return Cells([column.values[row] for row in rows])
    return taken_array(column, rows)


def taken_array(array: Column, rows: Rows) -> Column:
    """The values of some rows of an array."""
    chosen: Column = array.take(pa.array(rows, pa.int64()))
    return chosen


def text_buffers(texts: Column) -> tuple[Rows, Bytes]:
    """The offsets of a column of text, one more than it has rows, and the bytes they point into."""
    buffers: list[Any] = texts.buffers()
    _, offsets, data = buffers
    if offsets is None or not len(texts):
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    bounds = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return bounds.astype(np.int64), np.frombuffer(data, dtype=np.uint8) if data else np.empty(
        0, dtype=np.uint8
    )


def rows_where(mask: Column) -> Rows:
    """The rows in which a boolean column is true; null is not."""
    return np.flatnonzero(bools(mask)).astype(np.int64, copy=False)


def bools(mask: Column) -> Mask:
    """A boolean column as numpy has it; null is false."""
    filled = mask.fill_null(False) if mask.null_count else mask
    found: Mask = filled.to_numpy(zero_copy_only=False)
    return found


def values_of(column: RawColumn) -> Iterator[object]:
    """The values as Python has them; text that is not UTF-8 is shown with replacement characters."""
    if isinstance(column, Cells):
        yield from column.values
        return
    if pa.types.is_string(column.type):
        raw = pc.cast(column, pa.large_binary()).to_pylist()
        yield from (None if value is None else value.decode(errors="replace") for value in raw)
        return
    for scalar in column:
        try:
            yield scalar.as_py()
        except (UnicodeDecodeError, ValueError, OverflowError):
            # Lists with text that is not UTF-8, and moments outside of Python's calendar.
            yield f"({column.type})"


NO_ROWS: Final[Rows] = np.empty(0, dtype=np.int64)
