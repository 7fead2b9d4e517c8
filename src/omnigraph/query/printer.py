"""Prints an expression as canonical text, which is the name of a result column that has no alias.

Parsing the text gives an equal expression.
"""

from __future__ import annotations

import json
from typing import Final, assert_never

from omnigraph.lang.syntax import NumberLiteral, StringLiteral, TimeLiteral
from omnigraph.query import syntax

_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _ATOM = range(8)
_PRODUCT_SIGNS: Final = frozenset({syntax.Sign.MUL, syntax.Sign.DIV})


def print_expression(expression: syntax.Expression) -> str:
    """Return the canonical text of an expression."""
    return _text_at_level(expression, _OR)


def _text_at_level(expression: syntax.Expression, level: int) -> str:
    """Return the text, in parentheses if the expression binds less tightly than the level."""
    own_level, text = _level_and_text(expression)
    return text if own_level >= level else f"({text})"


def _level_and_text(expression: syntax.Expression) -> tuple[int, str]:  # noqa: PLR0912 - one case per node
    match expression:
        case syntax.Joined(junction, operands):
            own_level = _OR if junction is syntax.Junction.OR else _AND
            return own_level, f" {junction.value} ".join(_text_at_level(operand, own_level + 1) for operand in operands)
        case syntax.Inversion(operand):
            return _NOT, f"not {_text_at_level(operand, _NOT)}"
        case syntax.Comparison(operator, left, right):
            return _COMPARISON, f"{_text_at_level(left, _SUM)} {operator.value} {_text_at_level(right, _SUM)}"
        case syntax.Between(operand, low, high):
            bounds = f"{_text_at_level(low, _SUM)} and {_text_at_level(high, _SUM)}"
            return _COMPARISON, f"{_text_at_level(operand, _SUM)} between {bounds}"
        case syntax.NullTest(operand, negated):
            return _COMPARISON, f"{_text_at_level(operand, _SUM)} is {'not ' if negated else ''}null"
        case syntax.Arithmetic(sign, left, right):
            own_level = _PRODUCT if sign in _PRODUCT_SIGNS else _SUM
            return own_level, f"{_text_at_level(left, own_level)} {sign.value} {_text_at_level(right, own_level + 1)}"
        case syntax.Negative(operand):
            # Without parentheses the sign would become part of the number.
            inner = _text_at_level(operand, _SIGN)
            return _SIGN, f"-({inner})" if isinstance(operand, NumberLiteral) else f"-{inner}"
        case NumberLiteral(text):
            return (_SIGN if text.startswith("-") else _ATOM), text
        case StringLiteral(value):
            return _ATOM, json.dumps(value, ensure_ascii=False)
        case TimeLiteral(text=text):
            return _ATOM, f"{expression.function}({json.dumps(text, ensure_ascii=False)})"
        case syntax.BoolLiteral(is_true):
            return _ATOM, "true" if is_true else "false"
        case syntax.NullLiteral():
            return _ATOM, "null"
        case syntax.Variable(name):
            return _ATOM, f"${name}"
        case syntax.Access(variable, property_name):
            return _ATOM, f"${variable.name}.{property_name.text}"
        case syntax.Word(text):
            return _ATOM, text
        case syntax.ListLiteral(items):
            return _ATOM, f"[{', '.join(print_expression(item) for item in items)}]"
        case syntax.Call():
            return _ATOM, _call(expression)
        case syntax.Case():
            return _ATOM, _case(expression)
        case _:
            assert_never(expression)


def _case(case: syntax.Case) -> str:
    branches = (
        f"when {print_expression(branch.condition)} then {print_expression(branch.value)}" for branch in case.branches
    )
    otherwise = f" else {print_expression(case.otherwise)}" if case.otherwise else ""
    return f"case {' '.join(branches)}{otherwise} end"


def _call(call: syntax.Call) -> str:
    if call.star:
        return f"{call.name.text}(*)"
    named = (f"{argument.name.text}={_text_at_level(argument.value, _SUM)}" for argument in call.named)
    arguments = ", ".join([*(print_expression(argument) for argument in call.arguments), *named])
    return f"{call.name.text}({'distinct ' if call.distinct else ''}{arguments})"
