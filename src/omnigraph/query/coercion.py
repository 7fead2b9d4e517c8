"""What a comparison with a number, a date or a text means for values of one exact type.

Comes in: an operator, the type of the other side, and a value as written. Goes out: the same comparison with a value of
exactly that type, perhaps with another operator, or the answer that it has for every value of the type. Nothing is
lost: `count = 2.7` is never true of integers, `count < 2.7` is `count <= 2`, `count < 3000000000` is true of every I32.
Floats take the value at their own precision. A date is the midnight, in UTC, with which it begins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import ROUND_FLOOR, Decimal
from typing import Final

from omnigraph.query.expressions import LiteralValue
from omnigraph.query.syntax import Operator
from omnigraph.schema.property_types import INTEGER_BOUNDS, PropertyType, Scalar, ScalarType
from omnigraph.schema.values import narrow

REVERSED: Final = {
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}
_BELOW: Final = frozenset({Operator.LT, Operator.LE})


@dataclass(frozen=True, slots=True)
class Fitted:
    """A comparison with a value of the exact type."""

    operator: Operator
    value: LiteralValue


def fit(operator: Operator, value: LiteralValue, wanted: PropertyType) -> Fitted | bool:
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


def _integer(operator: Operator, value: int | float | Decimal, bounds: tuple[int, int]) -> Fitted | bool:
    low, high = bounds
    if value > high or value < low:
        return _outside(operator, is_above=value > high)
    if value == low and operator in {Operator.LT, Operator.GE}:
        return operator is Operator.GE
    if value == high and operator in {Operator.GT, Operator.LE}:
        return operator is Operator.LE
    floor = int(Decimal(value).to_integral_value(ROUND_FLOOR))
    if floor == value:
        return Fitted(operator, floor)
    # Between two whole numbers, `<` and `<=` are the same, and so are `>` and `>=`.
    match operator:
        case Operator.EQ | Operator.NE:
            return operator is Operator.NE
        case Operator.LT | Operator.LE:
            return Fitted(Operator.LE, floor)
        case _:
            return Fitted(Operator.GT, floor)


def _float(operator: Operator, value: int | float | Decimal, scalar: Scalar) -> Fitted | bool:
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


def _date(operator: Operator, moment: datetime) -> Fitted | bool:
    day = moment.astimezone(UTC).date()
    if midnight(day) == moment:
        return Fitted(operator, day)
    match operator:
        case Operator.EQ | Operator.NE:
            return operator is Operator.NE
        case Operator.LT | Operator.LE:
            return Fitted(Operator.LE, day)
        case _:
            return Fitted(Operator.GT, day)


def _outside(operator: Operator, *, is_above: bool) -> bool:
    """A comparison with a value beyond all values of the type."""
    if operator in {Operator.EQ, Operator.NE}:
        return operator is Operator.NE
    return (operator in _BELOW) is is_above
