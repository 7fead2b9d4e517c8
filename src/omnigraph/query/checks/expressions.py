"""Checks the expressions of a query: syntax tree to typed expression.

Input: an expression of the syntax tree and its environment. Output: the typed expression, or None after at least one
problem was reported. A problem in one part does not hide the problems of the other parts.
"""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import Final, assert_never

from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import NumberLiteral, Span, StringLiteral, TimeLiteral
from omnigraph.query import syntax
from omnigraph.query.checks.context import PROPERTY_HINT, Env, ExpressionPosition
from omnigraph.query.checks.functions import check_call
from omnigraph.query.checks.scalars import as_condition, check_case, check_shift, is_duration
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import types
from omnigraph.query.syntax import ComparisonOperator
from omnigraph.schema.catalog import EdgeType
from omnigraph.schema.property_types import INTEGER_BOUNDS, EnumType, ListType, PropertyType, Scalar, ScalarType
from omnigraph.schema.values import InvalidValue, value_from_literal, value_from_text

_ARITHMETIC_HINTS: Final = {
    types.TypeFamily.TEXT: "Join strings with `concat(a, b)`.",
    types.TypeFamily.TIME: "Add a duration: `$x.date + days(3)`.",
}
PlainLiteral = StringLiteral | NumberLiteral | syntax.BoolLiteral | syntax.NullLiteral

_ORDERED: Final = frozenset(
    {ComparisonOperator.LT, ComparisonOperator.LE, ComparisonOperator.GT, ComparisonOperator.GE}
)
_WORD_HINTS: Final = {
    "is": "Write `is null` or `is not null`.",
    "where": "Write conditions as clauses of the `match`, without `where`.",
    "distinct": "Write `count(distinct …)` or `collect(distinct …)`, or add `count(*)`, which groups equal rows.",
    "ilike": 'Write `lower($x.p) like "a%"`.',
    **dict.fromkeys(("ends_with", "endswith", "endsWith"), 'Write `$x.p like "%a"`.'),
    **dict.fromkeys(("startswith", "startsWith"), 'Write `$x.p starts_with "a"`.'),
    **dict.fromkeys(("matches", "regexp", "rlike"), "Write `like`, in which `%` is any text and `_` one character."),
    "exists": "Write the clauses of the pattern in `match`, or `not { … }` if they have no match.",
}


def check_expression(  # noqa: PLR0912 - one case per node
    expression: syntax.Expression, env: Env, compared_with: types.ValueType | None = None
) -> ex.Expr | None:
    """Return the typed expression; a literal takes the type of the other side, `compared_with`."""
    match expression:
        case StringLiteral() | NumberLiteral() | syntax.BoolLiteral() | syntax.NullLiteral():
            return _check_literal(expression, env, compared_with)
        case TimeLiteral(is_datetime, text, span):
            time_type = types.DATETIME if is_datetime else types.DATE
            return _valid_literal(value_from_text(text, time_type), time_type, span, env)
        case syntax.Variable():
            return _check_variable(expression, env)
        case syntax.Access():
            return _check_access(expression, env)
        case syntax.Word():
            return _check_word(expression, env)
        case syntax.ListLiteral(_, span):
            hint = "Use a list after `in`, or as the value of a list or vector property."
            env.report(QueryCode.LIST_VALUE, span, "a list is not allowed here", hint)
            return None
        case syntax.Call():
            return check_call(expression, env, check_expression)
        case syntax.Negative(operand):
            number = _check_number(operand, env)
            return None if number is None else ex.Negation(number)
        case syntax.Case():
            return check_case(expression, env, check_expression)
        case syntax.Arithmetic():
            return _check_arithmetic(expression, env)
        case syntax.Comparison():
            return _check_comparison(expression, env)
        case syntax.Between():
            return _check_between(expression, env)
        case syntax.NullTest(operand, negated):
            tested = check_expression(operand, env)
            return None if tested is None else ex.IsNull(_by_id(tested), negated)
        case syntax.Inversion(operand):
            condition = check_condition(operand, env)
            return None if condition is None else ex.Not(condition)
        case syntax.Joined():
            return _check_joined(expression, env)
        case _:
            assert_never(expression)


def check_condition(expression: syntax.Expression, env: Env) -> ex.Expr | None:
    """Return a typed expression of type Bool."""
    checked = check_expression(expression, env)
    return None if checked is None else as_condition(checked, expression.span, env)


