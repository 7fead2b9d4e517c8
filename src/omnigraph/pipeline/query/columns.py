"""Comparisons and arithmetic on Spark with the meaning of the language, whatever the session's ANSI setting is.

Integers compare exactly, also beside floats, which Spark would round them to; a date beside a datetime is the midnight
with which it begins; NaN, which only arithmetic can make, is equal to nothing. A whole number that leaves the range of
I64 fails the query with the engine's own error, which travels as every error of a task does.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, reduce
from typing import Any, Final, assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, StringType

from omnigraph.base.errors import InvariantError
from omnigraph.engine.columns.compute import overflow
from omnigraph.pipeline.datasource.types import spark_type
from omnigraph.pipeline.spark.task_errors import pack_error
from omnigraph.query.plan.expressions import (
    And,
    ColumnRef,
    Compare,
    Computed,
    EntityRef,
    Expr,
    InList,
    IsNull,
    Known,
    ListMembership,
    Literal,
    LiteralValue,
    Negated,
    Not,
    Or,
    OutputRef,
    Prefix,
    Substring,
)
from omnigraph.query.plan.types import (
    DATETIME,
    U64,
    EntityValueType,
    NullType,
    TypeFamily,
    ValueType,
    family_of,
    is_float,
)
from omnigraph.query.syntax import ComparisonOperator, Sign
from omnigraph.query.values import REVERSED
from omnigraph.schema.property_types import EnumType, ListType, Scalar, ScalarType, VectorType

WIDE: Final = DecimalType(20, 0)
"""Holds every integer of the language."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = date(1970, 1, 1)
_MILLISECOND: Final = 1000


def spark_name(name: str) -> str:
    """What a column of the plan is called on Spark."""
    return f"c{name.encode().hex()}"


def plan_column(name: str) -> Column:
    """A column of the plan."""
    return F.col(spark_name(name))


def value_spark_type(value_type: ValueType) -> DataType:
    """The Spark type of a value; an entity is its id, and null has the type of a text."""
    if isinstance(value_type, EntityValueType | NullType):
        return StringType()
    return spark_type(value_type)


def literal_column(literal: Literal) -> Column:
    """A literal, of exactly its type."""
    target = value_spark_type(literal.type)
    if literal.value is None:
        return F.lit(None).cast(target)
    match literal.type:
        case ListType(item):
            assert isinstance(literal.value, tuple), "a list is a tuple"
            return F.array(*(_scalar(item_value, item) for item_value in literal.value)).cast(target)
        case VectorType():
            assert isinstance(literal.value, tuple), "a vector is a tuple"
            return F.array(*(_scalar(item_value, Scalar.F32) for item_value in literal.value)).cast(target)
        case ScalarType(scalar):
            return _scalar(literal.value, scalar)
        case EnumType() | EntityValueType() | NullType():
            return F.lit(literal.value).cast(target)
        case _:
            assert_never(literal.type)


def _scalar(value: LiteralValue, scalar: Scalar) -> Column:
    target = spark_type(ScalarType(scalar))
    match value:
        case datetime():
            moment = value.astimezone(UTC) - _EPOCH
            millis = (moment.days * 86_400 + moment.seconds) * _MILLISECOND + moment.microseconds // 1000
            return F.timestamp_millis(F.lit(millis).cast("bigint"))
        case date():
            return F.date_from_unix_date(F.lit((value - _FIRST_DAY).days))
        case int() | Decimal() if scalar in {Scalar.F32, Scalar.F64}:
            return F.lit(float(value)).cast(target)
        case bool() | str() | float() | Decimal():
            return F.lit(value).cast(target)
        case int():
            # As a decimal, because a number between 2**63 and 2**64 is no literal of Spark.
            return F.lit(Decimal(value)).cast(WIDE).cast(target)
        case _:
            raise InvariantError(f"{type(value).__name__} is no literal of Spark", code="plan_invariant")


