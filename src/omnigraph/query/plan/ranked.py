"""Finds ranked searches: a limit over an order that starts with a score, best first. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op


@dataclass(frozen=True, slots=True)
class RankedSearch:
    """A ranked search: its order, the conditions on scores relation it, the search, and the score that ranks."""

    order: op.Order
    conditions: tuple[ex.Expr, ...]
    search: op.Search
    score: ex.NamedExpression[ex.Score]


def find_ranked(limit: op.LimitRows) -> RankedSearch | None:
    """Return the ranked search of a limit; None if it is not one."""
    order = limit.input
    if not isinstance(order, op.Order) or not order.keys:
        return None
    relation: op.Relation = order.input
    conditions: tuple[ex.Expr, ...] = ()
    if isinstance(relation, op.FilterRows):
        conditions = relation.conditions
        relation = relation.input
    if not isinstance(relation, op.Search):
        return None
    key = order.keys[0]
    scores = {column.name: column for column in relation.scores}
    score = scores.get(key.expression.name) if isinstance(key.expression, ex.OutputRef) else None
    if score is None or key.descending is isinstance(score.expression, ex.Nearest):
        return None
    return RankedSearch(order, conditions, relation, score)
