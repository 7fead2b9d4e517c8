"""Checks calls of functions: which functions exist, where each is allowed, and which arguments it accepts.

The functions are those of `plan.functions`, and `coalesce`, `now`, the search predicates `search`, `match_text` and
`fuzzy`, the scores `bm25`, `nearest` and `rrf`, and the aggregates. The parameter `check` is `check_expression`, whose
module imports this one.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from omnigraph.base import limits
from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import NumberLiteral
from omnigraph.query.checks.context import PROPERTY_HINT, Check, Env, ExpressionPosition
from omnigraph.query.checks.scalars import COALESCE, check_coalesce, check_function, report_duration, type_text
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import types
from omnigraph.query.plan.expression_walk import walk
from omnigraph.query.plan.functions import DURATIONS, FUNCTIONS
from omnigraph.query.syntax import BoolLiteral, Call, Expression, ListLiteral
from omnigraph.query.values import value_from_expression
from omnigraph.schema.property_types import ListType, Scalar, VectorType
from omnigraph.schema.values import InvalidValue

_AGGREGATES: Final = {function.value: function for function in ex.Function}
_SEARCHES: Final = {mode.value: mode for mode in ex.TextMode}
_COUNTS: Final[dict[str, tuple[int, int | None]]] = {
    "now": (0, 0),
    "search": (2, 2),
    "match_text": (2, 2),
    "fuzzy": (2, 3),
    "bm25": (2, 2),
    "nearest": (2, 2),
    "rrf": (2, 3),
    **dict.fromkeys(_AGGREGATES, (1, 1)),
    COALESCE: (1, None),
    **{name: function.counts for name, function in FUNCTIONS.items()},
}
_DISTINCT: Final = frozenset({ex.Function.COUNT.value, ex.Function.COLLECT.value})
# With one string these are literals, which the parser recognizes.
_TIMES: Final = {"date": '"2026-01-01"', "datetime": '"2026-01-01T00:00:00Z"'}
_NAMED: Final = {"fuzzy": "edits", "rrf": "k"}
_SCORES: Final = frozenset({"bm25", "nearest", "rrf"})
_EXACT: Final = "exact"
_RRF_K: Final = 60
_SIMILARITY_MIN: Final = 0.75
"""Of an unknown function, for a guess: `round` and `count` have 0.6, and `conut` has 0.8."""
_OTHER_NAMES: Final = {
    other: f"did you mean `{name}`?"
    for name, others in {
        "lower": ("lcase", "tolower"),
        "upper": ("ucase", "toupper"),
        "length": ("len", "size", "char_length", "character_length"),
        "substring": ("substr", "mid"),
        "coalesce": ("ifnull", "nvl", "isnull"),
        "collect": ("array_agg", "list", "collect_list", "group_concat", "string_agg"),
    }.items()
    for other in others
}


def check_call(call: Call, env: Env, check: Check) -> ex.Expr | None:
    """Return the typed call, or None after a problem."""
    name = call.name.text
    if name in _TIMES:
        message = f"`{name}` requires one string literal"
        env.report(QueryCode.ARGUMENT_TYPE, call.span, message, f"Write `{name}({_TIMES[name]})`.")
        return None
    if name not in _COUNTS:
        if name in DURATIONS:
            report_duration(call, env)
            return None
        names = (*_COUNTS, *_TIMES, *DURATIONS)
        hint = _OTHER_NAMES.get(name.lower()) or env.context.problems.did_you_mean(name, names, _SIMILARITY_MIN)
        hint = hint or f"The functions are {', '.join(names)}."
        env.report(QueryCode.UNKNOWN_FUNCTION, call.span, f"unknown function {quoted(name)}", hint)
        return None
    if not _has_valid_arguments(call, env):
        return None
    if name == "now":
        return ex.Now()
    if name in FUNCTIONS:
        return check_function(call, env, check)
    if name == COALESCE:
        return check_coalesce(call, env, check)
    if name in _SEARCHES:
        return _check_search(call, env, check)
    if name in _AGGREGATES:
        return _check_aggregate(call, env, check)
    if env.position not in {ExpressionPosition.RETURN, ExpressionPosition.ORDER}:
        message = f"`{name}` is a score, which {env.position.value} cannot use"
        env.report(QueryCode.SCORE_PLACE, call.span, message, "Use scores in `return` and `order`.")
        return None
    return _check_score(call, env, check)


def _check_score(call: Call, env: Env, check: Check) -> ex.Score | None:
    exact = _exact_argument(call, env)
    match call.name.text:
        case "bm25":
            column, query = _check_text_arguments(call, env, check)
            return None if column is None or query is None or exact is None else ex.Bm25(column, query, exact)
        case "nearest":
            nearest = _check_nearest(call, env, check)
            return None if nearest is None or exact is None else replace(nearest, exact=exact)
        case _:
            fused = _check_rrf(call, env, check)
            if fused is None or exact is None:
                return None
            first, second = (replace(score, exact=exact or score.exact) for score in (fused.first, fused.second))
            return ex.Rrf(first, second, fused.k)


def _exact_argument(call: Call, env: Env) -> bool | None:
    """Return the argument `exact`, `true` or `false`; None after a problem."""
    for argument in call.named:
        if argument.name.text == _EXACT:
            if isinstance(argument.value, BoolLiteral):
                return argument.value.value
            message = f"`exact` of `{call.name.text}` must be `true` or `false`"
            env.report(QueryCode.ARGUMENT_TYPE, argument.value.span, message)
            return None
    return False


def _has_valid_arguments(call: Call, env: Env) -> bool:
    """Return whether the number of arguments is right and every named argument exists; report it otherwise."""
    name = call.name.text
    low, high = _COUNTS[name]
    allowed = {_NAMED.get(name), _EXACT if name in _SCORES else None}
    unknown = [argument.name for argument in call.named if argument.name.text not in allowed]
    for wrong in unknown:
        message = f"`{name}` has no argument {quoted(wrong.text)}"
        env.report(QueryCode.ARGUMENT_COUNT, wrong.span, message)
    if call.distinct and name not in _DISTINCT:
        env.report(QueryCode.ARGUMENT_COUNT, call.span, f"`{name}` does not accept `distinct`")
        return False
    if call.star:
        if name != ex.Function.COUNT.value:
            env.report(QueryCode.ARGUMENT_COUNT, call.span, f"`{name}` does not accept `*`", "Only `count` does.")
        return name == ex.Function.COUNT.value
    named_count = len(call.named) - len(unknown) - sum(argument.name.text == _EXACT for argument in call.named)
    argument_count = len(call.arguments) + (named_count if len(call.arguments) >= low else 0)
    if argument_count < low or (high is not None and argument_count > high):
        expected = f"at least {low}" if high is None else str(low) if low == high else f"{low} or {high}"
        plural = "" if expected.endswith("1") else "s"
        message = f"`{name}` takes {expected} argument{plural}, got {argument_count}"
        env.report(QueryCode.ARGUMENT_COUNT, call.span, message)
        return False
    return not unknown


def _check_search(call: Call, env: Env, check: Check) -> ex.Expr | None:
    if env.position not in {ExpressionPosition.FILTER, ExpressionPosition.WHERE}:
        message = f"`{call.name.text}` is a condition, which {env.position.value} cannot use"
        env.report(QueryCode.SEARCH_PLACE, call.span, message, "Use search predicates in `match`.")
        return None
    column, query = _check_text_arguments(call, env, check)
    edits = _number_argument(call, env, default=1, high=limits.FUZZY_EDITS_MAX)
    if column is None or query is None or edits is None:
        return None
    mode = _SEARCHES[call.name.text]
    return ex.TextMatch(mode, column, query, edits if mode is ex.TextMode.FUZZY else 0)


def _check_text_arguments(call: Call, env: Env, check: Check) -> tuple[ex.ColumnRef | None, ex.Expr | None]:
    """Return the String property and the searched text; None for each that has a problem."""
    name = call.name.text
    checked, query = check(call.arguments[0], env, None), check(call.arguments[1], env, None)
    # Full-text search supports String properties only.
    is_text_property = isinstance(checked, ex.ColumnRef) and checked.type == types.STRING and checked.column != "id"
    column = checked if isinstance(checked, ex.ColumnRef) and is_text_property else None
    if checked is not None and column is None:
        shown = type_text(checked)
        if isinstance(checked, ex.ColumnRef):
            shown = "an id" if checked.column == "id" else f"a property of type {shown}"
        elif not isinstance(checked, ex.EntityRef):
            shown = f"an expression of type {shown}"
        message = f"`{name}` requires a String property, got {shown}"
        hint = f"Write `{name}($x.property, …)`."
        env.report(QueryCode.SEARCH_PROPERTY, call.arguments[0].span, message, hint)
    if query is not None and not _is_constant(query, call.arguments[1], name, env):
        return column, None
    if query is not None and not types.is_text(query.type):
        message = f"`{name}` searches for a string, got {type_text(query)}"
        env.report(QueryCode.ARGUMENT_TYPE, call.arguments[1].span, message)
        return column, None
    return column, query


def _number_argument(call: Call, env: Env, *, default: int, high: int) -> int | None:
    """Return the last argument, by position or by name: an integer literal within the bounds."""
    low = 0 if call.name.text == ex.TextMode.FUZZY.value else 1
    argument: Expression | None = next((item.value for item in call.named if item.name.text != _EXACT), None)
    if argument is None and len(call.arguments) > 2:
        argument = call.arguments[2]
    if argument is None:
        return default
    if isinstance(argument, NumberLiteral) and argument.text.isdecimal() and len(argument.text) < 10:
        number = int(argument.text)
        if low <= number <= high:
            return number
    message = f"`{_NAMED[call.name.text]}` of `{call.name.text}` must be an integer from {low} to {high}"
    env.report(QueryCode.SEARCH_NUMBER, argument.span, message)
    return None


def _check_nearest(call: Call, env: Env, check: Check) -> ex.Nearest | None:
    property_argument, query_argument = call.arguments
    checked = check(property_argument, env, None)
    column = checked if isinstance(checked, ex.ColumnRef) and isinstance(checked.type, VectorType) else None
    if checked is not None and column is None:
        message = f"`nearest` requires a Vector property, got {type_text(checked)}"
        hint = "Write `nearest($x.embedding, …)`."
        env.report(QueryCode.NEAREST_PROPERTY, property_argument.span, message, hint)
    query = (
        _vector(query_argument, column, env)
        if isinstance(query_argument, ListLiteral)
        else check(query_argument, env, None)
    )
    if column is None or query is None or not _is_constant(query, query_argument, "nearest", env):
        return None
    return _make_nearest(column, query, query_argument, env)


def _is_constant(query: ex.Expr, argument: Expression, name: str, env: Env) -> bool:
    """Return whether the searched value is the same for all rows and never null; report it otherwise."""
    if not isinstance(query, ex.Literal | ex.Param):
        message = f"the second argument of `{name}` must be a literal or a parameter"
        env.report(QueryCode.ARGUMENT_TYPE, argument.span, message)
        return False
    if query.nullable:
        message = f"the second argument of `{name}` cannot be null"
        env.report(QueryCode.ARGUMENT_TYPE, argument.span, message, "Declare the parameter without `?`.")
        return False
    return True


def _vector(items: ListLiteral, column: ex.ColumnRef | None, env: Env) -> ex.Literal | None:
    vector_type = column.type if column else None
    if not isinstance(vector_type, VectorType):
        return None
    value = value_from_expression(items, vector_type)
    if isinstance(value, InvalidValue):
        code = QueryCode.VECTOR_LENGTH if len(items.items) != vector_type.size else QueryCode.LITERAL
        env.report(code, items.span, value.message, value.hint)
        return None
    return ex.Literal(value, vector_type)


def _make_nearest(column: ex.ColumnRef, query: ex.Expr, argument: Expression, env: Env) -> ex.Nearest | None:
    assert isinstance(column.type, VectorType)
    match query.type:
        case VectorType(size):
            if size == column.type.size:
                return ex.Nearest(column, query)
            message = f"wrong vector length: expected {column.type.size}, got {size}"
            env.report(QueryCode.VECTOR_LENGTH, argument.span, message)
            return None
        case ListType(Scalar.F32 | Scalar.F64):
            message = f"expected {types.value_type_text(column.type)}, got a list without a fixed length"
            hint = f"Declare the parameter as `{types.value_type_text(column.type)}`."
            env.report(QueryCode.VECTOR_LENGTH, argument.span, message, hint)
            return None
    if types.family_of(query.type) is not types.TypeFamily.TEXT:
        message = f"`nearest` requires a vector or a string, got {types.value_type_text(query.type)}"
        env.report(QueryCode.ARGUMENT_TYPE, argument.span, message)
        return None
    embedded = _embedded_column(column, env)
    if embedded is None:
        hint = 'Pass a vector, or declare the property with `@embed("source")`.'
        message = "`nearest` cannot embed a string, because the property has no `@embed`"
        env.report(QueryCode.NEAREST_TEXT, argument.span, message, hint)
        return None
    return ex.Nearest(column, query, embed=True, model=embedded.model)


def _embedded_column(column: ex.ColumnRef, env: Env) -> types.Column | None:
    """Return the column if it is embedded; by its entity, since `order` can use an alias without a variable."""
    entities = (bound.entity for bound in env.variables.values())
    table = next(entity.table for entity in entities if entity.name == column.entity)
    table_column = table.column(column.column)
    return table_column if table_column is not None and table_column.embedded else None


def _check_rrf(call: Call, env: Env, check: Check) -> ex.Rrf | None:
    scores: list[ex.Nearest | ex.Bm25] = []
    for argument in call.arguments[:2]:
        score = check(argument, env, None)
        if isinstance(score, ex.Nearest | ex.Bm25):
            scores.append(score)
        elif score is not None:
            message = "the first two arguments of `rrf` must be `nearest(…)` or `bm25(…)`"
            env.report(QueryCode.RRF_ARGUMENT, argument.span, message)
    k = _number_argument(call, env, default=_RRF_K, high=limits.RRF_K_MAX)
    return ex.Rrf(scores[0], scores[1], k) if len(scores) == 2 and k is not None else None


def _check_aggregate(call: Call, env: Env, check: Check) -> ex.Expr | None:
    function = _AGGREGATES[call.name.text]
    if env.position is ExpressionPosition.AGGREGATE:
        message = f"`{function.value}` cannot be used inside another aggregate"
        env.report(QueryCode.AGGREGATE_NESTED, call.span, message)
        return None
    if env.position not in {ExpressionPosition.RETURN, ExpressionPosition.HAVING, ExpressionPosition.ORDER}:
        message = f"`{function.value}` is an aggregate, which {env.position.value} cannot use"
        hint = "Use aggregates in `return`, `having` and `order`."
        env.report(QueryCode.AGGREGATE_PLACE, call.span, message, hint)
        return None
    if call.star:
        return ex.AggregateCall(function, ex.EVERY_ROW)
    argument = check(call.arguments[0], replace(env, position=ExpressionPosition.AGGREGATE), None)
    if argument is not None and any(isinstance(part, ex.AggregateCall | ex.Score) for part in walk(argument)):
        message = f"the argument of `{function.value}` cannot contain an aggregate or a score"
        env.report(QueryCode.AGGREGATE_NESTED, call.span, message)
        return None
    if argument is None or not _accepts(function, argument, call, env):
        return None
    if isinstance(argument, ex.EntityRef) and function is not ex.Function.COLLECT:
        argument = argument.id
    return ex.AggregateCall(function, argument, call.distinct)


def _accepts(function: ex.Function, argument: ex.Expr, call: Call, env: Env) -> bool:
    """Return whether an aggregate supports the type of its argument; report it otherwise."""
    shown = type_text(argument)
    hint = ""
    match function:
        case ex.Function.COUNT:
            is_valid = types.family_of(argument.type) is not types.TypeFamily.OPAQUE
            message = f"`count` does not support {shown}"
        case ex.Function.SUM | ex.Function.AVG:
            is_valid = types.is_number(argument.type)
            message = f"`{function.value}` requires numbers, got {shown}"
        case ex.Function.MIN | ex.Function.MAX:
            is_valid = types.is_sortable(argument.type) and not isinstance(argument.type, types.NullType)
            message = f"`{function.value}` requires values with an order, got {shown}"
            hint = PROPERTY_HINT if isinstance(argument, ex.EntityRef) else ""
        case ex.Function.COLLECT:
            is_scalar = types.is_sortable(argument.type) and not isinstance(argument.type, types.NullType)
            is_valid = is_scalar or isinstance(argument, ex.EntityRef)
            message = f"`collect` requires entities or values of a scalar type, got {shown}"
    if not is_valid:
        env.report(QueryCode.AGGREGATE_TYPE, call.arguments[0].span, message, hint)
    return is_valid
