"""Checks values that are computed from one row: calls of functions, durations, `coalesce` and `case`.

Input: nodes of the syntax tree. Output: typed expressions whose arguments have exactly the types that they need, or
None after a problem was reported. `check` is `check_expression`, whose module imports this one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from omnigraph.lang.syntax import Span, StringLiteral
from omnigraph.query.checks.context import PROPERTY_HINT, Check, Env
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import types
from omnigraph.query.plan.functions import DURATIONS, FUNCTIONS
from omnigraph.query.syntax import Call, Case, Expression, Sign

COALESCE: Final = "coalesce"
_EXPECTED: Final[dict[types.ValueType, str]] = {
    types.STRING: "a String",
    types.I64: "an integer",
    types.DATE: "a Date or DateTime",
}
_ARGUMENT_HINTS: Final[dict[types.ValueType, str]] = {
    types.STRING: "Pass a String property or a string. A query cannot convert other values to strings.",
    types.I64: "Pass an integer.",
    types.DATE: 'Pass a Date or DateTime property, or a date, as in `date("2026-01-01")`.',
}


def check_function(call: Call, env: Env, check: Check) -> ex.Expr | None:
    """Return the typed call of a function of the table."""
    name = call.name.text
    function = FUNCTIONS[name]
    parameters = [*function.parameters]
    parameters += parameters[-1:] * (len(call.arguments) - len(parameters))
    arguments = [
        _check_argument(argument, parameter, name, env, check)
        for argument, parameter in zip(call.arguments, parameters, strict=False)
    ]
    checked = tuple(argument for argument in arguments if argument is not None)
    return ex.FunctionCall(name, checked, function.result) if len(checked) == len(arguments) else None


def _check_argument(
    argument: Expression, parameter: types.ValueType, name: str, env: Env, check: Check
) -> ex.Expr | None:
    """Return an argument with the type of its parameter; None after a problem."""
    is_time = parameter == types.DATE
    # A string is a date or a datetime, like next to a property of these types.
    checked = check(argument, env, types.DATE if is_time and isinstance(argument, StringLiteral) else None)
    if checked is None:
        return None
    family = types.family_of(checked.type)
    is_valid = family in {types.family_of(parameter), types.TypeFamily.NULL}
    if parameter == types.I64:
        is_valid = types.is_integer(checked.type) or family is types.TypeFamily.NULL
    if not is_valid:
        message = f"`{name}` requires {_EXPECTED[parameter]}, got {type_text(checked)}"
        hint = PROPERTY_HINT if isinstance(checked, ex.EntityRef) else _ARGUMENT_HINTS[parameter]
        env.report(QueryCode.ARGUMENT_TYPE, argument.span, message, hint)
        return None
    return convert(checked, parameter)


def convert(expr: ex.Expr, target: types.ValueType) -> ex.Expr:
    """Return an expression with another type of its family; null has any type."""
    if expr.type == target:
        return expr
    if isinstance(expr, ex.Literal):
        if expr.value is None or (isinstance(expr.value, str) and target == types.STRING):
            return ex.Literal(expr.value, target)
        if isinstance(expr.value, int) and target == types.F64:
            return ex.Literal(float(expr.value), target)
    return ex.Convert(expr, target)


def is_duration(expression: Expression) -> bool:
    """Return whether an expression is a duration, such as `days(3)`."""
    return isinstance(expression, Call) and expression.name.text in DURATIONS


def report_duration(call: Call, env: Env) -> None:
    """Report a duration that is not added to a date or subtracted from it."""
    name = call.name.text
    message = f"`{name}` is a duration, which can only be added to a date or subtracted from it"
    env.report(QueryCode.ARGUMENT_TYPE, call.span, message, f"Write `$x.date + {name}(3)` or `now() - {name}(3)`.")


def check_shift(sign: Sign, operand: Expression, duration: Expression, env: Env, check: Check) -> ex.ShiftTime | None:
    """Return a date or datetime plus or minus a duration."""
    assert isinstance(duration, Call)
    name = duration.name.text
    time = check(operand, env, types.DATE if isinstance(operand, StringLiteral) else None)
    amount = None
    if len(duration.arguments) != 1 or duration.named or duration.distinct or duration.star:
        env.report(QueryCode.ARGUMENT_COUNT, duration.span, f"`{name}` takes 1 argument", f"Write `{name}(3)`.")
    else:
        amount = _check_argument(duration.arguments[0], types.I64, name, env, check)
    if time is not None and types.family_of(time.type) is not types.TypeFamily.TIME:
        message = f"expected a date or datetime before or after `{name}`, got {type_text(time)}"
        env.report(QueryCode.ARITHMETIC, operand.span, message)
        return None
    if time is None or amount is None:
        return None
    if DURATIONS[name].is_part_of_day:
        time = convert(time, types.DATETIME)
    return ex.ShiftTime(time, sign, amount, name)


def check_coalesce(call: Call, env: Env, check: Check) -> ex.Expr | None:
    """Return the typed call of `coalesce`."""
    values = _check_values(call.arguments, env, check)
    if values is None:
        return None
    common = _common_values(tuple(zip(values, (argument.span for argument in call.arguments), strict=True)), env)
    return None if common is None else ex.Coalesce(common)


def check_case(case: Case, env: Env, check: Check) -> ex.Expr | None:
    """Return the typed `case`; its conditions are checked like those of a filter."""
    conditions = []
    for branch in case.branches:
        condition = check(branch.condition, env, None)
        if condition is not None:
            condition = as_condition(condition, branch.condition.span, env)
        if condition is not None:
            conditions.append(condition)
    expressions = [branch.value for branch in case.branches]
    if case.otherwise is not None:
        expressions.append(case.otherwise)
    values = _check_values(expressions, env, check)
    if values is None or len(conditions) < len(case.branches):
        return None
    pairs = list(zip(values, (expression.span for expression in expressions), strict=True))
    if case.otherwise is None:
        pairs.append((ex.Literal(None, types.NULL), case.span))
    common = _common_values(tuple(pairs), env)
    return None if common is None else ex.Conditional(tuple(conditions), common[:-1], common[-1])


def as_condition(checked: ex.Expr, span: Span, env: Env) -> ex.Expr | None:
    """Return an expression of type Bool, or None after a problem."""
    if checked.type == types.BOOL:
        return checked
    if isinstance(checked, ex.Literal) and checked.value is None:
        return ex.Literal(None, types.BOOL)
    message = f"expected a condition, got {types.value_type_text(checked.type)}"
    env.report(QueryCode.NOT_BOOL, span, message, "Compare the value, as in `$x.age > 3`.")
    return None


def _check_values(expressions: Iterable[Expression], env: Env, check: Check) -> list[ex.Expr] | None:
    """Check alternatives of one value; a string next to a date or datetime is one, too."""
    alternatives = list(expressions)
    checked: list[ex.Expr | None] = [
        None if isinstance(expression, StringLiteral) else check(expression, env, None) for expression in alternatives
    ]
    time = next(
        (value.type for value in checked if value and types.family_of(value.type) is types.TypeFamily.TIME), None
    )
    for index, expression in enumerate(alternatives):
        if isinstance(expression, StringLiteral):
            checked[index] = check(expression, env, time)
    values = [value for value in checked if value is not None]
    return values if len(values) == len(alternatives) else None


def _common_values(pairs: tuple[tuple[ex.Expr, Span], ...], env: Env) -> tuple[ex.Expr, ...] | None:
    """Return alternatives of one value, converted to one type; None after a problem."""
    common: types.ValueType = types.NULL
    for value, span in pairs:
        if types.family_of(value.type) in {types.TypeFamily.ENTITY, types.TypeFamily.OPAQUE}:
            env.report(QueryCode.ENTITY_VALUE, span, f"expected a value, got {type_text(value)}", PROPERTY_HINT)
            return None
        joint = _common_type(common, value.type)
        if joint is None:
            first, second = types.value_type_text(common), types.value_type_text(value.type)
            message = f"the values have different types: expected {first}, got {second}"
            env.report(QueryCode.ALTERNATIVE_TYPES, span, message)
            return None
        common = joint
    return tuple(convert(value, common) for value, _ in pairs)


def _common_type(first: types.ValueType, second: types.ValueType) -> types.ValueType | None:
    """Return the type that holds the values of both types, or None."""
    if first == second or isinstance(second, types.NullType):
        return first
    if isinstance(first, types.NullType):
        return second
    family = types.family_of(first)
    if family is not types.family_of(second):
        return None
    if family is types.TypeFamily.NUMBER:
        return types.I64 if types.is_integer(first) and types.is_integer(second) else types.F64
    if family is types.TypeFamily.TIME:
        return types.DATETIME
    return types.STRING if family is types.TypeFamily.TEXT else None


def type_text(expr: ex.Expr) -> str:
    """Return the type of an expression for a message."""
    return f"a {expr.table.name} entity" if isinstance(expr, ex.EntityRef) else types.value_type_text(expr.type)
