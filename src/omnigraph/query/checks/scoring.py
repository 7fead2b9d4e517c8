"""Scores of a result: one step computes them, and the expressions then read its columns.

A query with `nearest` ranks only rows that have a vector. Without an `order`, the first score in `return` decides: the
nearest first, the highest `bm25` or `rrf` first.
"""

from __future__ import annotations

from omnigraph.query.expression_walk import parts_of, replaced
from omnigraph.query.expressions import Expr, IsNull, Nearest, OutputRef, Score
from omnigraph.query.fields import Named
from omnigraph.query.plan import Filter, OrderKey, Relation, ScoreColumn, Search

Scored = tuple[Relation, tuple[Named, ...], tuple[OrderKey, ...]]


def scores_of(expressions: tuple[Expr, ...]) -> tuple[Score, ...]:
    """The distinct scores, outermost only: those inside `rrf` belong to it."""
    found: dict[Score, None] = {}
    for expression in expressions:
        if isinstance(expression, Score):
            found[expression] = None
        else:
            found.update(dict.fromkeys(scores_of(parts_of(expression))))
    return tuple(found)


def implied_order(columns: tuple[Named, ...]) -> tuple[OrderKey, ...]:
    """Best first, by the first column that is a score."""
    first = next((found.expression for found in columns if isinstance(found.expression, Score)), None)
    return () if first is None else (OrderKey(first, descending=not isinstance(first, Nearest)),)


def add_scores(relation: Relation, columns: tuple[Named, ...], keys: tuple[OrderKey, ...]) -> Scored:
    """The relation with its scores, and the expressions over their columns."""
    scores = scores_of((*(found.expression for found in columns), *(key.expression for key in keys)))
    named = {score: f"score_{number}" for number, score in enumerate(scores, start=1)}
    near = [score for score in scores if isinstance(score, Nearest)]
    present = dict.fromkeys(IsNull(score.column, negated=True) for score in near if score.column.nullable)
    if present:
        relation = Filter(relation, tuple(present))
    relation = Search(relation, tuple(ScoreColumn(name, score) for score, name in named.items()))

    def read(expression: Expr) -> Expr | None:
        if not isinstance(expression, Score):
            return None
        return OutputRef(named[expression], expression.type, expression.nullable)

    return (
        relation,
        tuple(Named(found.name, replaced(found.expression, read)) for found in columns),
        tuple(OrderKey(replaced(key.expression, read), key.descending) for key in keys),
    )
