"""Converts JSON values and literals to values of a property type, and comparisons to the type of their column.

Input: a JSON or Python value, or a literal, and a type. Output: the typed value, or an `InvalidValue`. As strict as
load: no value is coerced. 64-bit integers are numbers or strings, dates and datetimes are strings, floats are rounded
to their type and finite, a vector has exactly its length. A Blob is `base64:…`, or a URI, which is returned unchanged.
Python values such as a date, a Decimal or a NumPy array are accepted as well; a date is its midnight in UTC.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import ROUND_FLOOR, Decimal
from typing import Final

from msgspec import Struct

from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import NumberLiteral, StringLiteral, TimeLiteral
from omnigraph.query import syntax
from omnigraph.query.plan.expressions import LiteralValue
from omnigraph.schema.property_types import (
    FLOATS,
    INTEGER_BOUNDS,
    EnumType,
    ListType,
    PropertyType,
    Scalar,
    ScalarType,
    VectorType,
    item_type,
    type_text,
)
from omnigraph.schema.values import BASE64_PREFIX, InvalidValue, narrow, value_from_literal, value_from_text

REVERSED: Final = {
    syntax.ComparisonOperator.LT: syntax.ComparisonOperator.GT,
    syntax.ComparisonOperator.LE: syntax.ComparisonOperator.GE,
    syntax.ComparisonOperator.GT: syntax.ComparisonOperator.LT,
    syntax.ComparisonOperator.GE: syntax.ComparisonOperator.LE,
}
_SHOWN_MAX: Final = 60
_BELOW: Final = frozenset({syntax.ComparisonOperator.LT, syntax.ComparisonOperator.LE})


class FittedComparison(Struct, frozen=True):
    """A comparison with a value of the type of the column."""

    operator: syntax.ComparisonOperator
    value: LiteralValue


def fit(operator: syntax.ComparisonOperator, value: LiteralValue, column_type: PropertyType) -> FittedComparison | bool:
    """Return the comparison with a value of the type of the column, or its constant result."""
    match column_type, value:
        case ScalarType(scalar), int() | float() | Decimal() if scalar in INTEGER_BOUNDS:
            return _fit_integer(operator, value, INTEGER_BOUNDS[scalar])
        case ScalarType(Scalar.F32 | Scalar.F64 as scalar), int() | float() | Decimal():
            return _fit_float(operator, value, scalar)
        case ScalarType(Scalar.DATE), datetime():
            return _fit_date(operator, value)
        case ScalarType(Scalar.DATETIME), date() if not isinstance(value, datetime):
            return FittedComparison(operator, midnight(value))
        case _:
            return FittedComparison(operator, value)


def midnight(day: date) -> datetime:
    """Return the start of a day in UTC."""
    return datetime.combine(day, time(), UTC)


def _fit_integer(
    operator: syntax.ComparisonOperator, value: int | float | Decimal, bounds: tuple[int, int]
) -> FittedComparison | bool:
    low, high = bounds
    if value > high or value < low:
        return _compare_outside(operator, is_above=value > high)
    if value == low and operator in {syntax.ComparisonOperator.LT, syntax.ComparisonOperator.GE}:
        return operator is syntax.ComparisonOperator.GE
    if value == high and operator in {syntax.ComparisonOperator.GT, syntax.ComparisonOperator.LE}:
        return operator is syntax.ComparisonOperator.LE
    floor = int(Decimal(value).to_integral_value(ROUND_FLOOR))
    return FittedComparison(operator, floor) if floor == value else _fit_between(operator, floor)


def _fit_float(
    operator: syntax.ComparisonOperator, value: int | float | Decimal, scalar: Scalar
) -> FittedComparison | bool:
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if scalar is Scalar.F32:
        nearest = narrow(nearest)
    if math.isinf(nearest):
        return _compare_outside(operator, is_above=nearest > 0)
    # Adding zero turns -0.0 into 0.0, which is the stored value.
    return FittedComparison(operator, nearest + 0.0)


def _fit_date(operator: syntax.ComparisonOperator, timestamp: datetime) -> FittedComparison | bool:
    day = timestamp.astimezone(UTC).date()
    return FittedComparison(operator, day) if midnight(day) == timestamp else _fit_between(operator, day)


def _fit_between(operator: syntax.ComparisonOperator, lower: int | date) -> FittedComparison | bool:
    """Fit a value between two values of the type, where `<` is the same as `<=` and `>` the same as `>=`."""
    match operator:
        case syntax.ComparisonOperator.EQ | syntax.ComparisonOperator.NE:
            return operator is syntax.ComparisonOperator.NE
        case syntax.ComparisonOperator.LT | syntax.ComparisonOperator.LE:
            return FittedComparison(syntax.ComparisonOperator.LE, lower)
        case _:
            return FittedComparison(syntax.ComparisonOperator.GT, lower)


def _compare_outside(operator: syntax.ComparisonOperator, *, is_above: bool) -> bool:
    """Return the result of a comparison with a value outside the range of the type."""
    if operator in {syntax.ComparisonOperator.EQ, syntax.ComparisonOperator.NE}:
        return operator is syntax.ComparisonOperator.NE
    return (operator in _BELOW) is is_above


def value_from_json(value: object, property_type: PropertyType) -> LiteralValue | InvalidValue:
    """Return the value of this type for a member of a JSON document or a Python value."""
    value = _unwrap_numpy(value)
    if isinstance(value, str) and not value.isascii() and _has_lone_surrogate(value):
        return InvalidValue("the string contains an unpaired surrogate, which is not a character")
    match property_type:
        case ScalarType(Scalar.DATE) if isinstance(value, date):
            return _convert_date(value)
        case ScalarType(Scalar.DATETIME) if isinstance(value, date):
            return _convert_datetime(value) if isinstance(value, datetime) else midnight(value)
        case EnumType() | ScalarType(Scalar.STRING | Scalar.DATE | Scalar.DATETIME) if isinstance(value, str):
            return value_from_text(value, property_type)
        case ScalarType(Scalar.BOOL) if isinstance(value, bool):
            return value
        case ScalarType(Scalar.BLOB) if isinstance(value, bytes | str):
            return value if isinstance(value, bytes) else blob_from_text(value)
        case ScalarType(scalar) if scalar in INTEGER_BOUNDS or scalar in FLOATS:
            return _convert_number(value, scalar)
        case ListType() | VectorType():
            return _convert_items(value, property_type)
        case _:
            return _wrong_kind(value, property_type)


def _unwrap_numpy(value: object) -> object:
    """Return the Python value of a NumPy or pandas value; times, which would become numbers, are unchanged."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    unwrap = getattr(value, "tolist", None)
    return unwrap() if isinstance(kind, str) and kind not in "mM" and callable(unwrap) else value


