"""Values of JSON, and literals of a query, to values of a property's type.

The same strictness as for loaded data: a value is never bent to fit. 64-bit integers may be numbers or strings, dates
and datetimes are strings, floats take the precision of their type and are finite, a vector has exactly its length. A
Blob is `base64:…`, which gives bytes, or else a URI, which stays text for whoever decides about external data. What
a Python program holds instead of these, such as a date, a Decimal or an array of NumPy, means the same.
"""

from __future__ import annotations

import base64
import binascii
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import ROUND_FLOOR, Decimal
from typing import Final, assert_never

from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import NumberLiteral, StringLiteral, TimeLiteral
from omnigraph.query.plan.expressions import LiteralValue
from omnigraph.query.syntax import BoolLiteral, ComparisonOperator, Expression, ListLiteral, NullLiteral
from omnigraph.schema.property_types import (
    FLOATS,
    INTEGER_BOUNDS,
    EnumType,
    ListType,
    PropertyType,
    Scalar,
    ScalarType,
    VectorType,
    type_text,
)
from omnigraph.schema.values import BASE64_PREFIX, ValueMistake, narrow, value_from_literal, value_from_text

REVERSED: Final = {
    ComparisonOperator.LT: ComparisonOperator.GT,
    ComparisonOperator.LE: ComparisonOperator.GE,
    ComparisonOperator.GT: ComparisonOperator.LT,
    ComparisonOperator.GE: ComparisonOperator.LE,
}
_BELOW: Final = frozenset({ComparisonOperator.LT, ComparisonOperator.LE})


@dataclass(frozen=True, slots=True)
class Fitted:
    """A comparison with a value of the exact type."""

    operator: ComparisonOperator
    value: LiteralValue


def fit(operator: ComparisonOperator, value: LiteralValue, column_type: PropertyType) -> Fitted | bool:
    """The comparison for values of this type, or what it always is."""
    match column_type, value:
        case ScalarType(scalar), int() | float() | Decimal() if scalar in INTEGER_BOUNDS:
            return _integer(operator, value, INTEGER_BOUNDS[scalar])
        case ScalarType(Scalar.F32 | Scalar.F64 as scalar), int() | float() | Decimal():
            return _float(operator, value, scalar)
        case ScalarType(Scalar.DATE), datetime():
            return _date(operator, value)
        case ScalarType(Scalar.DATETIME), date() if not isinstance(value, datetime):
            return Fitted(operator, midnight(value))
        case _:
            return Fitted(operator, value)


def midnight(day: date) -> datetime:
    """The moment with which a day begins."""
    return datetime.combine(day, time(), UTC)


def _integer(
    operator: ComparisonOperator, value: int | float | Decimal, bounds: tuple[int, int]
) -> Fitted | bool:
    low, high = bounds
    if value > high or value < low:
        return _outside(operator, is_above=value > high)
    if value == low and operator in {ComparisonOperator.LT, ComparisonOperator.GE}:
        return operator is ComparisonOperator.GE
    if value == high and operator in {ComparisonOperator.GT, ComparisonOperator.LE}:
        return operator is ComparisonOperator.LE
    floor = int(Decimal(value).to_integral_value(ROUND_FLOOR))
    if floor == value:
        return Fitted(operator, floor)
    # Between two whole numbers, `<` and `<=` are the same, and so are `>` and `>=`.
    match operator:
        case ComparisonOperator.EQ | ComparisonOperator.NE:
            return operator is ComparisonOperator.NE
        case ComparisonOperator.LT | ComparisonOperator.LE:
            return Fitted(ComparisonOperator.LE, floor)
        case _:
            return Fitted(ComparisonOperator.GT, floor)


def _float(operator: ComparisonOperator, value: int | float | Decimal, scalar: Scalar) -> Fitted | bool:
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if scalar is Scalar.F32:
        nearest = narrow(nearest)
    if math.isinf(nearest):
        return _outside(operator, is_above=nearest > 0)
    # Adding zero turns -0.0 into 0.0, which is what is stored.
    return Fitted(operator, nearest + 0.0)


