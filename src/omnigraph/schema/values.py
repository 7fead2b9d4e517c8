"""Literals and canonical texts as values of a type, and values as canonical text.

The canonical text is also that of ids: decimal integers, `true`/`false`, `YYYY-MM-DD`, RFC 3339 in UTC with
milliseconds, and for floats the shortest text that parses to the same value at the column's width. Floats are always
finite. Values are never coerced: `2.0` is not a valid I32, and a datetime with microseconds is rejected.
"""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime
from typing import Final, assert_never

from msgspec import Struct

from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import Literal, NumberLiteral, RangeArgument, StringLiteral, TimeLiteral, WordLiteral
from omnigraph.schema import property_types as types

BASE64_PREFIX: Final = "base64:"
"""The prefix of text that is the base64 of a Blob's bytes."""

Value = str | bool | int | float | date | datetime

_INTEGER: Final = re.compile(r"-?[0-9]+")
_INTEGER_DIGITS_MAX: Final = 24
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,3})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)


class InvalidValue(Struct, frozen=True):
    """Why a literal is not a valid value of a type."""

    message: str
    hint: str = ""


def value_from_literal(literal: Literal, property_type: types.PropertyType) -> Value | InvalidValue:
    """Return the value of a literal in a column of this type."""
    match property_type, literal:
        case types.ScalarType(types.Scalar.DATE), TimeLiteral(False, text):
            return value_from_text(text, property_type)
        case types.ScalarType(types.Scalar.DATETIME), TimeLiteral(True, text):
            return value_from_text(text, property_type)
        case _, TimeLiteral():
            return _wrong_kind(literal, property_type)
        case types.EnumType(), WordLiteral(text) | NumberLiteral(text) | StringLiteral(text):
            return value_from_text(text, property_type)
        case types.ScalarType(types.Scalar.STRING | types.Scalar.DATE | types.Scalar.DATETIME), StringLiteral(text):
            return value_from_text(text, property_type)
        case types.ScalarType(types.Scalar.BOOL), WordLiteral("true" | "false" as text):
            return text == "true"
        case types.ScalarType(scalar), NumberLiteral(text) if scalar in types.INTEGER_BOUNDS or scalar in types.FLOATS:
            return value_from_text(text, property_type)
        case types.ScalarType() | types.VectorType() | types.ListType(), _:
            return _wrong_kind(literal, property_type)
    raise AssertionError("the cases cover every literal")


def value_from_text(text: str, property_type: types.PropertyType) -> Value | InvalidValue:
    """Return the value of a canonical (or unambiguous) text in a column of this type."""
    match property_type:
        case types.EnumType(values):
            if text in values:
                return text
            hint = f"The values are {', '.join(values[:20])}{', …' if len(values) > 20 else ''}."
            return InvalidValue(f"{quoted(text)} is not a value of the enum", hint)
        case types.ScalarType(scalar):
            return _scalar_from_text(text, scalar)
        case types.ListType() | types.VectorType():
            return InvalidValue(f"`{types.type_text(property_type)}` has no literals")


def value_text(value: Value, property_type: types.PropertyType) -> str:
    """Return the canonical text of a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return _shortest(value) if property_type == types.ScalarType(types.Scalar.F32) else repr(value)
    return str(value)


def _scalar_from_text(text: str, scalar: types.Scalar) -> Value | InvalidValue:
    match scalar:
        case types.Scalar.STRING:
            return text
        case types.Scalar.BOOL:
            return text == "true" if text in {"true", "false"} else InvalidValue(f"expected Bool, got {quoted(text)}")
        case types.Scalar.I32 | types.Scalar.I64 | types.Scalar.U32 | types.Scalar.U64:
            return _integer(text, scalar)
        case types.Scalar.F32 | types.Scalar.F64:
            return _float(text, scalar)
        case types.Scalar.DATE:
            return _date(text)
        case types.Scalar.DATETIME:
            return _datetime(text)
        case types.Scalar.BLOB:
            return InvalidValue("`Blob` has no literals")
        case _:
            assert_never(scalar)


def _integer(text: str, scalar: types.Scalar) -> int | InvalidValue:
    low, high = types.INTEGER_BOUNDS[scalar]
    if not _INTEGER.fullmatch(text):
        return InvalidValue(f"expected an integer, got {quoted(text)}")
    # The length is checked first: Python does not parse integers of thousands of digits.
    if len(text) > _INTEGER_DIGITS_MAX or not low <= int(text) <= high:
        return InvalidValue(f"{quoted(text)} is out of range for {scalar.value}", f"the range is {low} to {high}")
    return int(text)


def _float(text: str, scalar: types.Scalar) -> float | InvalidValue:
    try:
        value = float(text)
    except ValueError:
        return InvalidValue(f"expected a number, got {quoted(text)}")
    if scalar is types.Scalar.F32:
        value = narrow(value)
    if math.isnan(value):
        return InvalidValue(f"{quoted(text)} is not a number")
    if not math.isfinite(value):
        return InvalidValue(f"{quoted(text)} is too large for {scalar.value}")
    # Adding zero turns -0.0 into 0.0, as in ids.
    return value + 0.0


def narrow(value: float) -> float:
    """Return the nearest 32-bit float; infinity if the value is too large."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _shortest(value: float) -> str:
    """Return the shortest text that parses to the same 32-bit float."""
    narrowed = narrow(value)
    for digits in range(1, 9):
        text = f"{value:.{digits}g}"
        if narrow(float(text)) == narrowed:
            return repr(float(text))
    return repr(float(f"{value:.9g}"))


