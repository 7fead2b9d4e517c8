"""Converts raw columns to integers, floats, booleans, strings and blobs.

Strict, so that a value always means what was written: `true` is not a number, `"5"` and `5.0` are not valid I32 values.
Only 64-bit integers may also be text, in canonical form: `0` or `-?[1-9][0-9]*`. An integer is also a valid float,
rounded like every decimal. Floats are finite at the width of their column, and zero has no sign. Strings are UTF-8. A
blob is bytes, or text with the prefix `base64:`. Pure.
"""

from __future__ import annotations

import binascii
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Mask, bool_mask, nulls, rows_where
from omnigraph.integrity.convert.result import ConvertedColumn, InvalidValues, invalid_values, reject_all, set_null
from omnigraph.integrity.raw import take_values, values_of
from omnigraph.integrity.rules import Rule
from omnigraph.schema.property_types import INTEGER_BOUNDS, Scalar, ScalarType
from omnigraph.schema.tables import arrow_type
from omnigraph.schema.values import BASE64_PREFIX

_TEXT_INTEGERS: Final = frozenset({Scalar.I64, Scalar.U64})
_INTEGER_TEXT: Final = r"\A(?:0|-?[1-9][0-9]*)\z"
# Numbers of at most this many characters fit every 64-bit integer, except for their sign.
_FITTING_CHARACTERS: Final = 18


def convert_integers(array: Column, scalar: Scalar) -> ConvertedColumn:
    """Convert integers that fit, and for 64 bits their text."""
    if pa.types.is_integer(array.type):
        return _convert_integer_column(array, scalar)
    if pa.types.is_decimal(array.type) and array.type.scale == 0:
        return _convert_integer_texts(pc.cast(array, pa.utf8()), scalar)
    if pa.types.is_string(array.type) and scalar in _TEXT_INTEGERS:
        return _convert_integer_texts(array, scalar)
    return reject_all(array, f"an integer ({scalar.value})", _arrow_type(scalar))


def reject_huge(array: Column, scalar: Scalar) -> ConvertedColumn:
    """Reject integers beyond 64 bits, which no integer type can store."""
    invalid = invalid_values(Rule.NUMBER_SIZE, _size_message(scalar), bool_mask(array.is_valid()))
    return ConvertedColumn(nulls(len(array), _arrow_type(scalar)), invalid)


def convert_floats(array: Column, scalar: Scalar) -> ConvertedColumn:
    """Convert finite numbers to the width of the column."""
    target = _arrow_type(scalar)
    if not (pa.types.is_floating(array.type) or pa.types.is_integer(array.type)):
        return reject_all(array, f"a number ({scalar.value})", target)
    typed = pc.cast(array, target, safe=False)
    finite = pc.is_finite(typed)
    invalid: tuple[InvalidValues, ...] = ()
    if pc.all(finite).as_py() is False:
        message = f"expected a finite number that fits {scalar.value}"
        invalid = invalid_values(Rule.NOT_FINITE, message, bool_mask(pc.invert(finite)))
        typed = set_null(typed, invalid[0].rows)
    return ConvertedColumn(pc.add(typed, pa.scalar(0.0, target)), invalid)  # -0.0 + 0.0 is 0.0


def convert_booleans(array: Column) -> ConvertedColumn:
    """Convert `true` and `false`."""
    if pa.types.is_boolean(array.type):
        return ConvertedColumn(array)
    return reject_all(array, "true or false (Bool)", pa.bool_())


def _convert_integer_column(array: Column, scalar: Scalar) -> ConvertedColumn:
    target = _arrow_type(scalar)
    low, high = INTEGER_BOUNDS[scalar]
    extremes = pc.min_max(array).as_py()
    if extremes["min"] is None or (low <= extremes["min"] and extremes["max"] <= high):
        return ConvertedColumn(pc.cast(array, target, safe=False))
    is_invalid: Mask = np.zeros(len(array), dtype=np.bool_)
    if extremes["min"] < low:
        is_invalid |= bool_mask(pc.less(array, pa.scalar(low, array.type)))
    if extremes["max"] > high:
        is_invalid |= bool_mask(pc.greater(array, pa.scalar(high, array.type)))
    invalid = invalid_values(Rule.NUMBER_SIZE, _size_message(scalar), is_invalid)
    return ConvertedColumn(pc.cast(set_null(array, invalid[0].rows), target, safe=False), invalid)


