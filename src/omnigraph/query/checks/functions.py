"""Calls of functions: which exist, where they may stand, and what they take.

`now`; the search predicates `search`, `match_text`, `fuzzy`; the scores `bm25`, `nearest`, `rrf`; the aggregates
`count`, `sum`, `avg`, `min`, `max`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from omnigraph.base import limits
from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import NumberLiteral
from omnigraph.query.checks.context import Check, Env, ExpressionPosition
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan.expression_walk import walk
from omnigraph.query.plan.expressions import (
    AggregateCall,
    Bm25,
    ColumnRef,
    EntityRef,
    Expr,
    Function,
    Literal,
    Nearest,
    Now,
    Param,
    Rrf,
    Score,
    TextMatch,
    TextMode,
)
from omnigraph.query.plan.types import (
    STRING,
    Column,
    NullType,
    TypeFamily,
    family_of,
    is_number,
    is_sortable,
    is_text,
    value_type_text,
)
from omnigraph.query.syntax import Call, Expression, ListLiteral
from omnigraph.query.values import value_from_expression
from omnigraph.schema.property_types import ListType, Scalar, VectorType
from omnigraph.schema.values import ValueMistake


def check_nearest(call: Call, env: Env, check: Check) -> Nearest | None:
    """The typed score, or None after a problem."""
    place, query_argument = call.arguments
    checked = check(place, env, None)
    column = checked if isinstance(checked, ColumnRef) and isinstance(checked.type, VectorType) else None
    if checked is not None and column is None:
        shown = value_type_text(checked.type)
        message = f"`nearest` works on a Vector property, not {shown}"
        env.report(QueryCode.NEAREST_PROPERTY, place.span, message, "write `nearest($x.embedding, …)`")
    query = (
        _vector(query_argument, column, env)
        if isinstance(query_argument, ListLiteral)
        else check(query_argument, env, None)
    )
    if column is None or query is None or not check_constant(query, query_argument, "nearest", env):
        return None
    return _nearest(column, query, query_argument, env)


def check_constant(query: Expr, argument: Expression, name: str, env: Env) -> bool:
    """What is searched for is one value for the whole query, and never null."""
    if not isinstance(query, Literal | Param):
        message = f"`{name}` looks for a literal or a parameter, the same for every row"
        env.report(QueryCode.ARGUMENT_TYPE, argument.span, message)
        return False
    if query.nullable:
        message = f"`{name}` cannot look for null"
        env.report(QueryCode.ARGUMENT_TYPE, argument.span, message, "declare the parameter without `?`")
        return False
    return True


def _vector(items: ListLiteral, column: ColumnRef | None, env: Env) -> Literal | None:
    vector_type = column.type if column else None
    if not isinstance(vector_type, VectorType):
        return None
    value = value_from_expression(items, vector_type)
    if isinstance(value, ValueMistake):
        code = QueryCode.VECTOR_LENGTH if len(items.items) != vector_type.size else QueryCode.LITERAL
        env.report(code, items.span, value.message, value.hint)
        return None
    return Literal(value, vector_type)


def _nearest(column: ColumnRef, query: Expr, argument: Expression, env: Env) -> Nearest | None:
    assert isinstance(column.type, VectorType)
    match query.type:
        case VectorType(size):
            if size == column.type.size:
                return Nearest(column, query)
            message = f"the vector has {size} numbers, the property {column.type.size}"
            env.report(QueryCode.VECTOR_LENGTH, argument.span, message)
            return None
        case ListType(Scalar.F32 | Scalar.F64):
            hint = f"declare the parameter as `{value_type_text(column.type)}`"
            env.report(QueryCode.VECTOR_LENGTH, argument.span, "a list has no fixed length", hint)
            return None
    if family_of(query.type) is not TypeFamily.TEXT:
        message = f"`nearest` needs a vector or a text, not {value_type_text(query.type)}"
        env.report(QueryCode.ARGUMENT_TYPE, argument.span, message)
        return None
    made = _embedded(column, env)
    if made is None:
        hint = 'give a vector, or declare the property with `@embed("source")`'
        message = "a text is looked for, and no `@embed` says how the property's vectors are made"
        env.report(QueryCode.NEAREST_TEXT, argument.span, message, hint)
        return None
    return Nearest(column, query, embed=True, model=made.model)


def _embedded(column: ColumnRef, env: Env) -> Column | None:
    """By the entity of the column: in `order` it may be written as a name of `return`, without its variable."""
    entities = (bound.entity for bound in env.variables.values())
    table = next(entity.table for entity in entities if entity.name == column.entity)
    made = table.column(column.column)
    return made if made is not None and made.embedded else None


_AGGREGATES: Final = {function.value: function for function in Function}
_SEARCHES: Final = {mode.value: mode for mode in TextMode}
_COUNTS: Final = {
    "now": (0, 0),
    "search": (2, 2),
    "match_text": (2, 2),
    "fuzzy": (2, 3),
    "bm25": (2, 2),
    "nearest": (2, 2),
    "rrf": (2, 3),
    **dict.fromkeys(_AGGREGATES, (1, 1)),
}
# With one string these are literals, and the parser has made them so.
_TIMES: Final = {"date": '"2026-01-01"', "datetime": '"2026-01-01T00:00:00Z"'}
_NAMED: Final = {"fuzzy": "edits", "rrf": "k"}
_RRF_K: Final = 60


def check_call(call: Call, env: Env, check: Check) -> Expr | None:
    """The typed call, or None after a problem."""
    name = call.name.text
    if name in _TIMES:
        message = f"`{name}` needs one string in quotes"
        env.report(QueryCode.ARGUMENT_TYPE, call.span, message, f"write `{name}({_TIMES[name]})`")
        return None
    if name not in _COUNTS:
        near = env.context.problems.did_you_mean(name, (*_COUNTS, *_TIMES))
        hint = near or f"the functions are {', '.join((*_COUNTS, *_TIMES))}"
        env.report(QueryCode.UNKNOWN_FUNCTION, call.span, f"no function is called {quoted(name)}", hint)
        return None
    if not _has_right_count(call, env):
        return None
    if name == "now":
        return Now()
    if name in _SEARCHES:
        return _search(call, env, check)
    if name in _AGGREGATES:
        return _aggregate(call, env, check)
    if env.place not in {ExpressionPosition.RETURN, ExpressionPosition.ORDER}:
        message = f"`{name}` is a score, which {env.place.value} cannot use"
        env.report(QueryCode.SCORE_PLACE, call.span, message, "scores stand in `return` and `order`")
        return None
    return _score(call, env, check)


def _has_right_count(call: Call, env: Env) -> bool:
    name = call.name.text
    low, high = _COUNTS[name]
    unknown = [argument.name for argument in call.named if argument.name.text != _NAMED.get(name)]
    for wrong in unknown:
        message = f"`{name}` has no argument {quoted(wrong.text)}"
        env.report(QueryCode.ARGUMENT_COUNT, wrong.span, message)
    if call.distinct and name != Function.COUNT.value:
        env.report(QueryCode.ARGUMENT_COUNT, call.span, "only `count` takes `distinct`")
        return False
    named_count = len(call.named) - len(unknown)
    argument_count = len(call.arguments) + (named_count if len(call.arguments) >= low else 0)
    if not low <= argument_count <= high:
        expected = str(low) if low == high else f"{low} or {high}"
        message = f"`{name}` takes {expected} argument{'' if expected == '1' else 's'}, not {argument_count}"
        env.report(QueryCode.ARGUMENT_COUNT, call.span, message)
        return False
    return not unknown


def _search(call: Call, env: Env, check: Check) -> Expr | None:
    if env.place not in {ExpressionPosition.FILTER, ExpressionPosition.WHERE}:
        message = f"`{call.name.text}` is a condition, which {env.place.value} cannot use"
        env.report(QueryCode.SEARCH_PLACE, call.span, message, "search predicates stand in `match`")
        return None
    column, query = _text_and_query(call, env, check)
    edits = _number_argument(call, env, default=1, high=limits.FUZZY_EDITS_MAX)
    if column is None or query is None or edits is None:
        return None
    mode = _SEARCHES[call.name.text]
    return TextMatch(mode, column, query, edits if mode is TextMode.FUZZY else 0)


def _text_and_query(call: Call, env: Env, check: Check) -> tuple[ColumnRef | None, Expr | None]:
    """The String property and the words to look for."""
    name = call.name.text
    checked, query = check(call.arguments[0], env, None), check(call.arguments[1], env, None)
    column = checked if isinstance(checked, ColumnRef) and _is_text_property(checked) else None
    if checked is not None and column is None:
        shown = "an id" if isinstance(checked, ColumnRef) and checked.column == "id" else _shown(checked)
        message = f"`{name}` searches a String property, not {shown}"
        hint = f"write `{name}($x.property, …)`"
        env.report(QueryCode.SEARCH_PROPERTY, call.arguments[0].span, message, hint)
    if query is not None and not check_constant(query, call.arguments[1], name, env):
        return column, None
    if query is not None and not is_text(query.type):
        message = f"`{name}` looks for a text, not {_shown(query)}"
        env.report(QueryCode.ARGUMENT_TYPE, call.arguments[1].span, message)
        return column, None
    return column, query


def _is_text_property(column: ColumnRef) -> bool:
    """Whether full-text search works on it."""
    return column.type == STRING and column.column != "id"


def _number_argument(call: Call, env: Env, *, default: int, high: int) -> int | None:
    """The last argument, by position or by name: a whole number that is written down, not a parameter."""
    low = 0 if call.name.text == TextMode.FUZZY.value else 1
    argument: Expression | None = call.named[0].value if call.named else None
    if argument is None and len(call.arguments) > 2:
        argument = call.arguments[2]
    if argument is None:
        return default
    if isinstance(argument, NumberLiteral) and argument.text.isdecimal() and len(argument.text) < 10:
        number = int(argument.text)
        if low <= number <= high:
            return number
    message = f"`{_NAMED[call.name.text]}` of `{call.name.text}` is a whole number from {low} to {high}"
    env.report(QueryCode.SEARCH_NUMBER, argument.span, message)
    return None


def _score(call: Call, env: Env, check: Check) -> Score | None:
    match call.name.text:
        case "bm25":
            column, query = _text_and_query(call, env, check)
            return None if column is None or query is None else Bm25(column, query)
        case "nearest":
            return check_nearest(call, env, check)
        case _:
            return _rrf(call, env, check)


def _rrf(call: Call, env: Env, check: Check) -> Score | None:
    scores: list[Nearest | Bm25] = []
    for argument in call.arguments[:2]:
        score = check(argument, env, None)
        if isinstance(score, Nearest | Bm25):
            scores.append(score)
        elif score is not None:
            message = "`rrf` joins two of `nearest(…)` and `bm25(…)`"
            env.report(QueryCode.RRF_ARGUMENT, argument.span, message)
    k = _number_argument(call, env, default=_RRF_K, high=limits.RRF_K_MAX)
    return Rrf(scores[0], scores[1], k) if len(scores) == 2 and k is not None else None


def _aggregate(call: Call, env: Env, check: Check) -> Expr | None:
    function = _AGGREGATES[call.name.text]
    if env.place is ExpressionPosition.AGGREGATE:
        message = f"`{function.value}` stands inside another aggregate"
        env.report(QueryCode.AGGREGATE_NESTED, call.span, message)
        return None
    if env.place not in {ExpressionPosition.RETURN, ExpressionPosition.ORDER}:
        message = f"`{function.value}` is an aggregate, which {env.place.value} cannot use"
        env.report(QueryCode.AGGREGATE_PLACE, call.span, message, "aggregates stand in `return` and `order`")
        return None
    argument = check(call.arguments[0], replace(env, place=ExpressionPosition.AGGREGATE), None)
    if argument is not None and any(isinstance(part, AggregateCall | Score) for part in walk(argument)):
        message = f"`{function.value}` has an aggregate or a score inside"
        env.report(QueryCode.AGGREGATE_NESTED, call.span, message)
        return None
    if argument is None or not _fits(function, argument, call, env):
        return None
    if isinstance(argument, EntityRef):
        argument = argument.id
    return AggregateCall(function, argument, call.distinct)


def _fits(function: Function, argument: Expr, call: Call, env: Env) -> bool:
    shown = _shown(argument)
    hint = ""
    match function:
        case Function.COUNT:
            good = family_of(argument.type) is not TypeFamily.OPAQUE
            message = f"`count` cannot count {shown}"
        case Function.SUM | Function.AVG:
            good = is_number(argument.type)
            message = f"`{function.value}` needs numbers, not {shown}"
        case Function.MIN | Function.MAX:
            good = is_sortable(argument.type) and not isinstance(argument.type, NullType)
            message = f"`{function.value}` needs values with an order, not {shown}"
            hint = "name the property: `$x.prop`" if isinstance(argument, EntityRef) else ""
    if not good:
        env.report(QueryCode.AGGREGATE_TYPE, call.arguments[0].span, message, hint)
    return good


def _shown(expr: Expr) -> str:
    return f"a whole {expr.table.name}" if isinstance(expr, EntityRef) else value_type_text(expr.type)