def report_unknown_property(type_name: str, name: str, span: Span, env: Env) -> None:
    """Report a property that the type does not have."""
    entity_type = env.context.catalog.type_named(type_name)
    property_names = [prop.name for prop in entity_type.properties] if entity_type else []
    listed = ", ".join(quoted(property_name) for property_name in property_names[:20])
    fallback = f"The properties are {listed}." if listed else "The type has no properties."
    if name == types.PATH_LENGTH and isinstance(entity_type, EdgeType):
        fallback = "Add bounds for the length of a path, as in `$a $p:edge{1,3} $b`."
    hint = env.context.problems.did_you_mean(name, property_names) or fallback
    env.report(QueryCode.UNKNOWN_PROPERTY, span, f"{type_name} has no property {quoted(name)}", hint)


def _check_literal(literal: PlainLiteral, env: Env, compared_with: types.ValueType | None) -> ex.Literal | None:
    match literal:
        case syntax.NullLiteral():
            return ex.Literal(None, types.NULL)
        case syntax.BoolLiteral(value):
            return ex.Literal(value, types.BOOL)
        case StringLiteral():
            return _check_string(literal, env, compared_with)
        case NumberLiteral(text):
            return _number_without_type(literal, env) if compared_with is None else _exact_number(text)


def _check_string(literal: StringLiteral, env: Env, compared_with: types.ValueType | None) -> ex.Literal | None:
    if isinstance(compared_with, EnumType):
        value = value_from_literal(literal, compared_with)
        is_invalid = isinstance(value, InvalidValue)
        near = env.context.problems.did_you_mean(literal.value, compared_with.values) if is_invalid else ""
        return _valid_literal(value, compared_with, literal.span, env, near)
    if compared_with is None or types.family_of(compared_with) is not types.TypeFamily.TIME:
        return ex.Literal(literal.value, types.STRING)
    # A date and a datetime can be compared. An error is reported for the type of the other side.
    own, other = (types.DATE, types.DATETIME) if compared_with == types.DATE else (types.DATETIME, types.DATE)
    value, other_value = value_from_text(literal.value, own), value_from_text(literal.value, other)
    if isinstance(value, InvalidValue) and not isinstance(other_value, InvalidValue):
        return ex.Literal(other_value, other)
    return _valid_literal(value, own, literal.span, env)


def _valid_literal(
    value: ex.LiteralValue | InvalidValue, value_type: PropertyType, span: Span, env: Env, near: str = ""
) -> ex.Literal | None:
    """Return the literal of a value, or None after its problem, with `near` as the better hint."""
    if isinstance(value, InvalidValue):
        env.report(QueryCode.LITERAL, span, value.message, near or value.hint)
        return None
    return ex.Literal(value, value_type)


def _exact_number(text: str) -> ex.Literal:
    """Return the number without rounding; the limits of number literals keep this cheap."""
    if text.lstrip("-").isdecimal():
        return _integer(int(text))
    return ex.Literal(Decimal(text), types.F64)


def _number_without_type(literal: NumberLiteral, env: Env) -> ex.Literal | None:
    if literal.text.lstrip("-").isdecimal():
        exact = _integer(int(literal.text))
        if isinstance(exact.value, int):
            return exact
    value = float(literal.text)
    if not isfinite(value):
        env.report(QueryCode.LITERAL, literal.span, f"`{literal.text[:60]}` is too large for F64")
        return None
    return ex.Literal(value + 0.0, types.F64)


def _integer(value: int) -> ex.Literal:
    for scalar, integer_type in ((Scalar.I64, types.I64), (Scalar.U64, types.U64)):
        low, high = INTEGER_BOUNDS[scalar]
        if low <= value <= high:
            return ex.Literal(value, integer_type)
    return ex.Literal(Decimal(value), types.F64)


def _check_variable(variable: syntax.Variable, env: Env) -> ex.Expr | None:
    if variable.is_anonymous:
        hint = "Name the variable to use it."
        env.report(QueryCode.ANONYMOUS_USED, variable.span, "`$_` cannot be used in an expression", hint)
        return None
    bound = env.variables.get(variable.name)
    if bound and bound.is_path:
        message = f"{quoted(f'${variable.name}')} is a path, of which only the length can be used"
        env.report(
            QueryCode.EDGE_BINDING_HOPS, variable.span, message, f"Write `${variable.name}.{types.PATH_LENGTH}`."
        )
        return None
    if bound:
        return ex.EntityRef(bound.entity.name, bound.entity.table, bound.nullable)
    param = env.context.params.get(variable.name)
    if param:
        return param
    _report_unknown_variable(variable, env)
    return None


