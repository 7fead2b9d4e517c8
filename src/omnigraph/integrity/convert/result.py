"""What a conversion gives: the typed column, and for each way in which values were refused, the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Mask, Rows, nulls, rows_where
from omnigraph.integrity.rules import Rule


@dataclass(frozen=True, slots=True, eq=False)
class Mistake:
    """Rows whose values are refused for one reason."""

    rule: Rule
    message: str
    rows: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Converted:
    """A typed column; what was refused is null in it and listed in the mistakes, each row at most once."""

    values: Column
    mistakes: tuple[Mistake, ...] = ()


def without(array: Column, rows: Rows) -> Column:
    """The array with these rows made null."""
    if not len(rows):
        return array
    mask = np.zeros(len(array), dtype=np.bool_)
    mask[rows] = True
    kept: Column = pc.if_else(pa.array(mask), pa.scalar(None, array.type), array)
    return kept


def all_refused(array: Column, needed: str, wanted: pa.DataType) -> Converted:
    """No value of this kind can be what is needed."""
    values = nulls(len(array), wanted)
    if array.null_count == len(array):
        return Converted(values)
    message = f"needs {needed}, not {kind_text(array.type)}"
    return Converted(values, (Mistake(Rule.WRONG_TYPE, message, rows_where(array.is_valid())),))


def mistakes_of(rule: Rule, message: str, bad: Mask) -> tuple[Mistake, ...]:
    """One mistake when there are bad rows, otherwise none."""
    rows = np.flatnonzero(bad).astype(np.int64, copy=False)
    return (Mistake(rule, message, rows),) if len(rows) else ()


def kind_text(kind: pa.DataType) -> str:
    """The kind of a raw column's values, in words of JSON where it has one."""
    return next((text for is_kind, text in _KINDS if is_kind(kind)), str(kind))


_KINDS: Final = (
    (pa.types.is_boolean, "true or false"),
    (pa.types.is_integer, "a whole number"),
    (pa.types.is_floating, "a number with a fraction or exponent"),
    (pa.types.is_decimal, "a decimal number"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_date, "a date"),
    (pa.types.is_timestamp, "a datetime"),
    (pa.types.is_struct, "an object"),
    (pa.types.is_nested, "a list"),
)
