"""Puts the values of the parameters and the moment into a plan, so that it can be run.

Comes in: a plan, typed values as `coerce_params` gives them, and the time. Goes out: a plan of the same steps with the
same columns, without `Param` and `Now`: a value only ever becomes a literal. Comparisons with the new literals are
fitted to their columns or decided, as for literals of the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from omnigraph.base import limits
from omnigraph.base.errors import Fact, ParameterError
from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.query.plan.expression_walk import rewritten
from omnigraph.query.plan.expressions import Expr, ListOf, Literal, LiteralValue, Now, Param
from omnigraph.query.plan.operators import LimitRows
from omnigraph.query.plan.statements import (
    Assigned,
    DeleteRows,
    InsertRow,
    QueryPlan,
    ReadPlan,
    Relation,
    StatementPlan,
    UpdateRows,
)
from omnigraph.query.plan.types import (
    DATE,
    DATETIME,
    F64,
    NO_FACTS,
    EntityValueType,
    NullType,
    Table,
    is_float,
    value_type_text,
)
from omnigraph.query.plan.walk import Change, rewritten_plan, steps_of, with_expressions
from omnigraph.query.rules.coerce_literals import coerce_literals, coerced
from omnigraph.query.values import value_from_json
from omnigraph.schema.property_types import PropertyType, Scalar, ScalarType, item_type
from omnigraph.schema.values import ValueMistake, narrow

ParameterValues = Mapping[str, LiteralValue]


def coerce_params(declared: tuple[Param, ...], values_by_name: Mapping[str, object]) -> ParameterValues:
    """A typed value for every declared parameter, or one `ParameterError` with every mistake.

    A nullable parameter that is not given is null. A leading `$` of a given name is taken as part of the sign.
    """
    params = {param.name: param for param in declared}
    named = {name.removeprefix("$"): value for name, value in values_by_name.items()}
    values: dict[str, LiteralValue] = {}
    mistakes = [_unknown(name, params) for name in named if name not in params]
    mistakes += [_twice(name) for name in named if name in values_by_name and f"${name}" in values_by_name]
    for param in declared:
        value = _value(param, named)
        if isinstance(value, ValueMistake):
            mistakes.append((param.name, value))
        else:
            values[param.name] = value
    if mistakes:
        raise _error(mistakes)
    return values


def _value(param: Param, values_by_name: Mapping[str, object]) -> LiteralValue | ValueMistake:
    if param.name not in values_by_name:
        if param.nullable:
            return None
        shown = value_type_text(param.type)
        return ValueMistake("it is required and not given", f"give `{param.name}`, of type {shown}")
    value = values_by_name[param.name]
    if value is None:
        return None if param.nullable else ValueMistake("it is null, and its type has no `?`")
    assert not isinstance(param.type, EntityValueType | NullType), "a parameter has the type of a property"
    return value_from_json(value, param.type)


def _unknown(name: str, params: Mapping[str, Param]) -> tuple[str, ValueMistake]:
    hint = ProblemList("", "").did_you_mean(name, params)
    if not hint:
        listed = ", ".join(quoted(param_name) for param_name in list(params)[:20])
        hint = f"the query has {listed}" if params else "the query has no parameters"
    return name, ValueMistake("the query does not declare it", hint)


def _twice(name: str) -> tuple[str, ValueMistake]:
    return name, ValueMistake("it is given twice, with and without `$`", "give it once")


def _error(mistakes: list[tuple[str, ValueMistake]]) -> ParameterError:
    name, first = mistakes[0]
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    listed: list[Fact] = [
        {"parameter": parameter, "message": mistake.message, "hint": mistake.hint}
        for parameter, mistake in mistakes[: limits.QUERY_PROBLEMS_MAX]
    ]
    return ParameterError(
        f"parameter {quoted(name)}: {first.message}{more}",
        code="query_parameter",
        hint=first.hint,
        facts={"parameters": listed},
    )


def bind_plan(plan: QueryPlan, values: ParameterValues, now: datetime) -> QueryPlan:
    """The plan with every parameter replaced by its value; `now` is cut to milliseconds."""
    moment = now.astimezone(UTC)
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def change(expr: Expr) -> Expr:
        match expr:
            case Param(name, value_type):
                return Literal(values[name], value_type)
            case Now():
                return Literal(moment, DATETIME)
            case _:
                return expr

    def run(root: Relation) -> Relation:
        bound = rewritten_plan(
            root, lambda step: with_expressions(step, lambda expr: rewritten(expr, change))
        )
        _check_limits(bound)
        return coerce_literals(bound, NO_FACTS)

    if isinstance(plan, ReadPlan):
        return replace(plan, root=run(plan.root))

    def statement(unbound: StatementPlan) -> StatementPlan:
        match unbound:
            case InsertRow(table, assigned):
                return replace(unbound, values=_stored(assigned, table, change))
            case UpdateRows(entity, assigned, rows):
                return replace(unbound, values=_stored(assigned, entity.table, change), rows=run(rows))
            case DeleteRows(_, rows):
                return replace(unbound, rows=run(rows))

    return replace(plan, statements=tuple(statement(unbound) for unbound in plan.statements))


def _check_limits(root: Relation) -> None:
    """A limit that a parameter gives is known only now."""
    for step in steps_of(root):
        for bound_count in (step.count, step.offset) if isinstance(step, LimitRows) else ():
            if (
                isinstance(bound_count, Literal)
                and isinstance(bound_count.value, int)
                and bound_count.value < 0
            ):
                message = f"a limit or an offset is {bound_count.value}, and must not be negative"
                raise ParameterError(message, code="query_parameter", hint="give 0 or more")


def _stored(values: tuple[Assigned, ...], table: Table, change: Change) -> tuple[Assigned, ...]:
    stored = []
    for assigned in values:
        column = table.column(assigned.column)
        assert column is not None
        value = coerced(rewritten(assigned.value, change))
        stored.append(Assigned(assigned.column, _of_type(value, column.type)))
    return tuple(stored)


def _of_type(value: Expr, column_type: PropertyType) -> Expr:
    match value, item_type(column_type):
        case Literal(literal), _:
            return Literal(_as_type(literal, column_type), column_type)
        case ListOf(items), ScalarType() as item:
            return ListOf(tuple(_of_type(item_value, item) for item_value in items), column_type)
        case _:
            return value


def _as_type(value: LiteralValue, column_type: PropertyType) -> LiteralValue:
    """A value of an assignable type as one of the column's own: integers to floats, a moment to its day."""
    if isinstance(value, int) and not isinstance(value, bool) and is_float(column_type):
        return float(value) if column_type == F64 else narrow(float(value))
    if isinstance(value, datetime) and column_type == DATE:
        return value.date()
    if isinstance(value, float) and column_type == ScalarType(Scalar.F32):
        return narrow(value)
    return value
