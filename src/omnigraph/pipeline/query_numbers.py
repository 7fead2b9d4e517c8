"""Comparisons and arithmetic on Spark with the meaning of the language, whatever the session's ANSI setting is.

Integers compare exactly, also beside floats, which Spark would round them to; a date beside a datetime is the midnight
with which it begins; NaN, which only arithmetic can make, is equal to nothing. A whole number that leaves the range of
I64 fails the query with the engine's own error, which travels as every error of a task does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from omnigraph.engine.arithmetic import overflow
from omnigraph.pipeline.query_values import WIDE
from omnigraph.pipeline.task_errors import pack_error
from omnigraph.query.coercion import REVERSED
from omnigraph.query.syntax import Operator, Sign
from omnigraph.query.value_types import DATETIME, U64, Family, NullType, ValueType, family_of, is_float
from omnigraph.schema.property_types import Scalar, ScalarType

_COMPARED: Final[dict[Operator, Callable[[Column, Any], Column]]] = {
    Operator.EQ: lambda left, right: left == right,
    Operator.NE: lambda left, right: left != right,
    Operator.LT: lambda left, right: left < right,
    Operator.LE: lambda left, right: left <= right,
    Operator.GT: lambda left, right: left > right,
    Operator.GE: lambda left, right: left >= right,
}
_EXACT: Final[dict[Sign, Callable[[Column, Column], Column]]] = {
    Sign.ADD: F.try_add,
    Sign.SUB: F.try_subtract,
    Sign.MUL: F.try_multiply,
}
_FLOATS: Final[dict[Sign, Callable[[Column, Column], Column]]] = {
    Sign.ADD: lambda left, right: left + right,
    Sign.SUB: lambda left, right: left - right,
    Sign.MUL: lambda left, right: left * right,
    Sign.DIV: F.try_divide,
}
_NARROW: Final = frozenset({Scalar.I32, Scalar.U32})
_DAY_MILLIS: Final = 86_400_000
_TWO_63: Final = 2.0**63
_I64_MIN: Final = str(-(2**63))
_I64_MAX: Final = str(2**63 - 1)

Typed = tuple[Column, ValueType]


def compared(operator: Operator, left: Typed, right: Typed) -> Column:
    """`left operator right`, null where a side is."""
    (one, one_type), (other, other_type) = left, right
    kernel = _COMPARED[operator]
    if isinstance(one_type, NullType) or isinstance(other_type, NullType):
        return F.lit(None).cast("boolean")
    match family_of(one_type):
        case Family.TIME if one_type != other_type:
            return kernel(_millis(left), _millis(right))
        case Family.NUMBER:
            return _numbers(operator, left, right)
        case _:
            return kernel(one, other)


def computed(sign: Sign, left: Typed, right: Typed, wanted: ValueType) -> Column:
    """`left sign right`, as I64 or F64; division by zero is null."""
    (one, one_type), (other, other_type) = left, right
    if is_float(wanted):
        return _FLOATS[sign](one.cast("double"), other.cast("double"))
    kind = WIDE if U64 in (one_type, other_type) else "bigint"
    found = _EXACT[sign](one.cast(kind), other.cast(kind))
    is_beyond = found.isNull() & one.isNotNull() & other.isNotNull()
    return F.when(is_beyond, _fail()).otherwise(within_i64(found) if kind is WIDE else found)


def negated(operand: Column, wanted: ValueType) -> Column:
    """`-operand`."""
    if is_float(wanted):
        return F.negate(operand.cast("double"))
    return within_i64(F.negate(operand.cast(WIDE)))


def within_i64(whole: Column) -> Column:
    """A decimal as an I64; one that is none fails the query."""
    is_beyond = (whole < F.lit(_I64_MIN).cast(WIDE)) | (whole > F.lit(_I64_MAX).cast(WIDE))
    return F.when(is_beyond, _fail()).otherwise(whole.cast("bigint"))


@cache
def _overflow_text() -> str:
    return str(pack_error(overflow()))


def _fail() -> Column:
    return F.raise_error(F.lit(_overflow_text())).cast("bigint")


def _millis(value: Typed) -> Column:
    column, value_type = value
    if value_type == DATETIME:
        return F.unix_millis(column)
    return F.unix_date(column).cast("bigint") * F.lit(_DAY_MILLIS).cast("bigint")


def _numbers(operator: Operator, left: Typed, right: Typed) -> Column:
    (one, one_type), (other, other_type) = left, right
    kernel = _COMPARED[operator]
    match is_float(one_type), is_float(other_type):
        case True, True:
            return _with_nan(operator, one.cast("double"), other.cast("double"))
        case True, False:
            return _beside_float(REVERSED.get(operator, operator), right, one)
        case False, True:
            return _beside_float(operator, left, other)
        case _:
            kind = WIDE if U64 in (one_type, other_type) else "bigint"
            return kernel(one.cast(kind), other.cast(kind))


def _with_nan(operator: Operator, one: Column, other: Column) -> Column:
    """Spark takes NaN for the greatest number and for equal to itself."""
    answer = F.lit(operator is Operator.NE)
    plain = _COMPARED[operator](one, other)
    return F.when(plain.isNotNull() & (F.isnan(one) | F.isnan(other)), answer).otherwise(plain)


def _beside_float(operator: Operator, whole: Typed, real: Column) -> Column:
    """An integer beside a float: as floats where no integer is rounded by that, otherwise by the sign."""
    column, value_type = whole
    number = real.cast("double")
    if isinstance(value_type, ScalarType) and value_type.scalar in _NARROW:
        return _with_nan(operator, column.cast("double"), number)
    # Spark's floor is a long, and fails for what no long holds.
    low = F.floor(F.when((number >= F.lit(-_TWO_63)) & (number < F.lit(_TWO_63)), number))
    is_large = number >= F.lit(_TWO_63)
    near = low.cast(WIDE)
    if value_type == U64:
        # Through a second half, because Spark makes a decimal of the digits it would print.
        rest = F.when(is_large & (number < F.lit(_TWO_63 * 2)), number - F.lit(_TWO_63))
        upper = F.floor(rest).cast(WIDE) + F.lit(str(2**63)).cast(WIDE)
        near = F.when(is_large, upper).otherwise(near).cast(WIDE)
        is_large = number >= F.lit(_TWO_63 * 2)
    exact = column.cast(WIDE)
    has_rest = (number < F.lit(_TWO_63)) & (number > low.cast("double"))
    sign = (
        F.when(exact.isNull() | number.isNull(), F.lit(None).cast("int"))
        .when(is_large | (exact < near), -1)
        .when((number < F.lit(-_TWO_63)) | (exact > near), 1)
        .when(has_rest, -1)
        .otherwise(0)
    )
    plain = _COMPARED[operator](sign, F.lit(0))
    return F.when(plain.isNotNull() & F.isnan(number), F.lit(operator is Operator.NE)).otherwise(plain)
