"""Columns as a reader delivers them, before they have the types of the schema.

A raw column is an Arrow array of one kind, or a `MixedColumn`: values of mixed kinds as Python values of JSON. The
contract with readers:

- A JSON reader asks the native parser for `raw_schema`. What that parser rejects (a wrong kind, a number beyond 64
  bits, two kinds in one column) it reads again with a parser that returns Python values (integers of any size remain
  integers), and delivers as a `MixedColumn`. So no digit is lost.
- Columns of other sources (Parquet, CSV, frames) are delivered unchanged; `convert` unwraps dictionaries, large and
  view types, run ends and extension types. If a frame has integers with gaps as floats, its reader casts them: here a
  float is never an integer.
- A missing column and a column of nulls are the same. `id` is the explicit id; the endpoints of an edge are `from`
  and `to`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import NO_ROWS, Column, Mask, Rows, plain_array, rows_where, take_rows
from omnigraph.schema.catalog import EdgeType, Entity
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType

ID: Final = "id"
FROM: Final = "from"
TO: Final = "to"


@dataclass(frozen=True, slots=True)
class MixedColumn:
    """Values of mixed kinds: None, bool, int, float, str, list, dict; from Python also bytes, date, datetime."""

    values: Sequence[object]

    def __len__(self) -> int:
        return len(self.values)


RawColumn = Column | MixedColumn


@dataclass(frozen=True, slots=True)
class RawBatch:
    """The raw columns of rows of one type; each column has `rows` values.

    `is_table`: a column that is missing here is missing in the whole input.
    """

    rows: int
    columns: Mapping[str, RawColumn]
    is_table: bool = False

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch | pa.Table) -> RawBatch:
        """Return the columns of a batch or table by their names."""
        names = enumerate(batch.schema.names)
        return cls(batch.num_rows, {name: plain_array(batch.column(index)) for index, name in names})

    @classmethod
    def from_records(cls, records: Sequence[Mapping[str, object]]) -> RawBatch:
        """Return the members of JSON objects as columns; an absent member is null."""
        names = dict.fromkeys(name for record in records for name in record)
        columns = {name: MixedColumn([record.get(name) for record in records]) for name in names}
        return cls(len(records), columns)


def raw_schema(entity: Entity) -> pa.Schema:
    """Return the schema for a native JSON parser: lossless types that the parser enforces."""
    endpoints = [FROM, TO] if isinstance(entity, EdgeType) else []
    text: pa.DataType = pa.utf8()
    fields = [pa.field(name, text) for name in (ID, *endpoints)]
    fields += [pa.field(definition.name, raw_type(definition.type)) for definition in entity.properties]
    return pa.schema(fields)


def raw_type(property_type: PropertyType) -> pa.DataType:
    """Return the type of a property for a native JSON parser."""
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
    """Return the rows without a value."""
    if isinstance(column, MixedColumn):
        return np.array([row for row, value in enumerate(column.values) if value is None], dtype=np.int64)
    return rows_where(column.is_null()) if column.null_count else NO_ROWS


def take_values(column: RawColumn, rows: Rows) -> RawColumn:
    """Return the values of some rows."""
    if isinstance(column, MixedColumn):
        return MixedColumn([column.values[row] for row in rows])
    return take_rows(column, rows)


def values_of(column: RawColumn) -> Iterator[object]:
    """Yield the values as Python values; text that is not UTF-8 with replacement characters."""
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
            # Lists with text that is not UTF-8, and datetimes outside the range of Python's `datetime`.
            yield f"({column.type})"


_I64: Final = range(-(2**63), 2**63)
_U64: Final = range(2**64)


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Lists: the length of each (0 for null), which are not null, and all items one after the other."""

    lengths: Rows
    valid: Mask
    items: Column | MixedColumn


@dataclass(frozen=True, slots=True, eq=False)
class HugeIntegers:
    """Integers beyond 64 bits as the nearest floats, which are infinite beyond the range of floats."""

    nearest: Column


def split_kinds(column: MixedColumn) -> Iterator[tuple[Rows, Column | Lists | HugeIntegers]]:
    """Yield for each kind of values that are not null their rows and the values as a column."""
    rows_by_kind: dict[_MakeColumn, list[int]] = defaultdict(list)
    for row, value in enumerate(column.values):
        if value is not None:
            rows_by_kind[_kind_of(value)].append(row)
    for make_column, rows in rows_by_kind.items():
        yield np.array(rows, dtype=np.int64), make_column([column.values[row] for row in rows])


def _kind_of(value: object) -> _MakeColumn:
    """Return the function that makes a column of the values of this kind."""
    match value:
        case bool():
            return _BOOLS
        case int():
            return _SIGNED if value in _I64 else _UNSIGNED if value in _U64 else _huge_integers
        case float():
            return _FLOATS
        case str():
            return _texts
        case bytes():
            return _BYTES
        case datetime():
            return _LOCAL_DATETIMES if value.utcoffset() is None else _datetimes
        case date():
            return _DATES
        case list() | tuple():
            return _lists
        case _:
            return _objects


_MakeColumn = Callable[[list[object]], Column | Lists | HugeIntegers]
_BOOLS: Final[_MakeColumn] = partial(pa.array, type=pa.bool_())
_SIGNED: Final[_MakeColumn] = partial(pa.array, type=pa.int64())
_UNSIGNED: Final[_MakeColumn] = partial(pa.array, type=pa.uint64())
_FLOATS: Final[_MakeColumn] = partial(pa.array, type=pa.float64())
_BYTES: Final[_MakeColumn] = partial(pa.array, type=pa.large_binary())
_DATES: Final[_MakeColumn] = partial(pa.array, type=pa.date32())
_LOCAL_DATETIMES: Final[_MakeColumn] = partial(pa.array, type=pa.timestamp("us"))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _lists(values: list[object]) -> Lists:
    lists = [value for value in values if isinstance(value, list | tuple)]
    lengths = np.array([len(value) for value in lists], dtype=np.int64)
    items = MixedColumn([item for value in lists for item in value])
    return Lists(lengths, np.ones(len(lists), dtype=np.bool_), items)


def _texts(values: list[object]) -> Column:
    """Return text as bytes, so that an unpaired surrogate reaches the check that rejects text that is not UTF-8."""
    raw = [str(value).encode(errors="surrogatepass") for value in values]
    return pa.Array.from_buffers(pa.utf8(), len(raw), pa.array(raw, pa.binary()).buffers())


def _huge_integers(values: list[object]) -> HugeIntegers:
    return HugeIntegers(pa.array([_nearest(value) for value in values], pa.float64()))


def _nearest(value: object) -> float:
    assert isinstance(value, int)
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _datetimes(values: list[object]) -> Column:
    """Return datetimes with a time zone, converted here because Arrow ignores the microseconds of an offset."""
    datetimes = [value for value in values if isinstance(value, datetime)]
    microseconds = [(value - _EPOCH) // timedelta(microseconds=1) for value in datetimes]
    return pa.array(microseconds, pa.int64()).view(pa.timestamp("us", "UTC"))


def _objects(values: list[object]) -> Column:
    """Return placeholders: no type accepts objects, so their contents do not matter."""
    return pa.StructArray.from_arrays([pa.nulls(len(values))], names=["object"])
