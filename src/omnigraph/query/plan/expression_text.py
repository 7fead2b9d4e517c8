"""Typed expressions as text, for explain and for golden files: like the query language, with entity columns bare."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Final, assert_never

from omnigraph.query.plan.expressions import (
    AggregateCall,
    And,
    Bm25,
    ColumnRef,
    Compare,
    Computed,
    EntityRef,
    Expr,
    InList,
    IsNull,
    Known,
    ListMembership,
    ListOf,
    Literal,
    LiteralValue,
    Nearest,
    Negated,
    Not,
    Now,
    Or,
    OutputRef,
    Param,
    Prefix,
    Rrf,
    Score,
    Substring,
    TextMatch,
    TextMode,
)
from omnigraph.query.plan.types import BOOL, F64, I64, NULL, ValueType, value_type_text
from omnigraph.schema.values import value_text

_PLAIN: Final = frozenset({BOOL, I64, F64, NULL})
_ITEMS_MAX: Final = 8
_TEXT_MAX: Final = 60


def expression_text(expr: Expr) -> str:
    """The expression in one line; long lists and strings are shortened."""
    match expr:
        case Literal(value, value_type):
            return literal_text(value, value_type)
        case Param(name):
            return f"${name}"
        case Now():
            return "now()"
        case ColumnRef() | OutputRef():
            return expr.name
        case EntityRef(entity):
            return entity
        case Negated(operand):
            return f"-{_inner(operand)}"
        case Computed(sign, left, right):
            return f"{_inner(left)} {sign.value} {_inner(right)}"
        case ListOf(items):
            return _items(items)
        case AggregateCall(function, argument, distinct):
            return f"{function.value}({'distinct ' if distinct else ''}{expression_text(argument)})"
        case Nearest() | Bm25() | Rrf():
            return _score(expr)
        case _:
            return _condition(expr)


def conjunction_text(conditions: tuple[Expr, ...]) -> str:
    """Conditions that must all hold."""
    if len(conditions) == 1:
        return expression_text(conditions[0])
    return " and ".join(_inner(condition) for condition in conditions)


def literal_text(value: LiteralValue, value_type: ValueType) -> str:
    """A value as the query language writes it, with its type where that is not plain."""
    match value:
        case None:
            return "null"
        case str():
            text = json.dumps(value[:_TEXT_MAX], ensure_ascii=False)
            return text if len(value) <= _TEXT_MAX else f"{text}…"
        case bytes():
            return f"{len(value)} bytes"
        case tuple():
            shown = [literal_text(item, NULL) for item in value[:_ITEMS_MAX]]
            return f"[{', '.join(shown)}{', …' if len(value) > _ITEMS_MAX else ''}]"
        case Decimal():
            return str(value)
        case bool() | int() | float() | datetime() | date():
            text = value_text(value, value_type)  # type: ignore[arg-type]  # only floats look at the type
            return text if value_type in _PLAIN else f"{text}:{value_type_text(value_type)}"


def _condition(expr: Expr) -> str:
    match expr:
        case Compare(operator, left, right):
            return f"{_inner(left)} {operator.value} {_inner(right)}"
        case InList(operand, items):
            return f"{_inner(operand)} in {_items(items)}"
        case ListMembership(item, collection):
            return f"{_inner(item)} in {_inner(collection)}"
        case Substring(text, part):
            return f"{_inner(text)} contains {_inner(part)}"
        case Prefix(text, part):
            return f"{_inner(text)} starts_with {_inner(part)}"
        case IsNull(operand, negated):
            return f"{_inner(operand)} is {'not ' if negated else ''}null"
        case And(operands):
            return " and ".join(_inner(operand) for operand in operands)
        case Or(operands):
            return " or ".join(_inner(operand) for operand in operands)
        case Not(operand):
            return f"not {_inner(operand)}"
        case Known(value, operand):
            return f"{'true' if value else 'false'} unless {_inner(operand)} is null"
        case TextMatch(mode, column, query, edits):
            more = f", edits={edits}" if mode is TextMode.FUZZY else ""
            return f"{mode.value}({column.name}, {expression_text(query)}{more})"
        case _:
            raise AssertionError("every other expression is no condition")


def _items(items: tuple[Expr, ...]) -> str:
    shown = [expression_text(item) for item in items[:_ITEMS_MAX]]
    return f"[{', '.join(shown)}{', …' if len(items) > _ITEMS_MAX else ''}]"


def _score(score: Score) -> str:
    match score:
        case Nearest(column, query, embed):
            text = expression_text(query)
            return f"nearest({column.name}, {f'embed({text})' if embed else text})"
        case Bm25(column, query):
            return f"bm25({column.name}, {expression_text(query)})"
        case Rrf(first, second, k):
            return f"rrf({_score(first)}, {_score(second)}, k={k})"
        case _:
            assert_never(score)


def _inner(expr: Expr) -> str:
    """In parentheses where the text could be read another way."""
    plain = isinstance(
        expr, Literal | Param | Now | ColumnRef | OutputRef | EntityRef | AggregateCall | TextMatch
    )
    text = expression_text(expr)
    return text if plain or isinstance(expr, Score) else f"({text})"