def _report_unknown_variable(variable: syntax.Variable, env: Env) -> None:
    shown = quoted(f"${variable.name}")
    if env.position in {ExpressionPosition.WHERE, ExpressionPosition.VALUE}:
        message = f"unknown parameter {shown}"
        hint = "Use a parameter of the query, or a property of the type without `$`."
        if env.variables:
            message = f"a value of `set` cannot use {shown}"
            hint = f"Use a parameter, or a property of the updated variable: `${next(iter(env.variables))}.prop`."
        env.report(QueryCode.WHERE_VARIABLE, variable.span, message, hint)
    elif variable.name in env.context.broken:
        return
    elif variable.name in env.context.inside_not:
        message = f"{shown} is bound inside `not {{ }}` and does not exist outside of it"
        env.report(QueryCode.VARIABLE_INSIDE_NOT, variable.span, message, "Bind it outside the `not`.")
    else:
        names = (*env.variables, *env.context.params)
        near = env.context.problems.did_you_mean(variable.name, names).replace("`", "`$", 1)
        env.report(QueryCode.UNKNOWN_VARIABLE, variable.span, f"unknown variable or parameter {shown}", near)


def _check_access(access: syntax.Access, env: Env) -> ex.Expr | None:
    variable, name = access.variable, access.name
    bound = env.variables.get(variable.name)
    if bound is None or variable.is_anonymous:
        if variable.name in env.context.broken:
            return None
        if variable.name in env.context.params:
            message = f"{quoted(f'${variable.name}')} is a parameter and has no properties"
            env.report(QueryCode.NOT_AN_ENTITY, variable.span, message)
        else:
            _check_variable(variable, env)
        return None
    column = bound.entity.table.column(name.text)
    if column is None and bound.is_path:
        message = f"a path has no property {quoted(name.text)}"
        hint = f"Write `${variable.name}.{types.PATH_LENGTH}`, or remove the bounds to bind an edge."
        env.report(QueryCode.EDGE_BINDING_HOPS, name.span, message, hint)
        return None
    if column is None:
        report_unknown_property(bound.entity.table.name, name.text, name.span, env)
        return None
    return ex.ColumnRef.of(bound.entity.name, column, is_optional=bound.nullable)


def _check_word(word: syntax.Word, env: Env) -> ex.Expr | None:
    expression = env.words.get(word.text)
    if expression is not None:
        return expression
    shown = quoted(word.text)
    near = env.context.problems.did_you_mean(word.text, env.words)
    match env.position:
        case ExpressionPosition.HAVING | ExpressionPosition.ORDER if word.text in env.context.broken:
            return None
        case ExpressionPosition.HAVING | ExpressionPosition.ORDER:
            hint = near or "Use a name that `as` defines, or an expression."
            env.report(QueryCode.UNKNOWN_WORD, word.span, f"unknown column {shown}", hint)
        case ExpressionPosition.WHERE | ExpressionPosition.VALUE if env.words:
            hint = near or 'Write strings in double quotes: "…".'
            env.report(QueryCode.UNKNOWN_PROPERTY, word.span, f"the type has no property {shown}", hint)
        case _:
            is_variable = word.text in env.variables or word.text in env.context.params
            quotes_hint = 'Write strings and enum values in double quotes: "…".'
            hint = f"did you mean `${word.text}`?" if is_variable else quotes_hint
            if env.position is ExpressionPosition.RETURN and not is_variable:
                hint = f"Name a column with `as {word.text}`. Write a property as `$x.{word.text}`, a string in quotes."
            hint = _WORD_HINTS.get(word.text, hint)
            env.report(QueryCode.UNKNOWN_WORD, word.span, f"unexpected word {shown}", hint)
    return None


def _check_arithmetic(arithmetic: syntax.Arithmetic, env: Env) -> ex.Expr | None:
    """Return arithmetic of numbers, a date plus or minus a duration, or the difference of two dates."""
    sign, left, right = arithmetic.sign, arithmetic.left, arithmetic.right
    if is_duration(right) and sign in {syntax.Sign.ADD, syntax.Sign.SUB}:
        return check_shift(sign, left, right, env, check_expression)
    if is_duration(left) and sign is syntax.Sign.ADD:
        return check_shift(sign, right, left, env, check_expression)
    sides = None
    if sign is syntax.Sign.SUB and not isinstance(left, NumberLiteral) and not isinstance(right, NumberLiteral):
        sides = _check_sides(left, right, env)
        if sides is None:
            return None
        if all(types.family_of(side.type) is types.TypeFamily.TIME for side in sides):
            return ex.TimeDifference(*sides)
    first, second = (
        (_check_number(left, env), _check_number(right, env))
        if sides is None
        else (_require_number(sides[0], left, env), _require_number(sides[1], right, env))
    )
    return None if first is None or second is None else ex.BinaryOperation(sign, first, second)


