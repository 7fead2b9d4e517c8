"""Cells of mixed kinds, taken apart into columns of one kind each.

So there is one set of conversions, over Arrow arrays: what a chunk's second, careful reading delivers and what a
mutation's values are goes through the same code as the bulk of a load.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.integrity.raw import Cells, Column, Mask, Rows

_I64: Final = range(-(2**63), 2**63)
_U64: Final = range(2**64)


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Lists of anything: the length of each (0 when it is null), which are not null, and all items in a row."""

    lengths: Rows
    valid: Mask
    items: Column | Cells


@dataclass(frozen=True, slots=True, eq=False)
class HugeIntegers:
    """Whole numbers beyond 64 bits, as the nearest floats; infinite when there is none."""

    nearest: Column


@dataclass(frozen=True, slots=True, eq=False)
class CellsOfOneKind:
    """Some rows of the cells, and their values, none of which is null."""

    rows: Rows
    values: Column | Lists | HugeIntegers


class _Kind(Enum):
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


def split_kinds(cells: Cells) -> list[CellsOfOneKind]:
    """The cells that are not null, by kind."""
    rows: dict[_Kind, list[int]] = defaultdict(list)
    for row, value in enumerate(cells.values):
        if value is not None:
            rows[_kind_of(value)].append(row)
    return [
        CellsOfOneKind(np.array(found, dtype=np.int64), _values(kind, [cells.values[row] for row in found]))
        for kind, found in rows.items()
    ]


def _kind_of(value: object) -> _Kind:
    match value:
        case bool():
            return _Kind.BOOL
        case int():
            return _Kind.SIGNED if value in _I64 else _Kind.UNSIGNED if value in _U64 else _Kind.HUGE
        case float():
            return _Kind.FLOAT
        case str():
            return _Kind.TEXT
        case bytes():
            return _Kind.BYTES
        case datetime():
            return _Kind.LOCAL_MOMENT if value.utcoffset() is None else _Kind.MOMENT
        case date():
            return _Kind.DATE
        case list() | tuple():
            return _Kind.LIST
        case _:
            return _Kind.OBJECT


def _values(kind: _Kind, values: list[object]) -> Column | Lists | HugeIntegers:
    match kind:
        case _Kind.LIST:
            return _lists(values)
        case _Kind.HUGE:
            return HugeIntegers(pa.array([_nearest(value) for value in values], pa.float64()))
        case _Kind.OBJECT:
            # Nothing takes objects, so what is in them does not matter.
            return pa.StructArray.from_arrays([pa.nulls(len(values))], names=["object"])
        case _Kind.TEXT:
            return _texts(values)
        case _Kind.MOMENT:
            return pa.array([_microseconds(value) for value in values], pa.int64()).view(_MOMENT)
    return pa.array(values, _ARROW_TYPES[kind])


_MOMENT: Final = pa.timestamp("us", "UTC")
_ARROW_TYPES: Final = {
    _Kind.BOOL: pa.bool_(),
    _Kind.SIGNED: pa.int64(),
    _Kind.UNSIGNED: pa.uint64(),
    _Kind.FLOAT: pa.float64(),
    _Kind.BYTES: pa.large_binary(),
    _Kind.DATE: pa.date32(),
    _Kind.LOCAL_MOMENT: pa.timestamp("us"),
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _lists(values: list[object]) -> Lists:
    lists = [value for value in values if isinstance(value, list | tuple)]
    lengths = np.array([len(value) for value in lists], dtype=np.int64)
    items = Cells([item for value in lists for item in value])
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
