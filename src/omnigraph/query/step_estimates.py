"""How many rows each step of a plan may give, for people who read it.

The guesses are those with which plans are compared, so they show why a plan was chosen, not what will come out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from omnigraph.query.estimates import fan_out, filtered_rows, rows_of, selectivity
from omnigraph.query.explain import StepFigures
from omnigraph.query.expressions import Expr, Literal
from omnigraph.query.facts import PlanFacts
from omnigraph.query.plan import (
    Aggregate,
    Argument,
    CrossJoin,
    EdgeExpand,
    EdgeScan,
    ExistsJoin,
    Expand,
    ExpandInto,
    Filter,
    LeftJoin,
    Limit,
    Link,
    Lookup,
    Order,
    Pattern,
    Project,
    QueryPlan,
    Relation,
    Scan,
    Search,
    Unit,
)
from omnigraph.query.plan_walk import inputs_of, roots_of

_KEPT_BY_CHECK: Final = 0.5
_GROUPS: Final = 0.1


def estimate_steps(plan: QueryPlan, facts: PlanFacts) -> Mapping[int, StepFigures]:
    """A figure for every numbered step of a rewritten plan."""
    rows = (found for root in roots_of(plan) for found in _walk(root, facts, 1.0))
    return {number: StepFigures(rows_estimated=round(found)) for number, found in enumerate(rows, start=1)}


def _walk(relation: Relation, facts: PlanFacts, outer: float) -> Iterator[float]:
    """The rows of a step and of those below it, in the order of their numbers."""
    yield _rows(relation, facts, outer)
    match relation:
        case ExistsJoin(below, inner) | LeftJoin(below, inner):
            yield from _walk(below, facts, outer)
            yield from _walk(inner, facts, _rows(below, facts, outer))
        case _:
            for below in inputs_of(relation):
                yield from _walk(below, facts, outer)


def _rows(relation: Relation, facts: PlanFacts, outer: float) -> float:
    match relation:
        case Unit():
            return 1.0
        case Argument():
            return outer
        case Scan(entity, _, scan_filter):
            return filtered_rows(entity, scan_filter.conjuncts, facts)
        case EdgeScan(edge, undirected=undirected, filter=scan_filter):
            return filtered_rows(edge, scan_filter.conjuncts, facts) * (2 if undirected else 1)
        case Pattern() | Expand() | ExpandInto() | EdgeExpand() | Lookup():
            return _extended(relation, facts, outer)
        case Filter(below, conditions):
            return _kept(_rows(below, facts, outer), conditions)
        case CrossJoin(left, right, on):
            pairs = _rows(left, facts, outer), _rows(right, facts, outer)
            return max(pairs) if on else pairs[0] * pairs[1]
        case ExistsJoin(below):
            return _rows(below, facts, outer) * _KEPT_BY_CHECK
        case LeftJoin(below, inner):
            rows = _rows(below, facts, outer)
            return max(rows, _rows(inner, facts, rows))
        case Aggregate(below, keys):
            return max(1.0, _rows(below, facts, outer) * _GROUPS) if keys else 1.0
        case Limit(below, Literal(int() as count)):
            return min(_rows(below, facts, outer), float(count))
        case Limit(below) | Search(below) | Order(below) | Project(below):
            return _rows(below, facts, outer)


def _extended(
    relation: Pattern | Expand | ExpandInto | EdgeExpand | Lookup, facts: PlanFacts, outer: float
) -> float:
    match relation:
        case Pattern(below, entities):
            rows = 1.0 if below is None else _rows(below, facts, outer)
            for entity in entities:
                rows *= rows_of(entity, facts)
            return rows
        case Expand(below, table, source, target, _, low, high):
            link = Link(table, source, target, low, high)
            return _rows(below, facts, outer) * fan_out(link, source, facts)
        case ExpandInto(below):
            return _rows(below, facts, outer) * _KEPT_BY_CHECK
        case EdgeExpand(below, edge, source, target, filter=scan_filter, into=into):
            rows = _rows(below, facts, outer) * fan_out(Link(edge.table, source, target), source, facts)
            return _kept(rows * (_KEPT_BY_CHECK if into else 1.0), scan_filter.conjuncts)
        case Lookup(below, _, _, scan_filter):
            return _kept(_rows(below, facts, outer), scan_filter.conjuncts)


def _kept(rows: float, conditions: tuple[Expr, ...]) -> float:
    for condition in conditions:
        rows *= selectivity(condition)
    return rows
