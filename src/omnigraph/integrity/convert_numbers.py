"""Raw columns to integers, floats and booleans.

Strict, so that a value always means what was written: `true` is no number, `"5"` and `5.0` are no I32. Only the
64-bit integers may also be text, and then in canonical form, `0` or `-?[1-9][0-9]*`. A whole number is a float too,
rounded as every decimal is. Floats are finite at the width of their column, and zero has no sign.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.integrity.converted import Converted, Mistake, all_refused, mistakes_of, without
from omnigraph.integrity.raw import Column, Mask, bools, nulls, rows_where, taken, values_of
from omnigraph.integrity.rules import Rule
from omnigraph.schema import Scalar
from omnigraph.schema.property_types import INTEGER_BOUNDS

_TYPES: Final[dict[Scalar, Any]] = {
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
}
_TEXT_INTEGERS: Final = frozenset({Scalar.I64, Scalar.U64})
_INTEGER_TEXT: Final = r"\A(?:0|-?[1-9][0-9]*)\z"
# Texts of fewer characters fit every 64-bit integer, up to their sign.
_SURELY_FITTING_CHARACTERS: Final = 18


def convert_integers(array: Column, scalar: Scalar) -> Converted:
    """Whole numbers that fit, or their texts for 64 bits."""
    wanted = _TYPES[scalar]
    if pa.types.is_integer(array.type):
        return _fitting(array, scalar)
    if pa.types.is_decimal(array.type) and array.type.scale == 0:
        return _integer_texts(pc.cast(array, pa.utf8()), scalar)
    if pa.types.is_string(array.type) and scalar in _TEXT_INTEGERS:
        return _integer_texts(array, scalar)
    return all_refused(array, f"a whole number ({scalar.value})", wanted)


def refuse_huge(array: Column, scalar: Scalar) -> Converted:
    """Whole numbers beyond 64 bits, which no integer type holds."""
    message = _size_message(scalar)
    return Converted(
        nulls(len(array), _TYPES[scalar]),
        (Mistake(Rule.NUMBER_SIZE, message, rows_where(array.is_valid())),),
    )


def convert_floats(array: Column, scalar: Scalar) -> Converted:
    """Finite numbers, narrowed to the column's width."""
    wanted = _TYPES[scalar]
    if not (pa.types.is_floating(array.type) or pa.types.is_integer(array.type)):
        return all_refused(array, f"a number ({scalar.value})", wanted)
    typed = pc.cast(array, wanted, safe=False)
    finite = pc.is_finite(typed)
    mistakes: tuple[Mistake, ...] = ()
    if pc.all(finite).as_py() is False:
        bad = bools(pc.invert(finite))
        mistakes = mistakes_of(Rule.NOT_FINITE, f"needs a finite number that fits {scalar.value}", bad)
        typed = without(typed, mistakes[0].rows)
    return Converted(pc.add(typed, pa.scalar(0.0, wanted)), mistakes)


def convert_booleans(array: Column) -> Converted:
    """`true` and `false`."""
    if pa.types.is_boolean(array.type):
        return Converted(array)
    return all_refused(array, "true or false (Bool)", pa.bool_())


def _fitting(array: Column, scalar: Scalar) -> Converted:
    wanted = _TYPES[scalar]
    low, high = INTEGER_BOUNDS[scalar]
    extremes = pc.min_max(array).as_py()
    if extremes["min"] is None or (low <= extremes["min"] and extremes["max"] <= high):
        return Converted(pc.cast(array, wanted, safe=False))
    bad: Mask = np.zeros(len(array), dtype=np.bool_)
    if extremes["min"] < low:
        bad |= bools(pc.less(array, pa.scalar(low, array.type)))
    if extremes["max"] > high:
        bad |= bools(pc.greater(array, pa.scalar(high, array.type)))
    mistakes = mistakes_of(Rule.NUMBER_SIZE, _size_message(scalar), bad)
    return Converted(pc.cast(without(array, mistakes[0].rows), wanted, safe=False), mistakes)


def _integer_texts(texts: Column, scalar: Scalar) -> Converted:
    shaped = pc.match_substring_regex(texts, _INTEGER_TEXT)
    message = f"needs a whole number ({scalar.value}), written in digits"
    mistakes = mistakes_of(Rule.WRONG_TYPE, message, bools(pc.invert(shaped)))
    good = without(texts, mistakes[0].rows) if mistakes else texts
    low, high = INTEGER_BOUNDS[scalar]
    doubtful = pc.greater(pc.binary_length(good), _SURELY_FITTING_CHARACTERS)
    if low == 0:
        doubtful = pc.or_(doubtful, pc.starts_with(good, "-"))
    bad = np.zeros(len(texts), dtype=np.bool_)
    rows = rows_where(doubtful)
    for row, text in zip(rows.tolist(), values_of(taken(good, rows)), strict=True):
        # The length is looked at first: Python refuses to read numbers of thousands of digits.
        assert isinstance(text, str)
        bad[row] = len(text) > _SURELY_FITTING_CHARACTERS + 2 or not low <= int(text) <= high
    sizes = mistakes_of(Rule.NUMBER_SIZE, _size_message(scalar), bad)
    if sizes:
        good = without(good, sizes[0].rows)
    return Converted(pc.cast(good, _TYPES[scalar]), (*mistakes, *sizes))


def _size_message(scalar: Scalar) -> str:
    low, high = INTEGER_BOUNDS[scalar]
    return f"does not fit {scalar.value}, which holds {low} to {high}"
