"""Comparisons: whether the two sides go together, and which typed condition they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from omnigraph.query.checks.context import Env
from omnigraph.query.checks.literals import is_literal
from omnigraph.query.codes import QueryCode
from omnigraph.query.expressions import (
    Compare,
    EntityRef,
    Expr,
    InList,
    Literal,
    Member,
    Prefix,
    Substring,
)
from omnigraph.query.syntax import Comparison, Expression, ListLiteral, Operator
from omnigraph.query.value_types import (
    EntityType,
    Family,
    ValueType,
    are_comparable,
    family_of,
    has_order,
    is_text,
    value_type_text,
)
from omnigraph.schema.property_types import ListType, ScalarType

Check = Callable[[Expression, Env, ValueType | None], Expr | None]

_ORDERED: Final = frozenset({Operator.LT, Operator.LE, Operator.GT, Operator.GE})


def check_comparison(comparison: Comparison, env: Env, check: Check) -> Expr | None:
    """The typed condition, or None after a problem."""
    match comparison.operator:
        case Operator.IN:
            return _in(comparison, env, check)
        case Operator.CONTAINS:
            return _contains(comparison, env, check)
        case Operator.STARTS_WITH:
            return _starts_with(comparison, env, check)
        case _:
            return _compare(comparison, env, check)


def report_incomparable(left: ValueType, right: ValueType, comparison: Comparison, env: Env) -> None:
    """Two types that no comparison goes between."""
    message = f"{value_type_text(left)} and {value_type_text(right)} cannot be compared"
    families = {family_of(left), family_of(right)}
    hint = ""
    if families == {Family.ENTITY}:
        hint = "only entities of one type can be equal"
    elif Family.ENTITY in families:
        hint = "name the property: `$x.prop`"
    elif Family.LIST in families:
        hint = "write `$x.list contains item`"
    elif families == {Family.TEXT, Family.NUMBER}:
        hint = "a number stands without quotes, a text with them"
    env.report(QueryCode.COMPARISON, comparison.span, message, hint)


def _pair(comparison: Comparison, env: Env, check: Check) -> tuple[Expr, Expr] | None:
    """Both sides, a literal with the type of the other side."""
    if is_literal(comparison.left) and not is_literal(comparison.right):
        right = check(comparison.right, env, None)
        left = check(comparison.left, env, right.type if right else None)
    else:
        left = check(comparison.left, env, None)
        right = check(comparison.right, env, left.type if left else None)
    return None if left is None or right is None else (left, right)


def _compare(comparison: Comparison, env: Env, check: Check) -> Expr | None:
    pair = _pair(comparison, env, check)
    if pair is None:
        return None
    left, right = pair
    if not are_comparable(left.type, right.type):
        report_incomparable(left.type, right.type, comparison, env)
        return None
    if comparison.operator in _ORDERED:
        for side in pair:
            if not has_order(side.type):
                message = f"{value_type_text(side.type)} has no order"
                hint = "compare it with `=` or `!=`"
                env.report(QueryCode.NO_ORDER, comparison.span, message, hint)
                return None
    return Compare(comparison.operator, _by_id(left), _by_id(right))


def _by_id(side: Expr) -> Expr:
    """An entity is compared by its id."""
    return side.id if isinstance(side, EntityRef) else side


def _in(comparison: Comparison, env: Env, check: Check) -> Expr | None:
    left = _value(comparison.left, env, check, comparison)
    right = comparison.right
    if isinstance(right, ListLiteral):
        return None if left is None else _in_list(left, right, comparison, env, check)
    collection = check(right, env, None)
    if left is None or collection is None:
        return None
    if not isinstance(collection.type, ListType):
        shown = value_type_text(collection.type)
        hint = "write a list, `in [1, 2]`, or give a parameter of a list type, `$p: [I64]`"
        env.report(QueryCode.IN_LIST, comparison.span, f"`in` needs a list, and this is {shown}", hint)
        return None
    return _member(left, collection, comparison, env)


def _in_list(left: Expr, items: ListLiteral, comparison: Comparison, env: Env, check: Check) -> Expr | None:
    checked: list[Expr] = []
    for item in items.items:
        found = check(item, env, left.type)
        if found is None:
            continue
        if isinstance(found, Literal) and found.value is None:
            hint = "a comparison with null is never true; write `is null`"
            env.report(QueryCode.NULL_IN_LIST, item.span, "a list has no null items", hint)
        elif not are_comparable(left.type, found.type):
            report_incomparable(left.type, found.type, comparison, env)
        else:
            checked.append(found)
    return InList(left, tuple(checked)) if len(checked) == len(items.items) else None


def _contains(comparison: Comparison, env: Env, check: Check) -> Expr | None:
    left = check(comparison.left, env, None)
    item_type = ScalarType(left.type.item) if left and isinstance(left.type, ListType) else None
    right = check(comparison.right, env, item_type)
    if left is None or right is None:
        return None
    if isinstance(left.type, ListType):
        return _member(right, left, comparison, env)
    if is_text(left.type) and is_text(right.type):
        return Substring(left, right)
    message = f"`contains` is between a list and an item, or two strings, not {_both(left, right)}"
    env.report(QueryCode.CONTAINS, comparison.span, message)
    return None


def _member(item: Expr, collection: Expr, comparison: Comparison, env: Env) -> Expr | None:
    assert isinstance(collection.type, ListType)
    item_type = ScalarType(collection.type.item)
    if not are_comparable(item.type, item_type):
        code = QueryCode.CONTAINS if comparison.operator is Operator.CONTAINS else QueryCode.COMPARISON
        message = f"the items are {value_type_text(item_type)}, and this is {value_type_text(item.type)}"
        env.report(code, comparison.span, message)
        return None
    return Member(item, collection)


def _starts_with(comparison: Comparison, env: Env, check: Check) -> Expr | None:
    left, right = check(comparison.left, env, None), check(comparison.right, env, None)
    if left is None or right is None:
        return None
    if not (is_text(left.type) and is_text(right.type)):
        message = f"`starts_with` is between two strings, not {_both(left, right)}"
        env.report(QueryCode.STARTS_WITH, comparison.span, message)
        return None
    return Prefix(left, right)


def _value(expression: Expression, env: Env, check: Check, comparison: Comparison) -> Expr | None:
    checked = check(expression, env, None)
    if checked is not None and isinstance(checked.type, EntityType):
        hint = "name the property: `$x.prop`"
        env.report(QueryCode.ENTITY_VALUE, comparison.span, "a whole entity is not a value", hint)
        return None
    return checked


def _both(left: Expr, right: Expr) -> str:
    return f"{value_type_text(left.type)} and {value_type_text(right.type)}"
