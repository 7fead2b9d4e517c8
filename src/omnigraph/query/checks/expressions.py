"""Expressions of a query to typed expressions.

Comes in: a syntax tree and what it can see. Goes out: the typed expression, or None after at least one problem was
reported. A part with a problem does not hide the problems of its neighbours.
"""

from __future__ import annotations

from typing import Final, assert_never

from omnigraph.query.checks.comparisons import check_comparison
from omnigraph.query.checks.context import Env, Place
from omnigraph.query.checks.functions import check_call
from omnigraph.query.checks.literals import check_literal, check_time
from omnigraph.query.codes import QueryCode
from omnigraph.query.expressions import (
    And,
    ColumnRef,
    Computed,
    EntityRef,
    Expr,
    IsNull,
    Literal,
    Negated,
    Not,
    Or,
)
from omnigraph.query.syntax import (
    Access,
    Arithmetic,
    BoolLiteral,
    Call,
    Comparison,
    Expression,
    Inversion,
    Joined,
    Junction,
    ListLiteral,
    Negative,
    NullLiteral,
    NullTest,
    Variable,
    Word,
)
from omnigraph.query.value_types import BOOL, EntityType, ValueType, is_number, value_type_text
from omnigraph.schema.problems import quoted
from omnigraph.schema.syntax import NumberLiteral, Span, StringLiteral, TimeLiteral

_WORD_HINTS: Final = {
    "in": "write `not ($x.p in [ … ])`",
    "where": "conditions of a `match` stand beside the other clauses, without `where`",
}


def check_expression(  # noqa: PLR0912 - one case per node
    expression: Expression, env: Env, compared_with: ValueType | None = None
) -> Expr | None:
    """The typed expression; `compared_with` gives a literal the type of the other side."""
    match expression:
        case StringLiteral() | NumberLiteral() | BoolLiteral() | NullLiteral():
            return check_literal(expression, env, compared_with)
        case TimeLiteral():
            return check_time(expression, env)
        case Variable():
            return _variable(expression, env)
        case Access():
            return _access(expression, env)
        case Word():
            return _word(expression, env)
        case ListLiteral(_, span):
            hint = "a list stands after `in`, or as the value of a list or vector property"
            env.report(QueryCode.LIST_VALUE, span, "a list means nothing here", hint)
            return None
        case Call():
            return check_call(expression, env, check_expression)
        case Negative() | Arithmetic():
            return _arithmetic(expression, env)
        case Comparison():
            return check_comparison(expression, env, check_expression)
        case NullTest(operand, negated):
            tested = check_expression(operand, env)
            if isinstance(tested, EntityRef):
                tested = tested.id
            return None if tested is None else IsNull(tested, negated)
        case Joined() | Inversion():
            return _logic(expression, env)
        case _:
            assert_never(expression)


def check_condition(expression: Expression, env: Env) -> Expr | None:
    """An expression that must be true or false."""
    checked = check_expression(expression, env)
    if checked is None:
        return None
    if checked.type == BOOL:
        return checked
    if isinstance(checked, Literal) and checked.value is None:
        return Literal(None, BOOL)
    shown = value_type_text(checked.type)
    hint = "compare it with something, as in `$x.age > 3`"
    env.report(QueryCode.NOT_BOOL, expression.span, f"a condition is needed, and this is {shown}", hint)
    return None


def _variable(variable: Variable, env: Env) -> Expr | None:
    context = env.context
    if variable.is_anonymous:
        hint = "give the variable a name to use it"
        env.report(QueryCode.ANONYMOUS_USED, variable.span, "`$_` stands for no particular variable", hint)
        return None
    bound = env.variables.get(variable.name)
    if bound:
        return EntityRef(bound.entity.name, bound.entity.table, bound.nullable)
    param = context.params.get(variable.name)
    if param:
        return param
    report_unknown(variable, env)
    return None