_COMPARED: Final[dict[ComparisonOperator, Callable[[Column, Any], Column]]] = {
    ComparisonOperator.EQ: lambda left, right: left == right,
    ComparisonOperator.NE: lambda left, right: left != right,
    ComparisonOperator.LT: lambda left, right: left < right,
    ComparisonOperator.LE: lambda left, right: left <= right,
    ComparisonOperator.GT: lambda left, right: left > right,
    ComparisonOperator.GE: lambda left, right: left >= right,
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


def compared(operator: ComparisonOperator, left: Typed, right: Typed) -> Column:
    """`left operator right`, null where a side is."""
    (left_column, left_type), (right_column, right_type) = left, right
    kernel = _COMPARED[operator]
    if isinstance(left_type, NullType) or isinstance(right_type, NullType):
        return F.lit(None).cast("boolean")
    match family_of(left_type):
        case TypeFamily.TIME if left_type != right_type:
            return kernel(_millis(left), _millis(right))
        case TypeFamily.NUMBER:
            return _numbers(operator, left, right)
        case _:
            return kernel(left_column, right_column)


def computed(sign: Sign, left: Typed, right: Typed, result_type: ValueType) -> Column:
    """`left sign right`, as I64 or F64; division by zero is null."""
    (left_column, left_type), (right_column, right_type) = left, right
    if is_float(result_type):
        return _FLOATS[sign](left_column.cast("double"), right_column.cast("double"))
    kind = WIDE if U64 in (left_type, right_type) else "bigint"
    result = _EXACT[sign](left_column.cast(kind), right_column.cast(kind))
    is_beyond = result.isNull() & left_column.isNotNull() & right_column.isNotNull()
    return F.when(is_beyond, _fail()).otherwise(within_i64(result) if kind is WIDE else result)


def negated(operand: Column, result_type: ValueType) -> Column:
    """`-operand`."""
    if is_float(result_type):
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


def _numbers(operator: ComparisonOperator, left: Typed, right: Typed) -> Column:
    (left_column, left_type), (right_column, right_type) = left, right
    kernel = _COMPARED[operator]
    match is_float(left_type), is_float(right_type):
        case True, True:
            return _with_nan(operator, left_column.cast("double"), right_column.cast("double"))
        case True, False:
            return _beside_float(REVERSED.get(operator, operator), right, left_column)
        case False, True:
            return _beside_float(operator, left, right_column)
        case _:
            kind = WIDE if U64 in (left_type, right_type) else "bigint"
            return kernel(left_column.cast(kind), right_column.cast(kind))


def _with_nan(operator: ComparisonOperator, left: Column, right: Column) -> Column:
    """Spark takes NaN for the greatest number and for equal to itself."""
    answer = F.lit(operator is ComparisonOperator.NE)
    plain = _COMPARED[operator](left, right)
    return F.when(plain.isNotNull() & (F.isnan(left) | F.isnan(right)), answer).otherwise(plain)


def _beside_float(operator: ComparisonOperator, whole: Typed, real: Column) -> Column:
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
    return F.when(plain.isNotNull() & F.isnan(number), F.lit(operator is ComparisonOperator.NE)).otherwise(
        plain
    )


def filtered(frame: DataFrame, conditions: tuple[Expr, ...]) -> DataFrame:
    """The rows for which every condition is true."""
    for condition in conditions:
        frame = frame.filter(expression_column(condition))
    return frame


def expression_column(expr: Expr) -> Column:
    """The values of an expression; of an entity, its id."""
    match expr:
        case Literal():
            return literal_column(expr)
        case ColumnRef() | OutputRef():
            return plan_column(expr.name)
        case EntityRef():
            return plan_column(expr.id.name)
        case Negated(operand):
            return negated(expression_column(operand), expr.type)
        case Computed(sign, left, right):
            return computed(sign, _typed(left), _typed(right), expr.type)
        case And(operands):
            return reduce(lambda left, right: left & right, map(expression_column, operands))
        case Or(operands):
            return reduce(lambda left, right: left | right, map(expression_column, operands))
        case Not(operand):
            return ~expression_column(operand)
        case IsNull(operand, is_not):
            column = expression_column(operand)
            return column.isNotNull() if is_not else column.isNull()
        case Known(answer, operand):
            return F.when(expression_column(operand).isNotNull(), F.lit(answer))
        case _:
            return _condition(expr)


def _condition(expr: Expr) -> Column:
    match expr:
        case Compare(operator, left, right):
            return compared(operator, _typed(left), _typed(right))
        case InList(operand, items):
            return _in_list(operand, items)
        case ListMembership(item, collection):
            return _member(item, collection)
        case Substring(text, part):
            return F.contains(expression_column(text), expression_column(part))
        case Prefix(text, part):
            return F.startswith(expression_column(text), expression_column(part))
        case _:
            raise InvariantError(f"{type(expr).__name__} is not evaluated on Spark", code="plan_invariant")


def _typed(expr: Expr) -> Typed:
    return expression_column(expr), expr.type


def _in_list(operand: Expr, items: tuple[Expr, ...]) -> Column:
    asked = expression_column(operand)
    if items and all(item.type == operand.type for item in items):
        return asked.isin(*(expression_column(item) for item in items))
    answer = F.when(asked.isNotNull(), F.lit(False))
    for item in items:
        answer = answer | compared(ComparisonOperator.EQ, (asked, operand.type), _typed(item))
    return answer


def _member(item: Expr, collection: Expr) -> Column:
    asked, listed = expression_column(item), expression_column(collection)
    member_type: ValueType = item.type
    if isinstance(collection.type, ListType):
        member_type = ScalarType(collection.type.item)
    is_member = F.exists(
        listed, lambda member: compared(ComparisonOperator.EQ, (member, member_type), (asked, item.type))
    )
    return F.when(asked.isNotNull() & listed.isNotNull(), F.coalesce(is_member, F.lit(False)))
