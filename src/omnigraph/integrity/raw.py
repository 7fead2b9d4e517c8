"""Columns as a reader delivers them, before they have the types of the schema.

A raw column is an Arrow array, all of one kind, or `MixedColumn`: values of mixed kinds as Python has them after
reading JSON. The contract with readers:

- A JSON reader asks the native parser for `raw_schema`. What that parser refuses (a wrong kind, a number beyond 64
  bits, two kinds in one column) it reads again with a parser that keeps Python values (whole numbers of any size stay
  whole numbers) and delivers as `MixedColumn`. So no digit is ever lost on the way.
- Columns of other sources (Parquet, CSV, frames) come as they are; dictionaries, large and view types, run ends and
  extension types are unwrapped here. A frame's float column that stands for whole numbers with gaps is the reader's
  to cast: here a float is never a whole number.
- A missing column and a column of nulls are the same. `id` is the given id; the ends of an edge are `from` and `to`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import NO_ROWS, Column, Mask, Rows, plain_array, rows_where, taken_array
from omnigraph.schema.catalog import EdgeType, Entity
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType

ID: Final = "id"
FROM: Final = "from"
TO: Final = "to"


@dataclass(frozen=True, slots=True)
class MixedColumn:
    """Values of mixed kinds: None, bool, int, float, str, list, dict, and bytes, date, datetime from programs."""

    values: Sequence[object]

    def __len__(self) -> int:
        return len(self.values)


RawColumn = Column | MixedColumn


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
        columns = {name: MixedColumn([record.get(name) for record in records]) for name in names}
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


def null_rows(column: RawColumn) -> Rows:
    """The rows without a value."""
    if isinstance(column, MixedColumn):
        return np.array([row for row, value in enumerate(column.values) if value is None], dtype=np.int64)
    return rows_where(column.is_null()) if column.null_count else NO_ROWS


def taken(column: RawColumn, rows: Rows) -> RawColumn:
    """The values of some rows."""
    if isinstance(column, MixedColumn):
        return MixedColumn([column.values[row] for row in rows])
    return taken_array(column, rows)


def values_of(column: RawColumn) -> Iterator[object]:
    """The values as Python has them; text that is not UTF-8 is shown with replacement characters."""
    if isinstance(column, MixedColumn):
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


_I64: Final = range(-(2**63), 2**63)
_U64: Final = range(2**64)


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Lists of anything: the length of each (0 when it is null), which are not null, and all items in a row."""

    lengths: Rows
    valid: Mask
    items: Column | MixedColumn


@dataclass(frozen=True, slots=True, eq=False)
class HugeIntegers:
    """Whole numbers beyond 64 bits, as the nearest floats; infinite when there is none."""

    nearest: Column


@dataclass(frozen=True, slots=True, eq=False)
class CellsOfOneKind:
    """Some rows of the cells, and their values, none of which is null."""

    rows: Rows
    values: Column | Lists | HugeIntegers


class _ValueKind(Enum):
    BOOL = "bool"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    HUGE = "huge"
    FLOAT = "float"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    MOMENT = "moment"
    LOCAL_MOMENT = "local moment"
    LIST = "list"
    OBJECT = "object"


def split_kinds(cells: MixedColumn) -> list[CellsOfOneKind]:
    """The cells that are not null, by kind."""
    rows: dict[_ValueKind, list[int]] = defaultdict(list)
    for row, value in enumerate(cells.values):
        if value is not None:
            rows[_kind_of(value)].append(row)
    return [
        CellsOfOneKind(np.array(found, dtype=np.int64), _values(kind, [cells.values[row] for row in found]))
        for kind, found in rows.items()
    ]


def _kind_of(value: object) -> _ValueKind:
    match value:
        case bool():
            return _ValueKind.BOOL
        case int():
            return (
                _ValueKind.SIGNED
                if value in _I64
                else _ValueKind.UNSIGNED
                if value in _U64
                else _ValueKind.HUGE
            )
        case float():
            return _ValueKind.FLOAT
        case str():
            return _ValueKind.TEXT
        case bytes():
            return _ValueKind.BYTES
        case datetime():
            return _ValueKind.LOCAL_MOMENT if value.utcoffset() is None else _ValueKind.MOMENT
        case date():
            return _ValueKind.DATE
        case list() | tuple():
            return _ValueKind.LIST
        case _:
            return _ValueKind.OBJECT


def _values(kind: _ValueKind, values: list[object]) -> Column | Lists | HugeIntegers:
    match kind:
        case _ValueKind.LIST:
            return _lists(values)
        case _ValueKind.HUGE:
            return HugeIntegers(pa.array([_nearest(value) for value in values], pa.float64()))
        case _ValueKind.OBJECT:
            # Nothing takes objects, so what is in them does not matter.
            return pa.StructArray.from_arrays([pa.nulls(len(values))], names=["object"])
        case _ValueKind.TEXT:
            return _texts(values)
        case _ValueKind.MOMENT:
            return pa.array([_microseconds(value) for value in values], pa.int64()).view(_MOMENT)
    return pa.array(values, _ARROW_TYPES[kind])


_MOMENT: Final = pa.timestamp("us", "UTC")
_ARROW_TYPES: Final = {
    _ValueKind.BOOL: pa.bool_(),
    _ValueKind.SIGNED: pa.int64(),
    _ValueKind.UNSIGNED: pa.uint64(),
    _ValueKind.FLOAT: pa.float64(),
    _ValueKind.BYTES: pa.large_binary(),
    _ValueKind.DATE: pa.date32(),
    _ValueKind.LOCAL_MOMENT: pa.timestamp("us"),
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _lists(values: list[object]) -> Lists:
    lists = [value for value in values if isinstance(value, list | tuple)]
    lengths = np.array([len(value) for value in lists], dtype=np.int64)
    items = MixedColumn([item for value in lists for item in value])
    return Lists(lengths, np.ones(len(lists), dtype=np.bool_), items)


def _texts(values: list[object]) -> Column:
    """Text as bytes, so that a lone surrogate arrives where text that is not UTF-8 is refused."""
    raw = [str(value).encode(errors="surrogatepass") for value in values]
    return pa.Array.from_buffers(pa.utf8(), len(raw), pa.array(raw, pa.binary()).buffers())


def _nearest(value: object) -> float:
    assert isinstance(value, int)
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _microseconds(value: object) -> int:
    assert isinstance(value, datetime)
    difference = value - _EPOCH
    return (difference.days * 86_400 + difference.seconds) * 1_000_000 + difference.microseconds