def _convert_date(day: date) -> date | InvalidValue:
    """Return the date; of a datetime, which pandas uses for dates, if it is midnight without a time zone or in UTC."""
    if not isinstance(day, datetime):
        return day
    if day != day or day.time() != time() or day.utcoffset():  # noqa: PLR0124 - NaT of pandas is not equal to itself
        return InvalidValue("expected Date, got a datetime that is not midnight in UTC", "Pass its date: value.date().")
    return day.date()


def _convert_datetime(timestamp: datetime) -> datetime | InvalidValue:
    # pandas' NaT has no tzinfo, and its utcoffset() cannot be called.
    if timestamp.tzinfo is None or timestamp.utcoffset() is None:
        return InvalidValue("the datetime has no time zone", "Add one, as in datetime(2024, 5, 31, 12, tzinfo=UTC).")
    if timestamp.microsecond % 1000 or getattr(timestamp, "nanosecond", 0):
        return InvalidValue(
            "the datetime is more precise than milliseconds", "Round it, as in timestamp.replace(microsecond=0)."
        )
    try:
        return datetime.fromisoformat(timestamp.isoformat(timespec="milliseconds")).astimezone(UTC)
    except (ValueError, OverflowError):
        return InvalidValue(f"{timestamp.isoformat()} is out of range for a DateTime")


def _has_lone_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def value_from_expression(expression: syntax.Expression, property_type: PropertyType) -> LiteralValue | InvalidValue:
    """Return the value of this type for a literal of a query."""
    match expression:
        case syntax.NullLiteral():
            return None
        case syntax.BoolLiteral(value):
            return value_from_json(value, property_type)
        case StringLiteral(text) if property_type == ScalarType(Scalar.BLOB):
            return blob_from_text(text)
        case StringLiteral() | NumberLiteral() | TimeLiteral():
            return value_from_literal(expression, property_type)
        case syntax.ListLiteral(items):
            return _convert_literals(items, property_type)
        case _:
            return InvalidValue("expected a literal")


