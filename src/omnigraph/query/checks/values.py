"""Values that a mutation stores: literals, parameters and `now()`, each of them a value of the property's type."""

from __future__ import annotations

from omnigraph.query.checks.context import Env
from omnigraph.query.checks.expressions import check_expression
from omnigraph.query.codes import QueryCode
from omnigraph.query.expressions import Expr, Literal, Now, Param
from omnigraph.query.json_values import value_from_expression
from omnigraph.query.syntax import (
    Assignment,
    BoolLiteral,
    Call,
    Expression,
    ListLiteral,
    NullLiteral,
    Variable,
)
from omnigraph.query.tables import Column
from omnigraph.query.value_types import DATE, DATETIME, is_assignable, value_type_text
from omnigraph.schema.problems import quoted
from omnigraph.schema.property_types import VectorType
from omnigraph.schema.syntax import NumberLiteral, StringLiteral
from omnigraph.schema.values import ValueMistake


def check_value(assignment: Assignment, column: Column, env: Env) -> Expr | None:
    """The value, or None after a problem."""
    name, given = assignment.name.text, assignment.value
    match given:
        case NullLiteral() if not column.nullable:
            message = f"{quoted(name)} cannot be null"
            env.report(QueryCode.NULL_VALUE, given.span, message)
            return None
        case StringLiteral() | NumberLiteral() | BoolLiteral() | NullLiteral() | ListLiteral():
            return _literal(given, column, name, env)
        case Variable():
            return _param(given, column, name, env)
        case Call() if given.name.text == "now":
            return _now(given, column, name, env)
        case _:
            hint = "compute the value first and give it as a parameter"
            message = f"the value of {quoted(name)} is a literal, a parameter or `now()`"
            env.report(QueryCode.INLINE_VALUE, given.span, message, hint)
            return None


def _literal(given: Expression, column: Column, name: str, env: Env) -> Literal | None:
    value = value_from_expression(given, column.type)
    if isinstance(value, ValueMistake):
        match given, column.type:
            case ListLiteral(items), VectorType(size) if len(items) != size:
                code = QueryCode.VECTOR_LENGTH
            case _:
                code = QueryCode.LITERAL
        env.report(code, given.span, f"{quoted(name)}: {value.message}", value.hint)
        return None
    return Literal(value, column.type)


def _param(given: Variable, column: Column, name: str, env: Env) -> Param | None:
    checked = check_expression(given, env)
    if not isinstance(checked, Param):
        return None
    if not is_assignable(checked.type, column.type):
        have, want = value_type_text(checked.type), value_type_text(column.type)
        message = f"{quoted(name)} is {want}, and {quoted(f'${given.name}')} is {have}"
        env.report(QueryCode.ARGUMENT_TYPE, given.span, message, f"declare `${given.name}: {want}`")
        return None
    if checked.nullable and not column.nullable:
        message = f"{quoted(name)} cannot be null, and {quoted(f'${given.name}')} may be"
        env.report(QueryCode.NULL_VALUE, given.span, message, "declare the parameter without `?`")
        return None
    return checked


def _now(given: Call, column: Column, name: str, env: Env) -> Expr | None:
    checked = check_expression(given, env)
    if checked is None or column.type in {DATE, DATETIME}:
        return checked if isinstance(checked, Now) else None
    message = f"{quoted(name)} is {value_type_text(column.type)}, and `now()` is a moment"
    env.report(QueryCode.ARGUMENT_TYPE, given.span, message)
    return None
