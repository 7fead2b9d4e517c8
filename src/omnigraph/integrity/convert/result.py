"""The result of a conversion: the typed column, and the rows whose values were rejected, by reason. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Mask, Rows, bool_array, bool_mask, nulls
from omnigraph.integrity.rules import Rule


@dataclass(frozen=True, slots=True, eq=False)
class InvalidValues:
    """Rows whose values are invalid for one reason."""

    rule: Rule
    message: str
    rows: Rows


@dataclass(frozen=True, slots=True, eq=False)
class ConvertedColumn:
    """A typed column; invalid values are null in it and listed in `invalid`, each row at most once."""

    values: Column
    invalid: tuple[InvalidValues, ...] = ()


def set_null(array: Column, rows: Rows) -> Column:
    """Return the array with these rows set to null."""
    if not len(rows):
        return array
    mask = np.zeros(len(array), dtype=np.bool_)
    mask[rows] = True
    masked: Column = pc.if_else(bool_array(mask), pa.scalar(None, array.type), array)
    return masked


def reject_all(array: Column, expected: str, target: pa.DataType) -> ConvertedColumn:
    """Reject every value, because no value of this kind can be converted."""
    kind = next((text for is_kind, text in _KINDS if is_kind(array.type)), str(array.type))
    message, is_invalid = f"expected {expected}, got {kind}", bool_mask(array.is_valid())
    invalid: tuple[InvalidValues, ...] = ()
    if pa.types.is_string(array.type):
        # A message shows the value without the blanks.
        has_blanks = bool_mask(pc.match_substring_regex(array, r"\A\s|\s\z").fill_null(False))
        invalid = invalid_values(Rule.WRONG_TYPE, f"{message} with blanks around it", has_blanks)
        is_invalid = is_invalid & ~has_blanks
    return ConvertedColumn(nulls(len(array), target), (*invalid, *invalid_values(Rule.WRONG_TYPE, message, is_invalid)))


def invalid_values(rule: Rule, message: str, is_invalid: Mask) -> tuple[InvalidValues, ...]:
    """Return one entry if there are invalid rows, otherwise none."""
    rows = np.flatnonzero(is_invalid).astype(np.int64, copy=False)
    return (InvalidValues(rule, message, rows),) if len(rows) else ()


# The kinds of values of a raw column, with JSON's term if there is one.
_KINDS: Final = (
    (pa.types.is_boolean, "true or false"),
    (pa.types.is_integer, "an integer"),
    (pa.types.is_floating, "a number with a fraction or exponent"),
    (pa.types.is_decimal, "a decimal number"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_date, "a date"),
    (pa.types.is_timestamp, "a datetime"),
    (pa.types.is_struct, "an object"),
    (pa.types.is_nested, "a list"),
)
