"""Puts the values of the parameters and the moment into a plan, so that it can be run.

Comes in: a plan, typed values as `coerce_params` gives them, and the time. Goes out: a plan of the same steps with the
same columns, without `Param` and `Now`: a value only ever becomes a literal. Comparisons with the new literals are
fitted to their columns or decided, as for literals of the text.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from omnigraph.base.errors import ParameterError
from omnigraph.query.expression_walk import rewritten
from omnigraph.query.expressions import Expr, ListOf, Literal, LiteralValue, Now, Param
from omnigraph.query.facts import NO_FACTS
from omnigraph.query.parameters import ParameterValues
from omnigraph.query.plan import (
    Assigned,
    DeleteRows,
    InsertRow,
    Limit,
    QueryPlan,
    ReadPlan,
    Relation,
    StatementPlan,
    UpdateRows,
)
from omnigraph.query.plan_walk import Change, rewritten_plan, steps_of, with_expressions
from omnigraph.query.rules.literal_coercion import coerced, literal_coercion
from omnigraph.query.tables import Table
from omnigraph.query.value_types import DATE, DATETIME, F64, is_float
from omnigraph.schema.property_types import PropertyType, Scalar, ScalarType, item_type
from omnigraph.schema.values import narrow


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
        return literal_coercion(bound, NO_FACTS)

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
        for found in (step.count, step.offset) if isinstance(step, Limit) else ():
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