def blob_from_text(text: str) -> bytes | str | InvalidValue:
    """Return the bytes of `base64:…`, or the URI itself."""
    if not text.startswith(BASE64_PREFIX):
        return text
    try:
        return base64.b64decode(text.removeprefix(BASE64_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return InvalidValue(f"{quoted(text)} is not valid base64")


def _convert_number(value: object, scalar: Scalar) -> LiteralValue | InvalidValue:
    property_type = ScalarType(scalar)
    if isinstance(value, Decimal):
        return value_from_text(str(value), property_type)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return _wrong_kind(value, property_type)
    if isinstance(value, str) and scalar not in {Scalar.I64, Scalar.U64}:
        return _wrong_kind(value, property_type)
    if scalar in INTEGER_BOUNDS and isinstance(value, int):
        # Compared as a number, because Python rejects the conversion of thousands of digits to text.
        low, high = INTEGER_BOUNDS[scalar]
        if low <= value <= high:
            return value
        return InvalidValue(f"the number is out of range for {scalar.value}: expected {low} to {high}")
    if isinstance(value, int) and abs(value) > 2**1024:
        return InvalidValue(f"the number is too large for {scalar.value}")
    return value_from_text(value if isinstance(value, str) else repr(value), property_type)


def _convert_items(sequence: object, property_type: ListType | VectorType) -> tuple[LiteralValue, ...] | InvalidValue:
    item = item_type(property_type)
    if not isinstance(sequence, list | tuple) or item is None:
        return _wrong_kind(sequence, property_type)
    if isinstance(property_type, VectorType) and (vector := _convert_vector(sequence)):
        return _wrong_size(len(vector), property_type) or vector
    values: list[LiteralValue] = []
    for number, member in enumerate(sequence):
        value = value_from_json(member, item)
        if isinstance(value, InvalidValue):
            return InvalidValue(f"item {number}: {value.message}", value.hint)
        values.append(value)
    return _wrong_size(len(values), property_type) or tuple(values)


def _convert_vector(numbers: Sequence[object]) -> tuple[float, ...] | None:
    """Return the numbers as 32-bit floats, all in one step; None if there is an error, which must be described."""
    if not {float, int}.issuperset(map(type, numbers)):
        return None
    layout = f"<{len(numbers)}f"
    try:
        narrowed = struct.unpack(layout, struct.pack(layout, *numbers))
    except (OverflowError, struct.error):
        return None
    # Adding zero turns -0.0 into 0.0, which is the stored value.
    return tuple(number + 0.0 for number in narrowed) if all(map(math.isfinite, narrowed)) else None


def _convert_literals(
    items: tuple[syntax.Expression, ...], property_type: PropertyType
) -> tuple[LiteralValue, ...] | InvalidValue:
    item = item_type(property_type)
    if item is None:
        return InvalidValue(f"expected {type_text(property_type)}, got a list")
    if wrong_size := _wrong_size(len(items), property_type):
        return wrong_size
    values: list[LiteralValue] = []
    for item_literal in items:
        value = value_from_expression(item_literal, item)
        if isinstance(value, InvalidValue):
            return value
        if value is None:
            return InvalidValue("a list cannot contain null")
        values.append(value)
    return tuple(values)


def _wrong_size(count: int, property_type: PropertyType) -> InvalidValue | None:
    if not isinstance(property_type, VectorType) or count == property_type.size:
        return None
    return InvalidValue(f"wrong vector length: expected {property_type.size}, got {count}")


def _wrong_kind(value: object, property_type: PropertyType) -> InvalidValue:
    """Describe the value in a few words, since it can be huge."""
    match value:
        case None:
            shown = "null"
        case bool():
            shown = "true" if value else "false"
        case int() | float():
            shown = "a number"
        case str():
            shown = f'"{value[:_SHOWN_MAX]}{"…" if len(value) > _SHOWN_MAX else ""}"'
        case list() | tuple():
            shown = "a list"
        case dict():
            shown = "an object"
        case _:
            shown = type(value).__name__
    return InvalidValue(f"expected {type_text(property_type)}, got {shown}", _hint(property_type))


def _hint(property_type: PropertyType) -> str:
    match property_type:
        case ListType() | VectorType():
            return "Pass a list."
        case EnumType() | ScalarType(Scalar.STRING):
            return 'Pass a string: "…".'
        case ScalarType(Scalar.DATE):
            return 'Pass a date: "2024-05-31".'
        case ScalarType(Scalar.DATETIME):
            return 'Pass a datetime: "2024-05-31T12:00:00Z".'
        case ScalarType(Scalar.BOOL):
            return "Pass true or false."
        case ScalarType(Scalar.BLOB):
            return 'Pass "base64:…".'
        case _:
            return "Pass a number."