def _date(text: str) -> date | InvalidValue:
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        return InvalidValue(f"{quoted(text)} is not a day of the calendar")
    return InvalidValue(f"expected Date, got {quoted(text)}", 'write "2024-05-31"')


def _datetime(text: str) -> datetime | InvalidValue:
    try:
        if _DATETIME.fullmatch(text):
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return InvalidValue(f"{quoted(text)} is not a time of the calendar")
    hint = 'write "2024-05-31T12:00:00Z", with at most three decimals of a second'
    return InvalidValue(f"expected DateTime, got {quoted(text)}", hint)


def _wrong_kind(literal: Literal, property_type: types.PropertyType) -> InvalidValue:
    match literal:
        case StringLiteral(text):
            shown = f'"{text}"'
        case TimeLiteral(text=text):
            shown = f'{literal.function}("{text}")'
        case NumberLiteral(text) | WordLiteral(text):
            shown = text
    hints: dict[types.PropertyType, str] = {
        types.ScalarType(types.Scalar.STRING): "write it in double quotes",
        types.ScalarType(types.Scalar.DATE): 'write a date in quotes: "2024-05-31"',
        types.ScalarType(types.Scalar.DATETIME): 'write a datetime in quotes: "2024-05-31T12:00:00Z"',
        types.ScalarType(types.Scalar.BOOL): "write `true` or `false`",
    }
    hint = hints.get(property_type, "write a finite number, without quotes")
    if isinstance(literal, TimeLiteral):
        hint = _time_hint(literal, property_type) or hint
    return InvalidValue(f"expected {types.type_text(property_type)}, got {quoted(shown)}", hint)


def _time_hint(literal: TimeLiteral, property_type: types.PropertyType) -> str:
    """Return the hint for `date("…")` or `datetime("…")` in a column of another type."""
    match property_type:
        case types.ScalarType(types.Scalar.DATE):
            return 'write `date("2024-05-31")`'
        case types.ScalarType(types.Scalar.DATETIME):
            return 'write `datetime("2024-05-31T12:00:00Z")`'
        case types.ScalarType(types.Scalar.STRING) | types.EnumType():
            return f"write the text in double quotes, without `{literal.function}`"
        case _:
            return ""


class RangeBounds(Struct, frozen=True):
    """Bounds of a range, both of one type, so that they can be compared."""

    low: Value | None
    high: Value | None

    @property
    def is_empty(self) -> bool:
        return self.low is not None and self.high is not None and not _not_above(self.low, self.high)

    def contains(self, value: Value) -> bool:
        if self.low is not None and not _not_above(self.low, value):
            return False
        return self.high is None or _not_above(value, self.high)

    def is_within(self, outer: RangeBounds) -> bool:
        """Return whether every value within these bounds is within the outer ones; False for bounds of another type."""
        low_fits = outer.low is None or (type(self.low) is type(outer.low) and _not_above(outer.low, self.low))
        high_fits = outer.high is None or (type(self.high) is type(outer.high) and _not_above(self.high, outer.high))
        return low_fits and high_fits


def range_bounds(
    bounds: RangeArgument, property_type: types.PropertyType
) -> RangeBounds | list[tuple[Literal, InvalidValue]]:
    """Return the bounds, or each literal that is not a valid value of the type."""
    invalid: list[tuple[Literal, InvalidValue]] = []
    values: list[Value | None] = []
    for literal in (bounds.low, bounds.high):
        value = None if literal is None else value_from_literal(literal, property_type)
        if literal is not None and isinstance(value, InvalidValue):
            invalid.append((literal, value))
        elif not isinstance(value, InvalidValue):
            values.append(value)
    return invalid or RangeBounds(values[0], values[1])


def _not_above(low: Value | None, high: Value | None) -> bool:
    """Return `low <= high`. Both values are of one type, which the type checker cannot know."""
    return low <= high  # type: ignore[operator]
