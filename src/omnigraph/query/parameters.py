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


def coerce_params(declared: tuple[Param, ...], given: Mapping[str, object]) -> ParameterValues:
    """A typed value for every declared parameter, or one `ParameterError` with every mistake.

    A nullable parameter that is not given is null. A leading `$` of a given name is taken as part of the sign.
    """
    known = {param.name: param for param in declared}
    named = {name.removeprefix("$"): value for name, value in given.items()}
    values: dict[str, LiteralValue] = {}
    mistakes = [_unknown(name, known) for name in named if name not in known]
    mistakes += [_twice(name) for name in named if name in given and f"${name}" in given]
    for param in declared:
        value = _value(param, named)
        if isinstance(value, ValueMistake):
            mistakes.append((param.name, value))
        else:
            values[param.name] = value
    if mistakes:
        raise _error(mistakes)
    return values


def _value(param: Param, given: Mapping[str, object]) -> LiteralValue | ValueMistake:
    if param.name not in given:
        if param.nullable:
            return None
        shown = value_type_text(param.type)
        return ValueMistake("it is required and not given", f"give `{param.name}`, of type {shown}")
    value = given[param.name]
    if value is None:
        return None if param.nullable else ValueMistake("it is null, and its type has no `?`")
    assert not isinstance(param.type, EntityValueType | NullType), "a parameter has the type of a property"
    return value_from_json(value, param.type)


def _unknown(name: str, known: Mapping[str, Param]) -> tuple[str, ValueMistake]:
    hint = ProblemList("", "").did_you_mean(name, known)
    if not hint:
        listed = ", ".join(quoted(found) for found in list(known)[:20])
        hint = f"the query has {listed}" if known else "the query has no parameters"
    return name, ValueMistake("the query does not declare it", hint)


def _twice(name: str) -> tuple[str, ValueMistake]:
    return name, ValueMistake("it is given twice, with and without `$`", "give it once")


def _error(mistakes: list[tuple[str, ValueMistake]]) -> ParameterError:
    name, first = mistakes[0]
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    listed: list[Fact] = [
        {"parameter": found, "message": mistake.message, "hint": mistake.hint}
        for found, mistake in mistakes[: limits.QUERY_PROBLEMS_MAX]
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

    def statement(found: StatementPlan) -> StatementPlan:
        match found:
            case InsertRow(table, assigned):
                return replace(found, values=_stored(assigned, table, change))
            case UpdateRows(entity, assigned, rows):
                return replace(found, values=_stored(assigned, entity.table, change), rows=run(rows))
            case DeleteRows(_, rows):
                return replace(found, rows=run(rows))

    return replace(plan, statements=tuple(statement(found) for found in plan.statements))


def _check_limits(root: Relation) -> None:
    """A limit that a parameter gives is known only now."""
    for step in steps_of(root):
        for found in (step.count, step.offset) if isinstance(step, LimitRows) else ():
            if isinstance(found, Literal) and isinstance(found.value, int) and found.value < 0:
                message = f"a limit or an offset is {found.value}, and must not be negative"
                raise ParameterError(message, code="query_parameter", hint="give 0 or more")


def _stored(values: tuple[Assigned, ...], table: Table, change: Change) -> tuple[Assigned, ...]:
    found = []
    for assigned in values:
        column = table.column(assigned.column)
        assert column is not None
        value = coerced(rewritten(assigned.value, change))
        found.append(Assigned(assigned.column, _of_type(value, column.type)))
    return tuple(found)


def _of_type(value: Expr, wanted: PropertyType) -> Expr:
    match value, item_type(wanted):
        case Literal(known), _:
            return Literal(_as_type(known, wanted), wanted)
        case ListOf(items), ScalarType() as item:
            return ListOf(tuple(_of_type(found, item) for found in items), wanted)
        case _:
            return value


def _as_type(value: LiteralValue, wanted: PropertyType) -> LiteralValue:
    """A value of an assignable type as one of the column's own: integers to floats, a moment to its day."""
    if isinstance(value, int) and not isinstance(value, bool) and is_float(wanted):
        return float(value) if wanted == F64 else narrow(float(value))
    if isinstance(value, datetime) and wanted == DATE:
        return value.date()
    if isinstance(value, float) and wanted == ScalarType(Scalar.F32):
        return narrow(value)
    return value
