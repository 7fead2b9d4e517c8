"""Gives every literal of a comparison the exact type of the other side, or decides the comparison.

After this rule a column is compared only with values of its own type, reversed operands are turned round, and a
comparison that cannot depend on the value is a `Known`. Conditions of filters are brought into a form without `not`
above `and`, `or` and comparisons, where a Bool column is compared with `true` or `false`; there `Known` becomes a null
test or an answer, because a filter does not tell false from null. A filter is never dropped unless it is always true.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from typing import Final

from omnigraph.query.plan.expression_walk import rewritten
from omnigraph.query.plan.expressions import (
    FALSE,
    TRUE,
    And,
    ColumnRef,
    Compare,
    Expr,
    InList,
    IsNull,
    Known,
    ListMembership,
    Literal,
    LiteralValue,
    Not,
    Now,
    Or,
    Param,
    Prefix,
    Substring,
)
from omnigraph.query.plan.operators import EdgeExpand, EdgeScan, FilterRows, Lookup, Pattern, Scan
from omnigraph.query.plan.statements import Relation
from omnigraph.query.plan.types import BOOL, EntityValueType, NullType, PlanFacts
from omnigraph.query.plan.walk import rewritten_plan, with_expressions
from omnigraph.query.syntax import ComparisonOperator
from omnigraph.query.values import REVERSED, fit, midnight
from omnigraph.schema.property_types import ListType, PropertyType, ScalarType

_OPPOSITE: Final = {
    ComparisonOperator.EQ: ComparisonOperator.NE,
    ComparisonOperator.NE: ComparisonOperator.EQ,
    ComparisonOperator.LT: ComparisonOperator.GE,
    ComparisonOperator.GE: ComparisonOperator.LT,
    ComparisonOperator.GT: ComparisonOperator.LE,
    ComparisonOperator.LE: ComparisonOperator.GT,
}


def coerce_literals(root: Relation, facts: PlanFacts) -> Relation:  # noqa: ARG001 - every rule takes the facts
    """The rule."""
    return rewritten_plan(root, _rewrite)


def coerced(expr: Expr) -> Expr:
    """An expression whose comparisons have literals of the right types."""
    return rewritten(expr, _coerced)


def as_filter(expr: Expr) -> Expr:
    """A coerced condition in the form that filters have; `FALSE` also where it could only be null."""
    return _filtered(expr, negated=False)


def _rewrite(relation: Relation) -> Relation:
    match relation:
        case FilterRows(below, conditions):
            remaining = _conjuncts(conditions)
            return FilterRows(below, remaining) if remaining else below
        case Pattern(filters=filters):
            return replace(relation, filters=_conjuncts(filters))
        case Scan() | EdgeScan() | EdgeExpand() | Lookup():
            return with_expressions(relation, lambda expr: as_filter(coerced(expr)))
        case _:
            return with_expressions(relation, coerced)


def _conjuncts(conditions: tuple[Expr, ...]) -> tuple[Expr, ...]:
    conjuncts = dict.fromkeys(as_filter(coerced(condition)) for condition in conditions)
    return (FALSE,) if FALSE in conjuncts else tuple(conjunct for conjunct in conjuncts if conjunct != TRUE)


def _coerced(expr: Expr) -> Expr:
    match expr:
        case Compare(operator, Literal() as left, right) if not isinstance(right, Literal):
            return _comparison(REVERSED.get(operator, operator), right, left)
        case Compare(operator, Param() | Now() as left, right) if not isinstance(
            right, Literal | Param | Now
        ):
            return Compare(REVERSED.get(operator, operator), right, left)
        case Compare(operator, left, Literal() as right):
            return _comparison(operator, left, right)
        case InList(operand, items):
            return _in_list(operand, items)
        case ListMembership(item, Literal() as collection):
            return _in_literal(item, collection)
        case ListMembership(Literal() as item, collection):
            return _member(item, collection)
        case Substring(text, part) | Prefix(text, part):
            is_null = any(isinstance(side, Literal) and side.value is None for side in (text, part))
            return Literal(None, BOOL) if is_null else expr
        case _:
            return expr


def _comparison(operator: ComparisonOperator, left: Expr, literal: Literal) -> Expr:
    if literal.value is None or (isinstance(left, Literal) and left.value is None):
        return Literal(None, BOOL)
    if isinstance(left, Literal):
        return Literal(_answer(operator, left.value, literal.value), BOOL)
    column_type = left.type
    if isinstance(column_type, EntityValueType | NullType):
        return Compare(operator, left, literal)
    fitted = fit(operator, literal.value, column_type)
    if isinstance(fitted, bool):
        return Known(fitted, left)
    return Compare(fitted.operator, left, Literal(fitted.value, column_type))


def _answer(operator: ComparisonOperator, left: LiteralValue, right: LiteralValue) -> bool:
    """Two literals, of types that can be compared."""
    left, right = _moment(left), _moment(right)
    is_equal = left == right
    if operator in {ComparisonOperator.EQ, ComparisonOperator.NE}:
        return is_equal is (operator is ComparisonOperator.EQ)
    is_less = bool(left < right)  # type: ignore[operator]
    match operator:
        case ComparisonOperator.LT:
            return is_less
        case ComparisonOperator.LE:
            return is_less or is_equal
        case ComparisonOperator.GT:
            return not is_less and not is_equal
        case _:
            return not is_less


def _moment(value: LiteralValue) -> LiteralValue:
    """Python compares no date with a datetime."""
    return midnight(value) if isinstance(value, date) and not isinstance(value, datetime) else value


def _in_list(operand: Expr, items: tuple[Expr, ...]) -> Expr:
    operand_type = operand.type
    if isinstance(operand_type, EntityValueType | NullType):
        return Literal(None, BOOL) if isinstance(operand_type, NullType) else InList(operand, items)
    fitted_items: dict[Expr, None] = {}
    for item in items:
        fitted = _fitted_item(item, operand_type)
        if fitted is not None:
            fitted_items[fitted] = None
    return InList(operand, tuple(fitted_items)) if fitted_items else Known(False, operand)


def _fitted_item(item: Expr, column_type: PropertyType) -> Expr | None:
    if not isinstance(item, Literal):
        return item
    fitted = fit(ComparisonOperator.EQ, item.value, column_type)
    return None if isinstance(fitted, bool) else Literal(fitted.value, column_type)


def _in_literal(item: Expr, collection: Literal) -> Expr:
    """A list that a parameter gave is a list as good as any."""
    if not isinstance(collection.value, tuple) or not isinstance(collection.type, ListType):
        return Literal(None, BOOL)
    item_type = ScalarType(collection.type.item)
    return _in_list(item, tuple(Literal(value, item_type) for value in collection.value))


def _member(item: Literal, collection: Expr) -> Expr:
    if item.value is None:
        return Literal(None, BOOL)
    assert isinstance(collection.type, ListType)
    fitted = _fitted_item(item, ScalarType(collection.type.item))
    return Known(False, collection) if fitted is None else ListMembership(fitted, collection)


def _filtered(expr: Expr, *, negated: bool) -> Expr:
    match expr:
        case Not(operand):
            return _filtered(operand, negated=not negated)
        case And(operands) | Or(operands):
            return _joined(operands, is_and=isinstance(expr, And) is not negated, negated=negated)
        case Compare(operator, left, right):
            return Compare(_OPPOSITE[operator], left, right) if negated else expr
        case IsNull(operand, is_not):
            return _null_test(operand, is_not is not negated)
        case Known(value, operand):
            return _null_test(operand, negated=True) if value is not negated else FALSE
        case ColumnRef():
            return Compare(ComparisonOperator.EQ, expr, FALSE if negated else TRUE)
        case Literal(None):
            return FALSE
        case Literal(bool() as value):
            return TRUE if value is not negated else FALSE
        case _:
            return Not(expr) if negated else expr


def _null_test(operand: Expr, negated: bool) -> Expr:
    if operand.nullable:
        return IsNull(operand, negated)
    return TRUE if negated else FALSE


def _joined(operands: tuple[Expr, ...], *, is_and: bool, negated: bool) -> Expr:
    """The operands flat and once each; an operand that decides the whole does so."""
    kind = And if is_and else Or
    neutral, deciding = (TRUE, FALSE) if is_and else (FALSE, TRUE)
    distinct: dict[Expr, None] = {}
    for operand in operands:
        filtered = _filtered(operand, negated=negated)
        parts = filtered.operands if isinstance(filtered, kind) else (filtered,)
        distinct.update(dict.fromkeys(parts))
    if deciding in distinct:
        return deciding
    rest = tuple(part for part in distinct if part != neutral)
    if not rest:
        return neutral
    return rest[0] if len(rest) == 1 else kind(rest)