def _date(operator: ComparisonOperator, moment: datetime) -> Fitted | bool:
    day = moment.astimezone(UTC).date()
    if midnight(day) == moment:
        return Fitted(operator, day)
    match operator:
        case ComparisonOperator.EQ | ComparisonOperator.NE:
            return operator is ComparisonOperator.NE
        case ComparisonOperator.LT | ComparisonOperator.LE:
            return Fitted(ComparisonOperator.LE, day)
        case _:
            return Fitted(ComparisonOperator.GT, day)


def _outside(operator: ComparisonOperator, *, is_above: bool) -> bool:
    """A comparison with a value beyond all values of the type."""
    if operator in {ComparisonOperator.EQ, ComparisonOperator.NE}:
        return operator is ComparisonOperator.NE
    return (operator in _BELOW) is is_above


_SHOWN_MAX: Final = 60


def value_from_json(value: object, property_type: PropertyType) -> LiteralValue | ValueMistake:
    """The value that a member of a JSON document, or what a Python program has of it, means for this type."""
    value = _plain(value)
    if isinstance(value, str) and not value.isascii() and _has_half_pair(value):
        return ValueMistake("it has half of a surrogate pair, which is not a character")
    match property_type:
        case ScalarType(Scalar.DATE) if isinstance(value, date) and not isinstance(value, datetime):
            return value
        case ScalarType(Scalar.DATETIME) if isinstance(value, datetime):
            return _moment(value)
        case EnumType() | ScalarType(Scalar.STRING | Scalar.DATE | Scalar.DATETIME):
            return (
                value_from_text(value, property_type)
                if isinstance(value, str)
                else _wrong_kind(value, property_type)
            )
        case ScalarType(Scalar.BOOL):
            return value if isinstance(value, bool) else _wrong_kind(value, property_type)
        case ScalarType(Scalar.BLOB):
            if isinstance(value, bytes):
                return value
            return blob_from_text(value) if isinstance(value, str) else _wrong_kind(value, property_type)
        case ScalarType(scalar):
            return _number(value, scalar)
        case ListType(item):
            return _items(value, ScalarType(item), property_type)
        case VectorType(size):
            items = _items(value, ScalarType(Scalar.F32), property_type)
            if isinstance(items, tuple) and len(items) != size:
                return _wrong_size(len(items), property_type)
            return items
        case _:
            assert_never(property_type)


