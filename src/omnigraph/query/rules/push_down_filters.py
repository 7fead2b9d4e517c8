"""Moves conditions down to where their variables are bound, one conjunct at a time.

A condition over the outer rows of a join goes below it, and one above a pattern goes into it, where the order of the
traversals and the filters of the scans are decided. What an `optional` binds is filtered above its join, because below
it the condition would keep the row with nulls.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.query.plan.expression_walk import reads_of
from omnigraph.query.plan.expressions import And, Expr, names
from omnigraph.query.plan.operators import ExistsJoin, FilterRows, LeftJoin, Pattern
from omnigraph.query.plan.statements import Relation
from omnigraph.query.plan.types import PlanFacts
from omnigraph.query.plan.walk import rewritten_plan


def push_down_filters(root: Relation, facts: PlanFacts) -> Relation:  # noqa: ARG001 - every rule takes the facts
    """The rule."""
    return rewritten_plan(root, _rewrite)


def _rewrite(relation: Relation) -> Relation:
    if not isinstance(relation, FilterRows):
        return relation
    return _pushed(relation.input, split_conjuncts(relation.conditions))


def split_conjuncts(conditions: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The conditions one by one: `and` is what a list of them means anyway."""
    conjuncts: list[Expr] = []
    for condition in conditions:
        conjuncts.extend(split_conjuncts(condition.operands) if isinstance(condition, And) else (condition,))
    return tuple(conjuncts)


def _pushed(below: Relation, conditions: tuple[Expr, ...]) -> Relation:
    if not conditions:
        return below
    match below:
        case FilterRows(deeper, others):
            return _pushed(deeper, (*others, *conditions))
        case Pattern(filters=filters):
            return replace(below, filters=(*filters, *conditions))
        case ExistsJoin(outer) | LeftJoin(outer):
            down, stay = _split(conditions, outer)
            return _filter(replace(below, input=_pushed(outer, down)), stay)
        case _:
            return _filter(below, conditions)


def _split(conditions: tuple[Expr, ...], side: Relation) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """What reads only this side, and the rest."""
    available = set(names(side.outputs))
    down = tuple(condition for condition in conditions if reads_of(condition) <= available)
    return down, tuple(condition for condition in conditions if not reads_of(condition) <= available)


def _filter(relation: Relation, conditions: tuple[Expr, ...]) -> Relation:
    return FilterRows(relation, conditions) if conditions else relation