def _check_number(expression: syntax.Expression, env: Env) -> ex.Expr | None:
    checked = check_expression(expression, env)
    return None if checked is None else _require_number(checked, expression, env)


def _require_number(checked: ex.Expr, expression: syntax.Expression, env: Env) -> ex.Expr | None:
    family = types.family_of(checked.type)
    if family is types.TypeFamily.NUMBER:
        return checked
    if isinstance(checked.type, types.EntityValueType):
        message = f"expected a number, got a {checked.type.name} entity"
        env.report(QueryCode.ENTITY_VALUE, expression.span, message, PROPERTY_HINT)
    else:
        message = f"expected a number, got {types.value_type_text(checked.type)}"
        env.report(QueryCode.ARITHMETIC, expression.span, message, _ARITHMETIC_HINTS.get(family, ""))
    return None


def _check_joined(joined: syntax.Joined, env: Env) -> ex.Expr | None:
    checked = [check_condition(operand, env) for operand in joined.operands]
    operands = tuple(operand for operand in checked if operand is not None)
    if len(operands) < len(checked):
        return None
    return ex.And(operands) if joined.junction is syntax.Junction.AND else ex.Or(operands)


def _check_comparison(comparison: syntax.Comparison, env: Env) -> ex.Expr | None:
    match comparison.operator:
        case ComparisonOperator.IN:
            return _check_in(comparison, env)
        case ComparisonOperator.CONTAINS:
            return _check_contains(comparison, env)
        case ComparisonOperator.STARTS_WITH | ComparisonOperator.LIKE:
            return _check_text_test(comparison, env)
        case _:
            return _check_values(comparison, env)


def _check_values(comparison: syntax.Comparison, env: Env) -> ex.Expr | None:
    sides = _check_sides(comparison.left, comparison.right, env)
    return None if sides is None else _compare(comparison.operator, *sides, comparison.span, env)


def _compare(operator: ComparisonOperator, left: ex.Expr, right: ex.Expr, span: Span, env: Env) -> ex.Compare | None:
    """Return the comparison of two values, or None after a problem of their types."""
    if not types.are_comparable(left.type, right.type):
        _report_incomparable(left.type, right.type, span, env)
        return None
    if operator in _ORDERED:
        for side in (left, right):
            if not types.has_order(side.type):
                message = f"values of type {types.value_type_text(side.type)} have no order"
                env.report(QueryCode.NO_ORDER, span, message, "Compare them with `=` or `!=`.")
                return None
    return ex.Compare(operator, _by_id(left), _by_id(right))


def _check_sides(left: syntax.Expression, right: syntax.Expression, env: Env) -> tuple[ex.Expr, ex.Expr] | None:
    """Check two sides; a literal takes the type of the other side."""
    if isinstance(left, PlainLiteral) and not isinstance(right, PlainLiteral):
        second = check_expression(right, env)
        first = check_expression(left, env, second.type if second else None)
    else:
        first = check_expression(left, env)
        second = check_expression(right, env, first.type if first else None)
    return None if first is None or second is None else (first, second)


def _check_between(between: syntax.Between, env: Env) -> ex.Expr | None:
    """Return `operand >= low and operand <= high`."""
    sides = _check_sides(between.operand, between.low, env)
    high = check_expression(between.high, env, sides[0].type if sides else None)
    if sides is None or high is None:
        return None
    operand, low = sides
    first = _compare(ComparisonOperator.GE, operand, low, between.span, env)
    second = _compare(ComparisonOperator.LE, operand, high, between.span, env) if first else None
    return None if first is None or second is None else ex.And((first, second))


def _report_incomparable(left: types.ValueType, right: types.ValueType, span: Span, env: Env) -> None:
    message = f"cannot compare {types.value_type_text(left)} with {types.value_type_text(right)}"
    families = {types.family_of(left), types.family_of(right)}
    hint = ""
    if families == {types.TypeFamily.ENTITY}:
        hint = "Compare entities of one type."
    elif types.TypeFamily.ENTITY in families:
        hint = PROPERTY_HINT
    elif types.TypeFamily.LIST in families:
        hint = "Write `$x.list contains item`."
    elif families == {types.TypeFamily.TEXT, types.TypeFamily.NUMBER}:
        hint = "Write numbers without quotes, and strings in double quotes."
    env.report(QueryCode.COMPARISON, span, message, hint)