def _plain(value: object) -> object:
    """What NumPy and pandas wrap, as Python has it; their times, which become bare numbers, stay as they are."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    unwrap = getattr(value, "tolist", None)
    return unwrap() if isinstance(kind, str) and kind not in "mM" and callable(unwrap) else value


def _moment(moment: datetime) -> datetime | ValueMistake:
    # The first of the two is for pandas' NaT, which has no offset to ask for.
    if moment.tzinfo is None or moment.utcoffset() is None:
        return ValueMistake(
            "a datetime without its offset would mean another moment on every machine",
            "give it one, as in datetime(2024, 5, 31, 12, tzinfo=UTC)",
        )
    if moment.microsecond % 1000 or getattr(moment, "nanosecond", 0):
        return ValueMistake(
            "a DateTime has milliseconds, and this one is finer",
            "round it, as in moment.replace(microsecond=0)",
        )
    try:
        return datetime.fromisoformat(moment.isoformat(timespec="milliseconds")).astimezone(UTC)
    except (ValueError, OverflowError):
        return ValueMistake(f"{moment.isoformat()} is no moment of the calendar")


def _has_half_pair(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def value_from_expression(expression: Expression, property_type: PropertyType) -> LiteralValue | ValueMistake:
    """The value that a literal of a query means for a property of this type; what is no literal is a mistake."""
    match expression:
        case NullLiteral():
            return None
        case BoolLiteral(value):
            return value_from_json(value, property_type)
        case StringLiteral(text) if property_type == ScalarType(Scalar.BLOB):
            return blob_from_text(text)
        case StringLiteral() | NumberLiteral() | TimeLiteral():
            return value_from_literal(expression, property_type)
        case ListLiteral(items):
            return _literal_items(items, property_type)
        case _:
            return ValueMistake("this is not a literal")


def blob_from_text(text: str) -> bytes | str | ValueMistake:
    """The bytes of `base64:…`, or the URI itself."""
    if not text.startswith(BASE64_PREFIX):
        return text
    try:
        return base64.b64decode(text.removeprefix(BASE64_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return ValueMistake(f"{quoted(text)} is not valid base64")


def _number(value: object, scalar: Scalar) -> LiteralValue | ValueMistake:
    property_type = ScalarType(scalar)
    if isinstance(value, Decimal):
        return value_from_text(str(value), property_type)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return _wrong_kind(value, property_type)
    if isinstance(value, str) and scalar not in {Scalar.I64, Scalar.U64}:
        return _wrong_kind(value, property_type)
    if scalar in INTEGER_BOUNDS and isinstance(value, int):
        # Compared as a number: writing thousands of digits out is refused by Python, and slow.
        low, high = INTEGER_BOUNDS[scalar]
        fits = low <= value <= high
        return value if fits else ValueMistake(f"the number does not fit {scalar.value}: {low} to {high}")
    assert scalar in INTEGER_BOUNDS or scalar in FLOATS
    if isinstance(value, int) and abs(value) > 2**1024:
        return ValueMistake(f"the number is too large for {scalar.value}")
    return value_from_text(value if isinstance(value, str) else repr(value), property_type)


def _items(
    sequence: object, item: ScalarType, property_type: PropertyType
) -> tuple[LiteralValue, ...] | ValueMistake:
    if not isinstance(sequence, list | tuple):
        return _wrong_kind(sequence, property_type)
    values: list[LiteralValue] = []
    for number, member in enumerate(sequence):
        value = value_from_json(member, item)
        if isinstance(value, ValueMistake):
            return ValueMistake(f"item {number}: {value.message}", value.hint)
        values.append(value)
    return tuple(values)


def _literal_items(
    items: tuple[Expression, ...], property_type: PropertyType
) -> tuple[LiteralValue, ...] | ValueMistake:
    match property_type:
        case ListType(item):
            item_type = ScalarType(item)
        case VectorType(size):
            item_type = ScalarType(Scalar.F32)
            if len(items) != size:
                return _wrong_size(len(items), property_type)
        case _:
            return ValueMistake(f"a list is no {type_text(property_type)}")
    values: list[LiteralValue] = []
    for item_literal in items:
        value = value_from_expression(item_literal, item_type)
        if isinstance(value, ValueMistake):
            return value
        if value is None:
            return ValueMistake("the items of a list are never null")
        values.append(value)
    return tuple(values)


def _wrong_size(count: int, vector_type: VectorType) -> ValueMistake:
    numbers = f"{count} number{'' if count == 1 else 's'}"
    return ValueMistake(
        f"a vector of {numbers} is no {type_text(vector_type)}", f"give {vector_type.size} numbers"
    )


def _wrong_kind(value: object, property_type: PropertyType) -> ValueMistake:
    """A short picture of what came, since the value itself may be huge."""
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
    return ValueMistake(f"{shown} is no {type_text(property_type)}", _hint(property_type))


def _hint(property_type: PropertyType) -> str:
    hints: dict[PropertyType, str] = {
        ScalarType(Scalar.STRING): 'give a string: "…"',
        ScalarType(Scalar.DATE): 'give a date: "2024-05-31"',
        ScalarType(Scalar.DATETIME): 'give a datetime: "2024-05-31T12:00:00Z"',
        ScalarType(Scalar.BOOL): "give true or false",
        ScalarType(Scalar.BLOB): 'give "base64:…"',
    }
    if isinstance(property_type, ListType | VectorType):
        return "give a list"
    return hints.get(
        property_type, "give a number" if isinstance(property_type, ScalarType) else 'give a string: "…"'
    )
