"""Values that a mutation stores: each of them is, or is computed as, a value of the property's type.

A literal or a parameter is checked here as a whole. What an expression gives is known when it runs: there a number that
does not fit the property, a text outside its enum or a null where a value is required breaks the rules of the row.
"""

from __future__ import annotations

from omnigraph.query.checks.context import Env
from omnigraph.query.checks.expressions import check_expression
from omnigraph.query.codes import QueryCode
from omnigraph.query.expressions import Expr, ListOf, Literal, Now, Param
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
from omnigraph.query.value_types import (
    DATE,
    DATETIME,
    is_assignable,
    is_float,
    is_integer,
    is_number,
    value_type_text,
)
from omnigraph.schema.problems import quoted
from omnigraph.schema.property_types import Scalar, ScalarType, VectorType, item_type
from omnigraph.schema.syntax import Name, NumberLiteral, StringLiteral, TimeLiteral
from omnigraph.schema.values import ValueMistake


def check_value(assignment: Assignment, column: Column, env: Env) -> Expr | None:
    """The value, or None after a problem."""
    name, given = assignment.name.text, assignment.value
    match given:
        case NullLiteral() if not column.nullable:
            message = f"{quoted(name)} cannot be null"
            env.report(QueryCode.NULL_VALUE, given.span, message)
            return None
        case ListLiteral(items) if any(not _is_literal(item) for item in items):
            return _list(given, column, name, env)
        case (
            StringLiteral() | NumberLiteral() | TimeLiteral() | BoolLiteral() | NullLiteral() | ListLiteral()
        ):
            return _literal(given, column, name, env)
        case Variable():
            return _param(given, column, name, env)
        case Call() if given.name.text == "now":
            return _now(given, column, name, env)
        case _:
            return _computed(given, column, name, env)


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


def _is_literal(given: Expression) -> bool:
    return isinstance(
        given, StringLiteral | NumberLiteral | TimeLiteral | BoolLiteral | NullLiteral | ListLiteral
    )


def _list(given: ListLiteral, column: Column, name: str, env: Env) -> Expr | None:
    """A list with computed items: each is a value that is never null, of the type that items have."""
    wanted = item_type(column.type)
    if wanted is None or (isinstance(column.type, VectorType) and len(given.items) != column.type.size):
        return _literal(given, column, name, env)
    checked = [
        check_value(Assignment(Name(f"{name}[{at}]"), item), Column(name, wanted), env)
        for at, item in enumerate(given.items)
    ]
    items = tuple(found for found in checked if found is not None)
    return ListOf(items, column.type) if len(items) == len(checked) else None


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


def _computed(given: Expression, column: Column, name: str, env: Env) -> Expr | None:
    checked = check_expression(given, env)
    if checked is None:
        return None
    if checked.type == ScalarType(Scalar.BLOB):
        hint = "only whether a Blob is there can be asked: `photo is null`"
        env.report(QueryCode.ARGUMENT_TYPE, given.span, "the content of a Blob is not read here", hint)
        return None
    if not _can_hold(checked, column):
        have, want = value_type_text(checked.type), value_type_text(column.type)
        env.report(QueryCode.ARGUMENT_TYPE, given.span, f"{quoted(name)} is {want}, and this is {have}")
        return None
    return checked


def _can_hold(value: Expr, column: Column) -> bool:
    """Whether values of the expression's type can be values of the column's: integers of any width are numbers."""
    if is_integer(value.type):
        return is_number(column.type)
    if is_float(value.type):
        return is_float(column.type)
    return is_assignable(value.type, column.type)
