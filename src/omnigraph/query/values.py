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


def fit(operator: ComparisonOperator, value: LiteralValue, wanted: PropertyType) -> Fitted | bool:
    """The comparison for values of this type, or what it always is."""
    match wanted, value:
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


def value_from_json(given: object, wanted: PropertyType) -> LiteralValue | ValueMistake:
    """The value that a member of a JSON document, or what a Python program has of it, means for this type."""
    given = _plain(given)
    if isinstance(given, str) and not given.isascii() and _has_half_pair(given):
        return ValueMistake("it has half of a surrogate pair, which is not a character")
    match wanted:
        case ScalarType(Scalar.DATE) if isinstance(given, date) and not isinstance(given, datetime):
            return given
        case ScalarType(Scalar.DATETIME) if isinstance(given, datetime):
            return _moment(given)
        case EnumType() | ScalarType(Scalar.STRING | Scalar.DATE | Scalar.DATETIME):
            return value_from_text(given, wanted) if isinstance(given, str) else _wrong_kind(given, wanted)
        case ScalarType(Scalar.BOOL):
            return given if isinstance(given, bool) else _wrong_kind(given, wanted)
        case ScalarType(Scalar.BLOB):
            if isinstance(given, bytes):
                return given
            return blob_from_text(given) if isinstance(given, str) else _wrong_kind(given, wanted)
        case ScalarType(scalar):
            return _number(given, scalar)
        case ListType(item):
            return _items(given, ScalarType(item), wanted)
        case VectorType(size):
            items = _items(given, ScalarType(Scalar.F32), wanted)
            if isinstance(items, tuple) and len(items) != size:
                return _wrong_size(len(items), wanted)
            return items
        case _:
            assert_never(wanted)


def _plain(given: object) -> object:
    """What NumPy and pandas wrap, as Python has it; their times, which become bare numbers, stay as they are."""
    kind = getattr(getattr(given, "dtype", None), "kind", None)
    unwrap = getattr(given, "tolist", None)
    return unwrap() if isinstance(kind, str) and kind not in "mM" and callable(unwrap) else given


def _moment(given: datetime) -> datetime | ValueMistake:
    # The first of the two is for pandas' NaT, which has no offset to ask for.
    if given.tzinfo is None or given.utcoffset() is None:
        return ValueMistake(
            "a datetime without its offset would mean another moment on every machine",
            "give it one, as in datetime(2024, 5, 31, 12, tzinfo=UTC)",
        )
    if given.microsecond % 1000 or getattr(given, "nanosecond", 0):
        return ValueMistake(
            "a DateTime has milliseconds, and this one is finer",
            "round it, as in moment.replace(microsecond=0)",
        )
    try:
        return datetime.fromisoformat(given.isoformat(timespec="milliseconds")).astimezone(UTC)
    except (ValueError, OverflowError):
        return ValueMistake(f"{given.isoformat()} is no moment of the calendar")


def _has_half_pair(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def value_from_expression(given: Expression, wanted: PropertyType) -> LiteralValue | ValueMistake:
    """The value that a literal of a query means for a property of this type; what is no literal is a mistake."""
    match given:
        case NullLiteral():
            return None
        case BoolLiteral(value):
            return value_from_json(value, wanted)
        case StringLiteral(text) if wanted == ScalarType(Scalar.BLOB):
            return blob_from_text(text)
        case StringLiteral() | NumberLiteral() | TimeLiteral():
            return value_from_literal(given, wanted)
        case ListLiteral(items):
            return _literal_items(items, wanted)
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


def _number(given: object, scalar: Scalar) -> LiteralValue | ValueMistake:
    wanted = ScalarType(scalar)
    if isinstance(given, Decimal):
        return value_from_text(str(given), wanted)
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return _wrong_kind(given, wanted)
    if isinstance(given, str) and scalar not in {Scalar.I64, Scalar.U64}:
        return _wrong_kind(given, wanted)
    if scalar in INTEGER_BOUNDS and isinstance(given, int):
        # Compared as a number: writing thousands of digits out is refused by Python, and slow.
        low, high = INTEGER_BOUNDS[scalar]
        fits = low <= given <= high
        return given if fits else ValueMistake(f"the number does not fit {scalar.value}: {low} to {high}")
    assert scalar in INTEGER_BOUNDS or scalar in FLOATS
    if isinstance(given, int) and abs(given) > 2**1024:
        return ValueMistake(f"the number is too large for {scalar.value}")
    return value_from_text(given if isinstance(given, str) else repr(given), wanted)


def _items(given: object, item: ScalarType, wanted: PropertyType) -> tuple[LiteralValue, ...] | ValueMistake:
    if not isinstance(given, list | tuple):
        return _wrong_kind(given, wanted)
    values: list[LiteralValue] = []
    for number, member in enumerate(given):
        value = value_from_json(member, item)
        if isinstance(value, ValueMistake):
            return ValueMistake(f"item {number}: {value.message}", value.hint)
        values.append(value)
    return tuple(values)


def _literal_items(
    items: tuple[Expression, ...], wanted: PropertyType
) -> tuple[LiteralValue, ...] | ValueMistake:
    match wanted:
        case ListType(item):
            item_type = ScalarType(item)
        case VectorType(size):
            item_type = ScalarType(Scalar.F32)
            if len(items) != size:
                return _wrong_size(len(items), wanted)
        case _:
            return ValueMistake(f"a list is no {type_text(wanted)}")
    values: list[LiteralValue] = []
    for given in items:
        value = value_from_expression(given, item_type)
        if isinstance(value, ValueMistake):
            return value
        if value is None:
            return ValueMistake("the items of a list are never null")
        values.append(value)
    return tuple(values)


def _wrong_size(count: int, wanted: VectorType) -> ValueMistake:
    numbers = f"{count} number{'' if count == 1 else 's'}"
    return ValueMistake(f"a vector of {numbers} is no {type_text(wanted)}", f"give {wanted.size} numbers")


def _wrong_kind(given: object, wanted: PropertyType) -> ValueMistake:
    """A short picture of what came, since the value itself may be huge."""
    match given:
        case None:
            shown = "null"
        case bool():
            shown = "true" if given else "false"
        case int() | float():
            shown = "a number"
        case str():
            shown = f'"{given[:_SHOWN_MAX]}{"…" if len(given) > _SHOWN_MAX else ""}"'
        case list() | tuple():
            shown = "a list"
        case dict():
            shown = "an object"
        case _:
            shown = type(given).__name__
    return ValueMistake(f"{shown} is no {type_text(wanted)}", _hint(wanted))


def _hint(wanted: PropertyType) -> str:
    hints: dict[PropertyType, str] = {
        ScalarType(Scalar.STRING): 'give a string: "…"',
        ScalarType(Scalar.DATE): 'give a date: "2024-05-31"',
        ScalarType(Scalar.DATETIME): 'give a datetime: "2024-05-31T12:00:00Z"',
        ScalarType(Scalar.BOOL): "give true or false",
        ScalarType(Scalar.BLOB): 'give "base64:…"',
    }
    if isinstance(wanted, ListType | VectorType):
        return "give a list"
    return hints.get(wanted, "give a number" if isinstance(wanted, ScalarType) else 'give a string: "…"')
