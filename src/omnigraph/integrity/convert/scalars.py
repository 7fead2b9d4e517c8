"""Raw columns to integers, floats and booleans.

Strict, so that a value always means what was written: `true` is no number, `"5"` and `5.0` are no I32. Only the
64-bit integers may also be text, and then in canonical form, `0` or `-?[1-9][0-9]*`. A whole number is a float too,
rounded as every decimal is. Floats are finite at the width of their column, and zero has no sign.
"""

from __future__ import annotations

import binascii
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Mask, bools, nulls, rows_where
from omnigraph.integrity.convert.result import Converted, Mistake, all_refused, mistakes_of, without
from omnigraph.integrity.raw import taken, values_of
from omnigraph.integrity.rules import Rule
from omnigraph.schema.property_types import INTEGER_BOUNDS, Scalar, ScalarType
from omnigraph.schema.tables import arrow_type
from omnigraph.schema.values import BASE64_PREFIX

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


_BLOB: Final[Any] = arrow_type(ScalarType(Scalar.BLOB))
_BASE64_MESSAGE: Final = "needs base64 with its padding after `base64:` (Blob)"
_URI_MESSAGE: Final = "needs `base64:…` (Blob); a URI outside of the graph is not allowed here"
_UNICODE_MESSAGE: Final = "needs text in UTF-8"


def split_unicode(array: Column) -> tuple[Column, tuple[Mistake, ...]]:
    """A column of text without what is not UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raw = pc.cast(array, pa.large_binary()).to_pylist()
        bad = np.array([value is not None and not _is_unicode(value) for value in raw], dtype=np.bool_)
        mistakes = mistakes_of(Rule.NOT_UNICODE, _UNICODE_MESSAGE, bad)
        if not mistakes:
            raise  # the array itself is broken, which no row is to blame for
        return without(array, mistakes[0].rows), mistakes
    return array, ()


def convert_strings(array: Column, needed: str = "text (String)") -> Converted:
    """Text."""
    return Converted(array) if pa.types.is_string(array.type) else all_refused(array, needed, pa.utf8())


def convert_blobs(array: Column) -> Converted:
    """Bytes, in the struct that Lance stores."""
    if pa.types.is_large_binary(array.type):
        return Converted(_blob_array(array))
    if not pa.types.is_string(array.type):
        return all_refused(array, "text that starts with `base64:` (Blob)", _BLOB)
    data: list[bytes | None] = []
    bad_base64 = np.zeros(len(array), dtype=np.bool_)
    bad_uri = np.zeros(len(array), dtype=np.bool_)
    for row, text in enumerate(array.to_pylist()):
        content = None
        if text is not None and text.startswith(BASE64_PREFIX):
            content = _decoded(text)
            bad_base64[row] = content is None
        elif text is not None:
            bad_uri[row] = True
        data.append(content)
    mistakes = (
        *mistakes_of(Rule.BLOB_ENCODING, _BASE64_MESSAGE, bad_base64),
        *mistakes_of(Rule.BLOB_URI, _URI_MESSAGE, bad_uri),
    )
    return Converted(_blob_array(pa.array(data, pa.large_binary())), mistakes)


def _blob_array(data: Column) -> Column:
    uris, numbers = nulls(len(data), pa.utf8()), nulls(len(data), pa.uint64())
    return pa.StructArray.from_arrays([data, uris, numbers, numbers], fields=list(_BLOB), mask=data.is_null())


def _decoded(text: str) -> bytes | None:
    try:
        return binascii.a2b_base64(text[len(BASE64_PREFIX) :].encode(), strict_mode=True)
    except (binascii.Error, ValueError):
        return None


def _is_unicode(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
