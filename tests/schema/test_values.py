"""Values: their canonical text parses to the same value, and values out of range are rejected."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.schema.property_types import EnumType, Scalar, ScalarType
from omnigraph.schema.values import InvalidValue, value_from_text, value_text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_32_bit_floats_have_the_shortest_text_that_parses_to_them(number: float) -> None:
    kind = ScalarType(Scalar.F32)
    text = value_text(number, kind)
    assert value_from_text(text, kind) == number
    digits = sum(ch.isdigit() for ch in text.split("e")[0].strip("-0."))
    assert digits <= 9 or float(text).is_integer()


def test_float_text() -> None:
    kind = ScalarType(Scalar.F32)
    for text in ("0.99", "3.1415927", "16777216.0", "1e-45", "3.4028235e+38", "0.12345679"):
        (narrow,) = struct.unpack("<f", struct.pack("<f", float(text)))
        assert value_text(narrow, kind) == text
    assert value_text(0.1, ScalarType(Scalar.F64)) == "0.1"
    assert str(value_from_text("-0.0", kind)) == "0.0"


@given(st.integers(-(2**70), 2**70), st.sampled_from((Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64)))
def test_integers_out_of_range_are_rejected(number: int, scalar: Scalar) -> None:
    bits, signed = int(scalar.value[1:]), scalar.value[0] == "I"
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    value = value_from_text(str(number), ScalarType(scalar))
    assert (value == number) if low <= number <= high else isinstance(value, InvalidValue)


def test_datetimes_are_utc_with_milliseconds() -> None:
    kind = ScalarType(Scalar.DATETIME)
    value = value_from_text("2024-05-31T14:00:00.5+02:00", kind)
    assert not isinstance(value, InvalidValue)
    assert value_text(value, kind) == "2024-05-31T12:00:00.500Z"
    for invalid in ("2024-05-31T24:00:00Z", "2024-05-31T12:00:60Z", "2024-05-31", "0000-01-01T00:00:00Z", "x"):
        assert isinstance(value_from_text(invalid, kind), InvalidValue)


def test_enum_values() -> None:
    kind = EnumType(("a", "b"))
    assert value_from_text("a", kind) == "a"
    assert isinstance(value_from_text("c", kind), InvalidValue)
