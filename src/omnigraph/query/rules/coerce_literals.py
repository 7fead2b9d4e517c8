"""Rule: give every literal of a comparison the type of the other side, or replace the comparison with its result.

Afterwards a column is compared only with values of its own type, a literal is always on the right side, and a
comparison with the same result for every value is a `ConstantUnlessNull`. In filters, `not` is moved inside `and`, `or`
and comparisons, a Bool column is compared with `true` or `false`, and a `ConstantUnlessNull` becomes a null test or a
constant, since a filter treats null as false. A filter is removed only if it is always true.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final

from msgspec.structs import replace

from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import transform
from omnigraph.query.plan.like import Wildcard, split_pattern
from omnigraph.query.plan.types import BOOL, STRING, EntityListType, EntityValueType, NullType, PlanFacts
from omnigraph.query.plan.walk import transform_plan, with_expressions
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
_PYTHON_OPERATORS: Final[dict[ComparisonOperator, Callable[[Any, Any], Any]]] = {
    ComparisonOperator.EQ: operators.eq,
    ComparisonOperator.NE: operators.ne,
    ComparisonOperator.LT: operators.lt,
    ComparisonOperator.LE: operators.le,
    ComparisonOperator.GT: operators.gt,
    ComparisonOperator.GE: operators.ge,
}


def coerce_literals(root: op.Relation, facts: PlanFacts) -> op.Relation:  # noqa: ARG001 - every rule takes the facts
    """Give every literal the type of its column, and simplify the conditions."""
    return transform_plan(root, _coerce_step)


def coerce_expression(expr: ex.Expr) -> ex.Expr:
    """Return an expression whose comparisons have literals of the right types."""
    return transform(expr, _coerce_node)


def as_filter(expr: ex.Expr) -> ex.Expr:
    """Return a coerced condition in the form of filters; one that is false or null is `FALSE`."""
    return _normalize(expr, negated=False)


def _coerce_step(relation: op.Relation) -> op.Relation:
    match relation:
        case op.FilterRows(input_step, conditions):
            remaining = _coerce_conjuncts(conditions)
            return op.FilterRows(input_step, remaining) if remaining else input_step
        case op.Pattern(filters=filters):
            return replace(relation, filters=_coerce_conjuncts(filters))
        case op.Scan() | op.EdgeScan() | op.EdgeExpand() | op.Lookup():
            return with_expressions(relation, lambda expr: as_filter(coerce_expression(expr)))
        case _:
            return with_expressions(relation, coerce_expression)


def _coerce_conjuncts(conditions: tuple[ex.Expr, ...]) -> tuple[ex.Expr, ...]:
    conjuncts = dict.fromkeys(as_filter(coerce_expression(condition)) for condition in conditions)
    return (ex.FALSE,) if ex.FALSE in conjuncts else tuple(conjunct for conjunct in conjuncts if conjunct != ex.TRUE)


def _coerce_node(expr: ex.Expr) -> ex.Expr:
    match expr:
        case ex.Compare(operator, ex.Literal() as left, right) if not isinstance(right, ex.Literal):
            return _coerce_comparison(REVERSED.get(operator, operator), right, left)
        case ex.Compare(operator, ex.Param() | ex.Now() as left, right) if not isinstance(
            right, ex.Literal | ex.Param | ex.Now
        ):
            return ex.Compare(REVERSED.get(operator, operator), right, left)
        case ex.Compare(operator, left, ex.Literal() as right):
            return _coerce_comparison(operator, left, right)
        case ex.InList(operand, items):
            return _coerce_in_list(operand, items)
        case ex.ListMembership(item, ex.Literal() as collection):
            return _coerce_in_literal(item, collection)
        case ex.ListMembership(ex.Literal() as item, collection):
            return _coerce_member(item, collection)
        case ex.Substring(text, part) | ex.Prefix(text, part) | ex.Like(text, part):
            is_null = any(isinstance(side, ex.Literal) and side.value is None for side in (text, part))
            return ex.Literal(None, BOOL) if is_null else _simplify_pattern(expr)
        case _:
            return expr


def _simplify_pattern(expr: ex.Substring | ex.Prefix | ex.Like) -> ex.Expr:
    """Return an equality, a prefix or a substring for a pattern that is one, since the storage can use an index."""
    if not isinstance(expr, ex.Like) or not isinstance(expr.pattern, ex.Literal):
        return expr
    parts = split_pattern(str(expr.pattern.value))
    match parts:
        case [] | [str()]:
            text = str(parts[0]) if parts else ""
            return _coerce_comparison(ComparisonOperator.EQ, expr.text, ex.Literal(text, expr.pattern.type))
        case [str(text), Wildcard.MANY]:
            return ex.Prefix(expr.text, ex.Literal(text, STRING))
        case [Wildcard.MANY, str(text), Wildcard.MANY]:
            return ex.Substring(expr.text, ex.Literal(text, STRING))
        case [Wildcard.MANY]:
            return ex.ConstantUnlessNull(True, expr.text)
        case _:
            return expr


def _coerce_comparison(operator: ComparisonOperator, left: ex.Expr, literal: ex.Literal) -> ex.Expr:
    if literal.value is None or (isinstance(left, ex.Literal) and left.value is None):
        return ex.Literal(None, BOOL)
    if isinstance(left, ex.Literal):
        return ex.Literal(_compare_literals(operator, left.value, literal.value), BOOL)
    column_type = left.type
    if isinstance(column_type, EntityValueType | EntityListType | NullType):
        return ex.Compare(operator, left, literal)
    fitted = fit(operator, literal.value, column_type)
    if isinstance(fitted, bool):
        return ex.ConstantUnlessNull(fitted, left)
    return ex.Compare(fitted.operator, left, ex.Literal(fitted.value, column_type))


def _compare_literals(operator: ComparisonOperator, left: ex.LiteralValue, right: ex.LiteralValue) -> bool:
    """Compare two literals of comparable types."""
    return bool(_PYTHON_OPERATORS[operator](_as_datetime(left), _as_datetime(right)))


def _as_datetime(value: ex.LiteralValue) -> ex.LiteralValue:
    """Return a date as a datetime, since Python cannot compare the two."""
    return midnight(value) if isinstance(value, date) and not isinstance(value, datetime) else value


def _coerce_in_list(operand: ex.Expr, items: tuple[ex.Expr, ...]) -> ex.Expr:
    operand_type = operand.type
    if isinstance(operand_type, EntityValueType | EntityListType | NullType):
        return ex.Literal(None, BOOL) if isinstance(operand_type, NullType) else ex.InList(operand, items)
    fitted_items: dict[ex.Expr, None] = {}
    for item in items:
        fitted = _coerce_item(item, operand_type)
        if fitted is not None:
            fitted_items[fitted] = None
    return ex.InList(operand, tuple(fitted_items)) if fitted_items else ex.ConstantUnlessNull(False, operand)


def _coerce_item(item: ex.Expr, column_type: PropertyType) -> ex.Expr | None:
    if not isinstance(item, ex.Literal):
        return item
    fitted = fit(ComparisonOperator.EQ, item.value, column_type)
    return None if isinstance(fitted, bool) else ex.Literal(fitted.value, column_type)


def _coerce_in_literal(item: ex.Expr, collection: ex.Literal) -> ex.Expr:
    """Rewrite membership in the list of a parameter like a list of literals."""
    if not isinstance(collection.value, tuple) or not isinstance(collection.type, ListType):
        return ex.Literal(None, BOOL)
    item_type = ScalarType(collection.type.item)
    return _coerce_in_list(item, tuple(ex.Literal(value, item_type) for value in collection.value))


def _coerce_member(item: ex.Literal, collection: ex.Expr) -> ex.Expr:
    if item.value is None:
        return ex.Literal(None, BOOL)
    assert isinstance(collection.type, ListType)
    fitted = _coerce_item(item, ScalarType(collection.type.item))
    return ex.ConstantUnlessNull(False, collection) if fitted is None else ex.ListMembership(fitted, collection)


def _normalize(expr: ex.Expr, *, negated: bool) -> ex.Expr:
    match expr:
        case ex.Not(operand):
            return _normalize(operand, negated=not negated)
        case ex.And(operands) | ex.Or(operands):
            return _join(operands, is_and=isinstance(expr, ex.And) is not negated, negated=negated)
        case ex.Compare(operator, left, right):
            return ex.Compare(_OPPOSITE[operator], left, right) if negated else expr
        case ex.IsNull(operand, is_not):
            return _null_test(operand, is_not is not negated)
        case ex.ConstantUnlessNull(value, operand):
            return _null_test(operand, negated=True) if value is not negated else ex.FALSE
        case ex.ColumnRef():
            return ex.Compare(ComparisonOperator.EQ, expr, ex.FALSE if negated else ex.TRUE)
        case ex.Literal(None):
            return ex.FALSE
        case ex.Literal(bool() as value):
            return ex.TRUE if value is not negated else ex.FALSE
        case _:
            return ex.Not(expr) if negated else expr


def _null_test(operand: ex.Expr, negated: bool) -> ex.Expr:
    if operand.nullable:
        return ex.IsNull(operand, negated)
    return ex.TRUE if negated else ex.FALSE


def _join(operands: tuple[ex.Expr, ...], *, is_and: bool, negated: bool) -> ex.Expr:
    """Join distinct operands; an operand that decides the result replaces the whole."""
    kind = ex.And if is_and else ex.Or
    neutral, deciding = (ex.TRUE, ex.FALSE) if is_and else (ex.FALSE, ex.TRUE)
    distinct: dict[ex.Expr, None] = {}
    for operand in operands:
        filtered = _normalize(operand, negated=negated)
        parts = filtered.operands if isinstance(filtered, kind) else (filtered,)
        distinct.update(dict.fromkeys(parts))
    if deciding in distinct:
        return deciding
    rest = tuple(part for part in distinct if part != neutral)
    if not rest:
        return neutral
    return rest[0] if len(rest) == 1 else kind(rest)
