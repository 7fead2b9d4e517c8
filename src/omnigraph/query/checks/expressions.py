"""Expressions of a query to typed expressions.

Comes in: a syntax tree and what it can see. Goes out: the typed expression, or None after at least one problem was
reported. A part with a problem does not hide the problems of its neighbours.
"""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import Final, assert_never

from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import NumberLiteral, Span, StringLiteral, TimeLiteral
from omnigraph.query.checks.context import Check, Env, ExpressionPosition
from omnigraph.query.checks.functions import check_call
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan.expressions import (
    And,
    ColumnRef,
    Compare,
    Computed,
    EntityRef,
    Expr,
    InList,
    IsNull,
    ListMembership,
    Literal,
    Negated,
    Not,
    Or,
    Prefix,
    Substring,
)
from omnigraph.query.plan.types import (
    BOOL,
    DATE,
    DATETIME,
    F64,
    I64,
    NULL,
    STRING,
    U64,
    EntityValueType,
    TypeFamily,
    ValueType,
    are_comparable,
    family_of,
    has_order,
    is_number,
    is_text,
    value_type_text,
)
from omnigraph.query.syntax import (
    Access,
    Arithmetic,
    BoolLiteral,
    Call,
    Comparison,
    ComparisonOperator,
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
from omnigraph.schema.property_types import INTEGER_BOUNDS, EnumType, ListType, Scalar, ScalarType
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
    time_type = DATETIME if literal.is_datetime else DATE
    value = value_from_text(literal.text, time_type)
    if isinstance(value, ValueMistake):
        env.report(QueryCode.LITERAL, literal.span, value.message, value.hint)
        return None
    return Literal(value, time_type)


def _text(literal: StringLiteral, env: Env, compared_with: ValueType | None) -> Literal | None:
    if isinstance(compared_with, EnumType):
        value = value_from_literal(literal, compared_with)
        if isinstance(value, ValueMistake):
            near = env.context.problems.did_you_mean(literal.value, compared_with.values)
            env.report(QueryCode.LITERAL, literal.span, value.message, near or value.hint)
            return None
        return Literal(value, compared_with)
    if compared_with is not None and family_of(compared_with) is TypeFamily.TIME:
        return _time(literal, env, compared_with)
    return Literal(literal.value, STRING)


def _time(literal: StringLiteral, env: Env, compared_with: ValueType) -> Literal | None:
    """A date may be compared with a datetime, so either is read; the mistake is told for the column's own type."""
    other = DATETIME if compared_with == DATE else DATE
    for time_type in (compared_with, other):
        assert isinstance(time_type, ScalarType)
        value = value_from_text(literal.value, time_type)
        if not isinstance(value, ValueMistake):
            return Literal(value, time_type)
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


_ORDERED: Final = frozenset(
    {ComparisonOperator.LT, ComparisonOperator.LE, ComparisonOperator.GT, ComparisonOperator.GE}
)


def check_comparison(comparison: Comparison, env: Env, check: Check) -> Expr | None:
    """The typed condition, or None after a problem."""
    match comparison.operator:
        case ComparisonOperator.IN:
            return _in(comparison, env, check)
        case ComparisonOperator.CONTAINS:
            return _contains(comparison, env, check)
        case ComparisonOperator.STARTS_WITH:
            return _starts_with(comparison, env, check)
        case _:
            return _compare(comparison, env, check)


def report_incomparable(left: ValueType, right: ValueType, comparison: Comparison, env: Env) -> None:
    """Two types that no comparison goes between."""
    message = f"{value_type_text(left)} and {value_type_text(right)} cannot be compared"
    families = {family_of(left), family_of(right)}
    hint = ""
    if families == {TypeFamily.ENTITY}:
        hint = "only entities of one type can be equal"
    elif TypeFamily.ENTITY in families:
        hint = "name the property: `$x.prop`"
    elif TypeFamily.LIST in families:
        hint = "write `$x.list contains item`"
    elif families == {TypeFamily.TEXT, TypeFamily.NUMBER}:
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
        checked_item = check(item, env, left.type)
        if checked_item is None:
            continue
        if isinstance(checked_item, Literal) and checked_item.value is None:
            hint = "a comparison with null is never true; write `is null`"
            env.report(QueryCode.NULL_IN_LIST, item.span, "a list has no null items", hint)
        elif not are_comparable(left.type, checked_item.type):
            report_incomparable(left.type, checked_item.type, comparison, env)
        else:
            checked.append(checked_item)
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
        code = (
            QueryCode.CONTAINS if comparison.operator is ComparisonOperator.CONTAINS else QueryCode.COMPARISON
        )
        message = f"the items are {value_type_text(item_type)}, and this is {value_type_text(item.type)}"
        env.report(code, comparison.span, message)
        return None
    return ListMembership(item, collection)


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
    if checked is not None and isinstance(checked.type, EntityValueType):
        hint = "name the property: `$x.prop`"
        env.report(QueryCode.ENTITY_VALUE, comparison.span, "a whole entity is not a value", hint)
        return None
    return checked


def _both(left: Expr, right: Expr) -> str:
    return f"{value_type_text(left.type)} and {value_type_text(right.type)}"


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
    if env.place in {ExpressionPosition.WHERE, ExpressionPosition.VALUE}:
        hint = "a mutation sees the type's own properties, without `$`, and the parameters of the query"
        env.report(QueryCode.WHERE_VARIABLE, variable.span, f"{shown} is not a parameter", hint)
    elif variable.name in env.context.broken:
        return
    elif variable.name in env.context.inside_not:
        hint = "a variable that `not { }` binds exists only inside it"
        env.report(QueryCode.VARIABLE_INSIDE_NOT, variable.span, f"{shown} is bound inside a `not`", hint)
    else:
        names = (*env.variables, *env.context.params)
        near = env.context.problems.did_you_mean(variable.name, names).replace("`", "`$", 1)
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
    entity_type = catalog.type_named(type_name)
    property_names = [prop.name for prop in entity_type.properties] if entity_type else []
    near = env.context.problems.did_you_mean(name, property_names)
    hint = near or (
        f"it has {', '.join(quoted(property_name) for property_name in property_names[:20])}"
        if property_names
        else "it has none"
    )
    env.report(QueryCode.UNKNOWN_PROPERTY, span, f"{type_name} has no property {quoted(name)}", hint)


def _word(word: Word, env: Env) -> Expr | None:
    expression = env.words.get(word.text)
    if expression is not None:
        return expression
    shown = quoted(word.text)
    near = env.context.problems.did_you_mean(word.text, env.words)
    match env.place:
        case ExpressionPosition.ORDER:
            hint = near or "an order is by a name given with `as`, or by an expression"
            env.report(QueryCode.UNKNOWN_WORD, word.span, f"no column is called {shown}", hint)
        case ExpressionPosition.WHERE | ExpressionPosition.VALUE if env.words:
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
    if isinstance(checked.type, EntityValueType):
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
    operands = tuple(operand for operand in checked if operand is not None)
    if len(operands) < len(checked):
        return None
    return And(operands) if expression.junction is Junction.AND else Or(operands)
