"""Expressions of a plan as columns of Spark: literals, comparisons, arithmetic and conditions.

In: expressions and literals of a typed plan. Out: columns with the meaning of the query language, independent of the
session's ANSI setting. Integers compare exactly, also with floats, to which Spark would round them; a date compared
with a datetime is its midnight; NaN, which only arithmetic can produce, is equal to nothing. An integer outside the
range of I64 fails the query with the error of the engine. Nothing runs here.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from typing import Any, Final, assert_never

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, StringType

from omnigraph.arrow.columns import plain_array
from omnigraph.base.errors import InvariantError
from omnigraph.engine.columns.compute import date_overflow_error, overflow_error
from omnigraph.engine.columns.expressions import match_texts
from omnigraph.engine.columns.frame import DictionaryColumn
from omnigraph.pipeline.datasource.types import spark_type
from omnigraph.pipeline.spark.task_errors import encode_error
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import types as ty
from omnigraph.query.plan.functions import DAY_MILLIS, DURATIONS, FIRST_DAY, FUNCTIONS, LAST_DAY, largest_amount
from omnigraph.query.plan.like import canonical_pattern
from omnigraph.query.plan.types import EntityListType, EntityValueType, NullType, ValueType, is_float
from omnigraph.query.syntax import ComparisonOperator, Sign
from omnigraph.query.values import REVERSED
from omnigraph.schema.property_types import EnumType, ListType, Scalar, ScalarType, VectorType

WIDE: Final = DecimalType(20, 0)
"""The type that holds every integer of the language."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = date(1970, 1, 1)
_MILLISECOND: Final = 1000
_COMPARISONS: Final[dict[ComparisonOperator, Callable[[Column, Any], Column]]] = {
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
_TWO_63: Final = 2.0**63
_I64_MIN: Final = str(-(2**63))
_I64_MAX: Final = str(2**63 - 1)
Typed = tuple[Column, ValueType]


def spark_name(name: str) -> str:
    """Return the name on Spark of a column of the plan."""
    return f"c{name.encode().hex()}"


def plan_column(name: str) -> Column:
    """Return a column of the plan."""
    return F.col(spark_name(name))


def value_spark_type(value_type: ValueType) -> DataType:
    """Return the Spark type of a value; an entity is its id, and null is a string."""
    if isinstance(value_type, EntityValueType | NullType):
        return StringType()
    assert not isinstance(value_type, EntityListType), "only `collect` returns a list of entities"
    return spark_type(value_type)


def filter_rows(frame: DataFrame, conditions: tuple[ex.Expr, ...]) -> DataFrame:
    """Return the rows for which every condition is true."""
    for condition in conditions:
        frame = frame.filter(expression_column(condition))
    return frame


def expression_column(expr: ex.Expr) -> Column:  # noqa: PLR0912 - one case per node
    """Return the values of an expression; those of an entity are its ids."""
    match expr:
        case ex.Literal():
            return literal_column(expr)
        case ex.ColumnRef() | ex.OutputRef():
            return plan_column(expr.name)
        case ex.EntityRef():
            return plan_column(expr.id.name)
        case ex.Negation(operand):
            return negate(expression_column(operand), expr.type)
        case ex.BinaryOperation(sign, left, right):
            return compute(sign, _typed(left), _typed(right), expr.type)
        case ex.FunctionCall(name, arguments):
            return _call_function(name, arguments)
        case ex.Convert(operand, value_type):
            return _convert(_typed(operand), value_type)
        case ex.ShiftTime():
            return _shift_time(expr)
        case ex.TimeDifference(left, right):
            return _time_difference(_typed(left), _typed(right), expr.type)
        case ex.Coalesce(operands):
            return F.coalesce(*map(expression_column, operands))
        case ex.Conditional(conditions, values, otherwise):
            return _case(conditions, values, otherwise)
        case ex.And(operands):
            return reduce(and_, map(expression_column, operands))
        case ex.Or(operands):
            return reduce(or_, map(expression_column, operands))
        case ex.Not(operand):
            return ~expression_column(operand)
        case ex.IsNull(operand, is_not):
            column = expression_column(operand)
            return column.isNotNull() if is_not else column.isNull()
        case ex.ConstantUnlessNull(answer, operand):
            return F.when(expression_column(operand).isNotNull(), F.lit(answer))
        case _:
            return _condition(expr)


def _call_function(name: str, arguments: tuple[ex.Expr, ...]) -> Column:
    columns = [expression_column(argument) for argument in arguments]
    result: Column = FUNCTIONS[name].spark(F, *columns)
    result = result.cast(value_spark_type(FUNCTIONS[name].result))
    nullable = [column for column, argument in zip(columns, arguments, strict=True) if argument.nullable]
    return F.when(reduce(and_, (column.isNotNull() for column in nullable)), result) if nullable else result


def _case(conditions: tuple[ex.Expr, ...], values: tuple[ex.Expr, ...], otherwise: ex.Expr) -> Column:
    chain: Any = F
    for condition, value in zip(conditions, values, strict=True):
        chain = chain.when(expression_column(condition), expression_column(value))
    result: Column = chain.otherwise(expression_column(otherwise))
    return result


def _convert(value: Typed, target: ValueType) -> Column:
    column, value_type = value
    if target == ty.I64:
        return within_i64(column) if value_type == ty.U64 else column.cast("bigint")
    if target == ty.DATETIME:
        return F.timestamp_millis(_millis(value))
    if target == ty.DATE:
        return F.date_from_unix_date(_day_number(F.unix_millis(column)))
    return column.cast(value_spark_type(target))


def _day_number(millis: Column) -> Column:
    """Return the day that contains a time, as days since 1970-01-01; a double holds every time exactly."""
    return F.floor(millis / F.lit(DAY_MILLIS)).cast("int")


def _shift_time(shift: ex.ShiftTime) -> Column:
    duration, largest = DURATIONS[shift.unit], largest_amount(DURATIONS[shift.unit])
    operand, amount = _typed(shift.operand), expression_column(shift.amount)
    units = F.greatest(F.least(amount, F.lit(largest)), F.lit(-largest))
    units = F.negate(units) if shift.sign is Sign.SUB else units
    millis = _millis(operand)
    if duration.months:
        months = (units * F.lit(duration.months)).cast("int")
        day = F.unix_date(F.add_months(F.date_from_unix_date(_day_number(millis)), months)).cast("bigint")
        shifted = day * F.lit(DAY_MILLIS) + F.pmod(millis, F.lit(DAY_MILLIS))
    else:
        shifted = millis + units * F.lit(duration.millis)
    outside = (shifted < F.lit(FIRST_DAY * DAY_MILLIS)) | (shifted >= F.lit((LAST_DAY + 1) * DAY_MILLIS))
    failed = F.raise_error(F.lit(str(encode_error(date_overflow_error())))).cast("bigint")
    is_present = operand[0].isNotNull() & amount.isNotNull()
    checked = F.when(is_present & outside, failed).when(is_present, shifted)
    if shift.type == ty.DATETIME:
        return F.timestamp_millis(checked)
    return F.date_from_unix_date(_day_number(checked))


def _time_difference(left: Typed, right: Typed, result_type: ValueType) -> Column:
    if result_type == ty.I64:
        return F.datediff(left[0], right[0]).cast("bigint")
    return (_millis(left) - _millis(right)).cast("double") / F.lit(1000.0)


def literal_column(literal: ex.Literal) -> Column:
    """Return a literal with exactly its type."""
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
        case EntityListType():
            raise InvariantError("a list of entities has no literal", code="plan_invariant")
        case _:
            assert_never(literal.type)


def compare(operator: ComparisonOperator, left: Typed, right: Typed) -> Column:
    """Return `left operator right`, null where a side is null."""
    (left_column, left_type), (right_column, right_type) = left, right
    kernel = _COMPARISONS[operator]
    if isinstance(left_type, NullType) or isinstance(right_type, NullType):
        return F.lit(None).cast("boolean")
    match ty.family_of(left_type):
        case ty.TypeFamily.TIME if left_type != right_type:
            return kernel(_millis(left), _millis(right))
        case ty.TypeFamily.NUMBER:
            return _compare_numbers(operator, left, right)
        case _:
            return kernel(left_column, right_column)


def compute(sign: Sign, left: Typed, right: Typed, result_type: ValueType) -> Column:
    """Return `left sign right`, as I64 or F64; division by zero is null."""
    (left_column, left_type), (right_column, right_type) = left, right
    if is_float(result_type):
        return _FLOATS[sign](left_column.cast("double"), right_column.cast("double"))
    kind = WIDE if ty.U64 in (left_type, right_type) else "bigint"
    result = _EXACT[sign](left_column.cast(kind), right_column.cast(kind))
    is_beyond = result.isNull() & left_column.isNotNull() & right_column.isNotNull()
    return F.when(is_beyond, _fail()).otherwise(within_i64(result) if kind is WIDE else result)


def negate(operand: Column, result_type: ValueType) -> Column:
    """Return `-operand`."""
    if is_float(result_type):
        return F.negate(operand.cast("double"))
    return within_i64(F.negate(operand.cast(WIDE)))


def within_i64(whole: Column) -> Column:
    """Return a decimal as an I64; one outside the range fails the query."""
    is_beyond = (whole < F.lit(_I64_MIN).cast(WIDE)) | (whole > F.lit(_I64_MAX).cast(WIDE))
    return F.when(is_beyond, _fail()).otherwise(whole.cast("bigint"))


def _condition(expr: ex.Expr) -> Column:
    match expr:
        case ex.Compare(operator, left, right):
            return compare(operator, _typed(left), _typed(right))
        case ex.InList(operand, items):
            return _in_list(operand, items)
        case ex.ListMembership(item, collection):
            return _member(item, collection)
        case ex.Substring(text, part):
            return F.contains(expression_column(text), expression_column(part))
        case ex.Prefix(text, part):
            return F.startswith(expression_column(text), expression_column(part))
        case ex.Like(text, ex.Literal(str(pattern))):
            return F.like(expression_column(text), F.lit(canonical_pattern(pattern)), F.lit("\\"))
        case ex.TextMatch():
            return _text_match(expr)
        case _:
            raise InvariantError(f"unexpected expression on Spark: {type(expr).__name__}", code="plan_invariant")


def _text_match(predicate: ex.TextMatch) -> Column:
    """Return whether each text matches a predicate, by the functions of the engine; null for null."""
    assert isinstance(predicate.query, ex.Literal), "the plan is bound"
    query = str(predicate.query.value)

    def evaluate(texts: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # PySpark reads these types
        return match_texts(DictionaryColumn.of(plain_array(texts)), predicate, query)

    return call_arrow(evaluate, "boolean", predicate.column.name)


def call_arrow(function: Callable[..., Any], result_type: str, *names: str) -> Column:
    """Return a column that executors compute with a function over Arrow arrays of the columns."""
    functions: Any = F  # the type stubs lack `arrow_udf`
    column: Column = functions.arrow_udf(function, result_type)(*map(plan_column, names))
    return column


def _typed(expr: ex.Expr) -> Typed:
    return expression_column(expr), expr.type


def _in_list(operand: ex.Expr, items: tuple[ex.Expr, ...]) -> Column:
    value = expression_column(operand)
    if items and all(item.type == operand.type for item in items):
        return value.isin(*(expression_column(item) for item in items))
    answer = F.when(value.isNotNull(), F.lit(False))
    for item in items:
        answer = answer | compare(ComparisonOperator.EQ, (value, operand.type), _typed(item))
    return answer


def _member(item: ex.Expr, collection: ex.Expr) -> Column:
    value, items = expression_column(item), expression_column(collection)
    member_type: ValueType = item.type
    if isinstance(collection.type, ListType):
        member_type = ScalarType(collection.type.item)
    is_member = F.exists(
        items, lambda member: compare(ComparisonOperator.EQ, (member, member_type), (value, item.type))
    )
    return F.when(value.isNotNull() & items.isNotNull(), F.coalesce(is_member, F.lit(False)))


def _scalar(value: ex.LiteralValue, scalar: Scalar) -> Column:
    target = spark_type(ScalarType(scalar))
    match value:
        case datetime():
            elapsed = value.astimezone(UTC) - _EPOCH
            millis = (elapsed.days * 86_400 + elapsed.seconds) * _MILLISECOND + elapsed.microseconds // 1000
            return F.timestamp_millis(F.lit(millis).cast("bigint"))
        case date():
            return F.date_from_unix_date(F.lit((value - _FIRST_DAY).days))
        case int() | Decimal() if scalar in {Scalar.F32, Scalar.F64}:
            return F.lit(float(value)).cast(target)
        case bool() | str() | float() | Decimal():
            return F.lit(value).cast(target)
        case int():
            # As a decimal, because a number between 2**63 and 2**64 is not a valid literal on Spark.
            return F.lit(Decimal(value)).cast(WIDE).cast(target)
        case _:
            raise InvariantError(f"unexpected literal on Spark: {type(value).__name__}", code="plan_invariant")


def _compare_numbers(operator: ComparisonOperator, left: Typed, right: Typed) -> Column:
    (left_column, left_type), (right_column, right_type) = left, right
    kernel = _COMPARISONS[operator]
    match is_float(left_type), is_float(right_type):
        case True, True:
            return _compare_floats(operator, left_column.cast("double"), right_column.cast("double"))
        case True, False:
            return _compare_with_float(REVERSED.get(operator, operator), right, left_column)
        case False, True:
            return _compare_with_float(operator, left, right_column)
        case _:
            kind = WIDE if ty.U64 in (left_type, right_type) else "bigint"
            return kernel(left_column.cast(kind), right_column.cast(kind))


def _compare_floats(operator: ComparisonOperator, left: Column, right: Column) -> Column:
    """Compare floats. Spark treats NaN as the largest number and as equal to itself, so it needs a case of its own."""
    answer = F.lit(operator is ComparisonOperator.NE)
    plain = _COMPARISONS[operator](left, right)
    return F.when(plain.isNotNull() & (F.isnan(left) | F.isnan(right)), answer).otherwise(plain)


def _compare_with_float(operator: ComparisonOperator, whole: Typed, real: Column) -> Column:
    """Compare an integer with a float: as floats if that rounds no integer, otherwise by the sign."""
    column, value_type = whole
    number = real.cast("double")
    if isinstance(value_type, ScalarType) and value_type.scalar in _NARROW:
        return _compare_floats(operator, column.cast("double"), number)
    # Spark's floor is a long, and fails for values that do not fit.
    low = F.floor(F.when((number >= F.lit(-_TWO_63)) & (number < F.lit(_TWO_63)), number))
    is_large = number >= F.lit(_TWO_63)
    near = low.cast(WIDE)
    if value_type == ty.U64:
        # In two halves, because Spark converts a float to a decimal by its printed digits.
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
    plain = _COMPARISONS[operator](sign, F.lit(0))
    return F.when(plain.isNotNull() & F.isnan(number), F.lit(operator is ComparisonOperator.NE)).otherwise(plain)


def _millis(value: Typed) -> Column:
    column, value_type = value
    if value_type == ty.DATETIME:
        return F.unix_millis(column)
    return F.unix_date(column).cast("bigint") * F.lit(DAY_MILLIS).cast("bigint")


def _fail() -> Column:
    return F.raise_error(F.lit(str(encode_error(overflow_error())))).cast("bigint")