def _by_id(side: ex.Expr) -> ex.Expr:
    """Return the id of an entity, by which it is compared, or the expression itself."""
    return side.id if isinstance(side, ex.EntityRef) else side


def _check_in(comparison: syntax.Comparison, env: Env) -> ex.Expr | None:
    left = _check_item(comparison, env)
    right = comparison.right
    if isinstance(right, syntax.ListLiteral):
        return None if left is None else _check_list_items(left, right, comparison, env)
    collection = check_expression(right, env)
    if left is None or collection is None:
        return None
    if not isinstance(collection.type, ListType):
        message = f"expected a list after `in`, got {types.value_type_text(collection.type)}"
        hint = "Write a list, `in [1, 2]`, or declare a parameter of a list type, `$p: [I64]`."
        env.report(QueryCode.IN_LIST, comparison.span, message, hint)
        return None
    return _check_membership(left, collection, comparison, env)


def _check_item(comparison: syntax.Comparison, env: Env) -> ex.Expr | None:
    checked = check_expression(comparison.left, env)
    if checked is not None and isinstance(checked.type, types.EntityValueType):
        message = f"expected a value, got a {checked.type.name} entity"
        env.report(QueryCode.ENTITY_VALUE, comparison.span, message, PROPERTY_HINT)
        return None
    return checked


def _check_list_items(
    left: ex.Expr, items: syntax.ListLiteral, comparison: syntax.Comparison, env: Env
) -> ex.Expr | None:
    checked: list[ex.Expr] = []
    for item in items.items:
        checked_item = check_expression(item, env, left.type)
        if checked_item is None:
            continue
        if isinstance(checked_item, ex.Literal) and checked_item.value is None:
            hint = "Write `is null`. A comparison with null is never true."
            env.report(QueryCode.NULL_IN_LIST, item.span, "a list cannot contain null", hint)
        elif not types.are_comparable(left.type, checked_item.type):
            _report_incomparable(left.type, checked_item.type, comparison.span, env)
        else:
            checked.append(checked_item)
    return ex.InList(left, tuple(checked)) if len(checked) == len(items.items) else None


def _check_contains(comparison: syntax.Comparison, env: Env) -> ex.Expr | None:
    left = check_expression(comparison.left, env)
    item_type = ScalarType(left.type.item) if left and isinstance(left.type, ListType) else None
    right = check_expression(comparison.right, env, item_type)
    if left is None or right is None:
        return None
    if isinstance(left.type, ListType):
        return _check_membership(right, left, comparison, env)
    if types.is_text(left.type) and types.is_text(right.type):
        return ex.Substring(left, right)
    message = f"`contains` requires a list and an item, or two strings, got {_types_text(left, right)}"
    env.report(QueryCode.CONTAINS, comparison.span, message)
    return None


def _check_membership(item: ex.Expr, collection: ex.Expr, comparison: syntax.Comparison, env: Env) -> ex.Expr | None:
    assert isinstance(collection.type, ListType)
    item_type = ScalarType(collection.type.item)
    if not types.are_comparable(item.type, item_type):
        is_contains = comparison.operator is ComparisonOperator.CONTAINS
        code = QueryCode.CONTAINS if is_contains else QueryCode.COMPARISON
        message = f"expected an item of type {types.value_type_text(item_type)}, got {types.value_type_text(item.type)}"
        env.report(code, comparison.span, message)
        return None
    return ex.ListMembership(item, collection)


def _check_text_test(comparison: syntax.Comparison, env: Env) -> ex.Expr | None:
    """Check `starts_with` or `like`, which compare two strings."""
    left, right = check_expression(comparison.left, env), check_expression(comparison.right, env)
    if left is None or right is None:
        return None
    is_like = comparison.operator is ComparisonOperator.LIKE
    if not (types.is_text(left.type) and types.is_text(right.type)):
        code = QueryCode.LIKE if is_like else QueryCode.STARTS_WITH
        message = f"`{comparison.operator.value}` requires two strings, got {_types_text(left, right)}"
        env.report(code, comparison.span, message)
        return None
    if not is_like:
        return ex.Prefix(left, right)
    if not isinstance(right, ex.Literal | ex.Param):
        hint = "Write `contains` or `starts_with` to compare with another property."
        message = "the pattern of `like` must be a literal or a parameter"
        env.report(QueryCode.LIKE, comparison.right.span, message, hint)
        return None
    return ex.Like(left, right)


def _types_text(left: ex.Expr, right: ex.Expr) -> str:
    return f"{types.value_type_text(left.type)} and {types.value_type_text(right.type)}"