def _convert_integer_texts(texts: Column, scalar: Scalar) -> ConvertedColumn:
    is_integer = pc.match_substring_regex(texts, _INTEGER_TEXT)
    message = f"expected an integer ({scalar.value}), written in digits"
    invalid = invalid_values(Rule.WRONG_TYPE, message, bool_mask(pc.invert(is_integer)))
    integers = set_null(texts, invalid[0].rows) if invalid else texts
    low, high = INTEGER_BOUNDS[scalar]
    may_exceed = pc.greater(pc.binary_length(integers), _FITTING_CHARACTERS)
    if low == 0:
        may_exceed = pc.or_(may_exceed, pc.starts_with(integers, "-"))
    exceeds = np.zeros(len(texts), dtype=np.bool_)
    rows = rows_where(may_exceed)
    for row, text in zip(rows.tolist(), values_of(take_values(integers, rows)), strict=True):
        # The length is compared first, because `int` raises for thousands of digits.
        assert isinstance(text, str)
        exceeds[row] = len(text) > _FITTING_CHARACTERS + 2 or not low <= int(text) <= high
    outside_bounds = invalid_values(Rule.NUMBER_SIZE, _size_message(scalar), exceeds)
    if outside_bounds:
        integers = set_null(integers, outside_bounds[0].rows)
    return ConvertedColumn(pc.cast(integers, _arrow_type(scalar)), (*invalid, *outside_bounds))


def _arrow_type(scalar: Scalar) -> Any:
    return arrow_type(ScalarType(scalar))


def _size_message(scalar: Scalar) -> str:
    low, high = INTEGER_BOUNDS[scalar]
    return f"does not fit {scalar.value}: expected {low} to {high}"


_BLOB: Final[Any] = arrow_type(ScalarType(Scalar.BLOB))
_BASE64_MESSAGE: Final = "expected base64 with padding after `base64:` (Blob)"
_URI_MESSAGE: Final = "expected `base64:…` (Blob); a URI outside of the graph is not allowed here"
UNICODE_MESSAGE: Final = "expected text in UTF-8"


def reject_invalid_unicode(array: Column) -> tuple[Column, tuple[InvalidValues, ...]]:
    """Return the column with null for text that is not UTF-8, and the rows of that text."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raw = pc.cast(array, pa.large_binary()).to_pylist()
        is_invalid = np.array([value is not None and not is_unicode(value) for value in raw], dtype=np.bool_)
        invalid = invalid_values(Rule.NOT_UNICODE, UNICODE_MESSAGE, is_invalid)
        if not invalid:
            raise  # the array itself is invalid, not one of its rows
        return set_null(array, invalid[0].rows), invalid
    return array, ()


def convert_strings(array: Column, expected: str = "text (String)") -> ConvertedColumn:
    """Convert text."""
    return ConvertedColumn(array) if pa.types.is_string(array.type) else reject_all(array, expected, pa.utf8())


def convert_blobs(array: Column) -> ConvertedColumn:
    """Convert bytes and base64 text to the struct that Lance stores."""
    if pa.types.is_large_binary(array.type):
        return ConvertedColumn(_blob_array(array))
    if not pa.types.is_string(array.type):
        return reject_all(array, "text that starts with `base64:` (Blob)", _BLOB)
    data: list[bytes | None] = []
    is_invalid_base64 = np.zeros(len(array), dtype=np.bool_)
    is_uri = np.zeros(len(array), dtype=np.bool_)
    for row, text in enumerate(array.to_pylist()):
        content = None
        if text is not None and text.startswith(BASE64_PREFIX):
            content = _decode_base64(text)
            is_invalid_base64[row] = content is None
        elif text is not None:
            is_uri[row] = True
        data.append(content)
    invalid = (
        *invalid_values(Rule.BLOB_ENCODING, _BASE64_MESSAGE, is_invalid_base64),
        *invalid_values(Rule.BLOB_URI, _URI_MESSAGE, is_uri),
    )
    return ConvertedColumn(_blob_array(pa.array(data, pa.large_binary())), invalid)


def _blob_array(data: Column) -> Column:
    uris, numbers = nulls(len(data), pa.utf8()), nulls(len(data), pa.uint64())
    return pa.StructArray.from_arrays([data, uris, numbers, numbers], fields=list(_BLOB), mask=data.is_null())


def _decode_base64(text: str) -> bytes | None:
    try:
        return binascii.a2b_base64(text[len(BASE64_PREFIX) :].encode(), strict_mode=True)
    except (binascii.Error, ValueError):
        return None


def is_unicode(raw: bytes) -> bool:
    """Return whether the bytes are text in UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
