"""Literals of a query to typed values, with the type that their place asks for.

In a comparison a number stays as it is written: what it means for a column is decided by the rule for literals, which
can say that a comparison is always or never true. Everywhere else a literal must be a value of the type.
"""

from __future__ import annotations

from decimal import Decimal
from math import isfinite

from omnigraph.query.checks.context import Env
from omnigraph.query.codes import QueryCode
from omnigraph.query.expressions import Literal
from omnigraph.query.syntax import BoolLiteral, Expression, NullLiteral
from omnigraph.query.value_types import (
    BOOL,
    DATE,
    DATETIME,
    F64,
    I64,
    NULL,
    STRING,
    U64,
    Family,
    ValueType,
    family_of,
)
from omnigraph.schema.property_types import INTEGER_BOUNDS, EnumType, Scalar, ScalarType
from omnigraph.schema.syntax import NumberLiteral, StringLiteral, TimeLiteral
from omnigraph.schema.values import ValueMistake, value_from_literal, value_from_text

PlainLiteral = StringLiteral | NumberLiteral | BoolLiteral | NullLiteral


def is_literal(expression: Expression) -> bool:
    """Whether only its place can say what type an expression has."""
    return isinstance(expression, PlainLiteral)


def check_literal(literal: PlainLiteral, env: Env, compared_with: ValueType | None) -> Literal | None:
    """The typed literal; `compared_with` is the type of the other side of a comparison."""
    match literal:
        case NullLiteral():
            return Literal(None, NULL)
        case BoolLiteral(value):
            return Literal(value, BOOL)
        case StringLiteral():
            return _text(literal, env, compared_with)
        case NumberLiteral(text):
            if compared_with is not None:
                return _exact_number(text)
            return _number(literal, env)


def check_time(literal: TimeLiteral, env: Env) -> Literal | None:
    """Check `date("…")` or `datetime("…")`, which says its type itself."""
    wanted = DATETIME if literal.is_datetime else DATE
    value = value_from_text(literal.text, wanted)
    if isinstance(value, ValueMistake):
        env.report(QueryCode.LITERAL, literal.span, value.message, value.hint)
        return None
    return Literal(value, wanted)


def _text(literal: StringLiteral, env: Env, compared_with: ValueType | None) -> Literal | None:
    if isinstance(compared_with, EnumType):
        value = value_from_literal(literal, compared_with)
        if isinstance(value, ValueMistake):
            near = env.context.problems.did_you_mean(literal.value, compared_with.values)
            env.report(QueryCode.LITERAL, literal.span, value.message, near or value.hint)
            return None
        return Literal(value, compared_with)
    if compared_with is not None and family_of(compared_with) is Family.TIME:
        return _time(literal, env, compared_with)
    return Literal(literal.value, STRING)


def _time(literal: StringLiteral, env: Env, compared_with: ValueType) -> Literal | None:
    """A date may be compared with a datetime, so either is read; the mistake is told for the column's own type."""
    other = DATETIME if compared_with == DATE else DATE
    for wanted in (compared_with, other):
        assert isinstance(wanted, ScalarType)
        value = value_from_text(literal.value, wanted)
        if not isinstance(value, ValueMistake):
            return Literal(value, wanted)
    assert isinstance(compared_with, ScalarType)
    mistake = value_from_text(literal.value, compared_with)
    assert isinstance(mistake, ValueMistake)
    env.report(QueryCode.LITERAL, literal.span, mistake.message, mistake.hint)
    return None


def _exact_number(text: str) -> Literal:
    """The number as written; the bounds of numbers in a text keep this cheap."""
    if text.lstrip("-").isdecimal():
        return _integer(int(text))
    return Literal(Decimal(text), F64)


def _number(literal: NumberLiteral, env: Env) -> Literal | None:
    if literal.text.lstrip("-").isdecimal():
        exact = _integer(int(literal.text))
        if isinstance(exact.value, int):
            return exact
    value = float(literal.text)
    if not isfinite(value):
        env.report(QueryCode.LITERAL, literal.span, f"`{literal.text[:60]}` is too large for F64")
        return None
    return Literal(value + 0.0, F64)


def _integer(value: int) -> Literal:
    for scalar, integer_type in ((Scalar.I64, I64), (Scalar.U64, U64)):
        low, high = INTEGER_BOUNDS[scalar]
        if low <= value <= high:
            return Literal(value, integer_type)
    return Literal(Decimal(value), F64)
