"""Typed expressions as columns of Spark: one function per kind of node, and what each of them means.

In: an expression whose parameters are bound. Out: a column of the Spark type that goes with the expression's type.
Logic is three-valued, as Spark's own is. Nothing here runs.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from omnigraph.base.errors import InvariantError
from omnigraph.pipeline.query_numbers import Typed, compared, computed, negated
from omnigraph.pipeline.query_values import literal_column, plan_column
from omnigraph.query.expressions import (
    And,
    ColumnRef,
    Compare,
    Computed,
    EntityRef,
    Expr,
    InList,
    IsNull,
    Known,
    Literal,
    Member,
    Negated,
    Not,
    Or,
    OutputRef,
    Prefix,
    Substring,
)
from omnigraph.query.syntax import Operator
from omnigraph.query.value_types import ValueType
from omnigraph.schema.property_types import ListType, ScalarType


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
            return reduce(lambda one, other: one & other, map(expression_column, operands))
        case Or(operands):
            return reduce(lambda one, other: one | other, map(expression_column, operands))
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
        case Member(item, collection):
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
        answer = answer | compared(Operator.EQ, (asked, operand.type), _typed(item))
    return answer


def _member(item: Expr, collection: Expr) -> Column:
    asked, listed = expression_column(item), expression_column(collection)
    member_type: ValueType = item.type
    if isinstance(collection.type, ListType):
        member_type = ScalarType(collection.type.item)
    found = F.exists(listed, lambda member: compared(Operator.EQ, (member, member_type), (asked, item.type)))
    return F.when(asked.isNotNull() & listed.isNotNull(), F.coalesce(found, F.lit(False)))
