"""Rule: move each conjunct down to where its variables are bound.

A condition on the outer rows of a join moves below the join, and one above a pattern moves into the pattern, where the
next rule uses it. A condition on a variable of an `optional` stays above its join, because below it the row would be
kept with nulls.
"""

from __future__ import annotations

from msgspec.structs import replace

from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import reads_of
from omnigraph.query.plan.expressions import And, Expr, names
from omnigraph.query.plan.types import PlanFacts
from omnigraph.query.plan.walk import transform_plan


def push_down_filters(root: op.Relation, facts: PlanFacts) -> op.Relation:  # noqa: ARG001 - every rule takes the facts
    """Move filters down."""
    return transform_plan(root, _push_step)


def _push_step(relation: op.Relation) -> op.Relation:
    if not isinstance(relation, op.FilterRows):
        return relation
    return _push(relation.input, split_conjuncts(relation.conditions))


def split_conjuncts(conditions: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return the conditions with the operands of every `and` on their own."""
    conjuncts: list[Expr] = []
    for condition in conditions:
        conjuncts.extend(split_conjuncts(condition.operands) if isinstance(condition, And) else (condition,))
    return tuple(conjuncts)


def _push(relation: op.Relation, conditions: tuple[Expr, ...]) -> op.Relation:
    if not conditions:
        return relation
    match relation:
        case op.FilterRows(deeper, others):
            return _push(deeper, (*others, *conditions))
        case op.Pattern(filters=filters):
            return replace(relation, filters=(*filters, *conditions))
        case op.ExistsJoin(outer) | op.LeftJoin(outer):
            below_join, above_join = _split(conditions, outer)
            return _add_filter(replace(relation, input=_push(outer, below_join)), above_join)
        case _:
            return _add_filter(relation, conditions)


def _split(conditions: tuple[Expr, ...], side: op.Relation) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Return the conditions that read only this side, and the others."""
    available = set(names(side.outputs))
    down = tuple(condition for condition in conditions if reads_of(condition) <= available)
    return down, tuple(condition for condition in conditions if not reads_of(condition) <= available)


def _add_filter(relation: op.Relation, conditions: tuple[Expr, ...]) -> op.Relation:
    return op.FilterRows(relation, conditions) if conditions else relation
