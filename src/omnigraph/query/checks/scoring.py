"""Scores of a result: one step computes them, and the expressions then read its columns.

Without an `order`, the first score in `return` decides. A score as a key has a direction of its own: the nearest first,
the highest `bm25` or `rrf` first; rows without a score come last. A ranked search, a limit over an order that begins
with a score, gives only rows that have this score.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.query.expression_walk import parts_of, replaced
from omnigraph.query.expressions import Bm25, Expr, IsNull, Nearest, OutputRef, Rrf, Score
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


def order_key(expression: Expr, descending: bool | None) -> OrderKey:
    """Return the key of an order; without a written direction a score is best first, anything else ascending."""
    if descending is None:
        descending = isinstance(expression, Bm25 | Rrf)
    return OrderKey(expression, descending, nulls_last=bool(scores_of((expression,))))


def implied_order(columns: tuple[Named, ...]) -> tuple[OrderKey, ...]:
    """Best first, by the first column that is a score."""
    first = next((found.expression for found in columns if isinstance(found.expression, Score)), None)
    return () if first is None else (order_key(first, None),)


def add_scores(
    relation: Relation, columns: tuple[Named, ...], keys: tuple[OrderKey, ...], *, has_limit: bool
) -> Scored:
    """The relation with its scores, and the expressions over their columns."""
    scores = scores_of((*(found.expression for found in columns), *(key.expression for key in keys)))
    named = {score: f"score_{number}" for number, score in enumerate(scores, start=1)}
    first = keys[0].expression if has_limit and keys else None
    ranked = first if isinstance(first, Score) and first.nullable else None
    # A distance depends on its own row only, so that rows without a vector need not be read.
    filters_before = isinstance(ranked, Nearest) and all(isinstance(score, Nearest) for score in scores)
    if filters_before and isinstance(ranked, Nearest):
        relation = Filter(relation, (IsNull(ranked.column, negated=True),))
    relation = Search(relation, tuple(ScoreColumn(name, score) for score, name in named.items()))

    def read(expression: Expr) -> Expr | None:
        if not isinstance(expression, Score):
            return None
        return OutputRef(named[expression], expression.type, expression.nullable)

    if ranked is not None and not filters_before:
        relation = Filter(relation, (IsNull(replaced(ranked, read), negated=True),))
    return (
        relation,
        tuple(Named(found.name, replaced(found.expression, read)) for found in columns),
        tuple(replace(key, expression=replaced(key.expression, read)) for key in keys),
    )
