"""Renders typed expressions for explain, like the query language but with `entity.column` for columns."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Final, assert_never

from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan.types import BOOL, F64, I64, NULL, ValueType, value_type_text
from omnigraph.schema.values import value_text

_PLAIN: Final = frozenset({BOOL, I64, F64, NULL})
_ITEMS_MAX: Final = 8
_TEXT_MAX: Final = 60


def expression_text(expr: ex.Expr) -> str:  # noqa: PLR0912 - one case per node
    """Return an expression in one line; long lists and strings are truncated."""
    match expr:
        case ex.Literal(value, value_type):
            return literal_text(value, value_type)
        case ex.Param(name):
            return f"${name}"
        case ex.Now():
            return "now()"
        case ex.ColumnRef() | ex.OutputRef():
            return expr.name
        case ex.EntityRef(entity):
            return entity
        case ex.Negation(operand):
            return f"-{_operand_text(operand)}"
        case ex.BinaryOperation(sign, left, right):
            return f"{_operand_text(left)} {sign.value} {_operand_text(right)}"
        case ex.FunctionCall(name, arguments):
            return f"{name}({', '.join(map(expression_text, arguments))})"
        case ex.Convert(operand):
            return expression_text(operand)
        case ex.Coalesce(operands):
            return f"coalesce({', '.join(map(expression_text, operands))})"
        case ex.Conditional():
            return _case_text(expr)
        case ex.ShiftTime(operand, sign, amount, unit):
            return f"{_operand_text(operand)} {sign.value} {unit}({expression_text(amount)})"
        case ex.TimeDifference(left, right):
            return f"{_operand_text(left)} - {_operand_text(right)}"
        case ex.ListOf(items):
            return _items_text(items)
        case ex.AggregateCall(ex.Function.COUNT, ex.EVERY_ROW):
            return "count(*)"
        case ex.AggregateCall(function, argument, distinct):
            return f"{function.value}({'distinct ' if distinct else ''}{expression_text(argument)})"
        case ex.Nearest(column, query, embed):
            query_text = f"embed({expression_text(query)})" if embed else expression_text(query)
            return f"nearest({column.name}, {query_text}{_exact_text(expr.exact)})"
        case ex.Bm25(column, query):
            return f"bm25({column.name}, {expression_text(query)}{_exact_text(expr.exact)})"
        case ex.Rrf(first, second, k):
            return f"rrf({expression_text(first)}, {expression_text(second)}, k={k})"
        case ex.Compare(operator, left, right):
            return f"{_operand_text(left)} {operator.value} {_operand_text(right)}"
        case ex.InList(operand, items):
            return f"{_operand_text(operand)} in {_items_text(items)}"
        case ex.ListMembership(item, collection):
            return f"{_operand_text(item)} in {_operand_text(collection)}"
        case ex.Substring(text, part):
            return f"{_operand_text(text)} contains {_operand_text(part)}"
        case ex.Prefix(text, part):
            return f"{_operand_text(text)} starts_with {_operand_text(part)}"
        case ex.Like(text, pattern):
            return f"{_operand_text(text)} like {_operand_text(pattern)}"
        case ex.IsNull(operand, negated):
            return f"{_operand_text(operand)} is {'not ' if negated else ''}null"
        case ex.And(operands):
            return " and ".join(_operand_text(operand) for operand in operands)
        case ex.Or(operands):
            return " or ".join(_operand_text(operand) for operand in operands)
        case ex.Not(operand):
            return f"not {_operand_text(operand)}"
        case ex.ConstantUnlessNull(value, operand):
            return f"{'true' if value else 'false'} unless {_operand_text(operand)} is null"
        case ex.TextMatch(mode, column, query, edits):
            more = f", edits={edits}" if mode is ex.TextMode.FUZZY else ""
            return f"{mode.value}({column.name}, {expression_text(query)}{more})"
        case _:
            assert_never(expr)


def _case_text(case: ex.Conditional) -> str:
    branches = (
        f"when {expression_text(condition)} then {expression_text(value)}"
        for condition, value in zip(case.conditions, case.values, strict=True)
    )
    return f"case {' '.join(branches)} else {expression_text(case.otherwise)} end"


def conjunction_text(conditions: tuple[ex.Expr, ...]) -> str:
    """Return conditions joined with `and`."""
    if len(conditions) == 1:
        return expression_text(conditions[0])
    return " and ".join(_operand_text(condition) for condition in conditions)


def literal_text(value: ex.LiteralValue, value_type: ValueType) -> str:
    """Return a value in the syntax of the query language, with its type unless the syntax implies it."""
    match value:
        case None:
            return "null"
        case str():
            text = json.dumps(value[:_TEXT_MAX], ensure_ascii=False)
            return text if len(value) <= _TEXT_MAX else f"{text}…"
        case bytes():
            return f"{len(value)} bytes"
        case tuple():
            # With the type NULL, items are printed without a type.
            shown = [literal_text(item, NULL) for item in value[:_ITEMS_MAX]]
            return f"[{', '.join(shown)}{', …' if len(value) > _ITEMS_MAX else ''}]"
        case Decimal():
            return str(value)
        case bool() | int() | float() | datetime() | date():
            text = value_text(value, value_type)  # type: ignore[arg-type]  # only floats use the type
            return text if value_type in _PLAIN else f"{text}:{value_type_text(value_type)}"


def _items_text(items: tuple[ex.Expr, ...]) -> str:
    shown = [expression_text(item) for item in items[:_ITEMS_MAX]]
    return f"[{', '.join(shown)}{', …' if len(items) > _ITEMS_MAX else ''}]"


def _operand_text(expr: ex.Expr) -> str:
    """Return an operand, in parentheses if the text would be ambiguous."""
    text = expression_text(expr)
    if isinstance(expr, ex.Convert):
        return _operand_text(expr.operand)
    calls = ex.AggregateCall | ex.TextMatch | ex.Score | ex.FunctionCall | ex.Coalesce | ex.Conditional
    is_plain = isinstance(expr, ex.Leaf | calls)
    return text if is_plain else f"({text})"


def _exact_text(exact: bool) -> str:
    return ", exact=true" if exact else ""