def report_unknown(variable: Variable, env: Env) -> None:
    """A name that means nothing where it stands."""
    shown = quoted(f"${variable.name}")
    if env.place in {Place.WHERE, Place.VALUE}:
        hint = "a mutation sees the type's own properties, without `$`, and the parameters of the query"
        env.report(QueryCode.WHERE_VARIABLE, variable.span, f"{shown} is not a parameter", hint)
    elif variable.name in env.context.broken:
        return
    elif variable.name in env.context.inside_not:
        hint = "a variable that `not { }` binds exists only inside it"
        env.report(QueryCode.VARIABLE_INSIDE_NOT, variable.span, f"{shown} is bound inside a `not`", hint)
    else:
        known = (*env.variables, *env.context.params)
        near = env.context.problems.did_you_mean(variable.name, known).replace("`", "`$", 1)
        message = f"{shown} is neither a variable nor a parameter"
        env.report(QueryCode.UNKNOWN_VARIABLE, variable.span, message, near)


def _access(access: Access, env: Env) -> Expr | None:
    variable, name = access.variable, access.name
    bound = env.variables.get(variable.name)
    if bound is None or variable.is_anonymous:
        if variable.name in env.context.broken:
            return None
        if variable.name in env.context.params:
            message = f"{quoted(f'${variable.name}')} is a parameter and has no properties"
            env.report(QueryCode.NOT_AN_ENTITY, variable.span, message)
        else:
            _variable(variable, env)
        return None
    column = bound.entity.table.column(name.text)
    if column is None:
        report_no_property(bound.entity.table.name, name.text, name.span, env)
        return None
    return ColumnRef(bound.entity.name, column.name, column.type, column.nullable or bound.nullable)


def report_no_property(type_name: str, name: str, span: Span, env: Env) -> None:
    """A property that the type does not have."""
    catalog = env.context.catalog
    found = catalog.type_named(type_name)
    known = [one.name for one in found.properties] if found else []
    near = env.context.problems.did_you_mean(name, known)
    hint = near or (f"it has {', '.join(quoted(one) for one in known[:20])}" if known else "it has none")
    env.report(QueryCode.UNKNOWN_PROPERTY, span, f"{type_name} has no property {quoted(name)}", hint)


def _word(word: Word, env: Env) -> Expr | None:
    found = env.words.get(word.text)
    if found is not None:
        return found
    shown = quoted(word.text)
    near = env.context.problems.did_you_mean(word.text, env.words)
    match env.place:
        case Place.ORDER:
            hint = near or "an order is by a name given with `as`, or by an expression"
            env.report(QueryCode.UNKNOWN_WORD, word.span, f"no column is called {shown}", hint)
        case Place.WHERE | Place.VALUE if env.words:
            hint = near or 'a text stands in double quotes: "…"'
            env.report(QueryCode.UNKNOWN_PROPERTY, word.span, f"the type has no property {shown}", hint)
        case _:
            bound = word.text in env.variables or word.text in env.context.params
            hint = f"did you mean `${word.text}`?" if bound else 'a text or enum value stands in quotes: "…"'
            hint = _WORD_HINTS.get(word.text, hint)
            env.report(QueryCode.UNKNOWN_WORD, word.span, f"the word {shown} means nothing here", hint)
    return None


def _arithmetic(expression: Negative | Arithmetic, env: Env) -> Expr | None:
    if isinstance(expression, Negative):
        operand = _operand(expression.operand, env)
        return None if operand is None else Negated(operand)
    left, right = _operand(expression.left, env), _operand(expression.right, env)
    return None if left is None or right is None else Computed(expression.sign, left, right)


def _operand(expression: Expression, env: Env) -> Expr | None:
    checked = check_expression(expression, env)
    if checked is None or is_number(checked.type):
        return checked
    if isinstance(checked.type, EntityType):
        hint = "name the property: `$x.prop`"
        env.report(QueryCode.ENTITY_VALUE, expression.span, "a whole entity is not a number", hint)
    else:
        shown = value_type_text(checked.type)
        env.report(QueryCode.ARITHMETIC, expression.span, f"arithmetic needs numbers, and this is {shown}")
    return None


def _logic(expression: Joined | Inversion, env: Env) -> Expr | None:
    if isinstance(expression, Inversion):
        operand = check_condition(expression.operand, env)
        return None if operand is None else Not(operand)
    checked = [check_condition(operand, env) for operand in expression.operands]
    operands = tuple(found for found in checked if found is not None)
    if len(operands) < len(checked):
        return None
    return And(operands) if expression.junction is Junction.AND else Or(operands)
