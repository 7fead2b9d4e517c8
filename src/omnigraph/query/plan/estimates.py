"""Rough estimates: the rows of each step of a plan, the selectivity of a condition, and the edges of a node.

Used only to compare plans and to explain them, so that the same simple estimates everywhere are better than precise
ones in some cases. Table sizes come from the facts if they are known. Does no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.statements import QueryPlan
from omnigraph.query.plan.types import BOOL, Entity, PlanFacts
from omnigraph.query.plan.walk import inputs_of, roots_of
from omnigraph.query.syntax import ComparisonOperator
from omnigraph.schema.property_types import EnumType

_ROWS_DEFAULT: Final = 100_000.0
_DEGREE_DEFAULT: Final = 10.0
_EQUAL: Final = 0.01
_RANGE: Final = 0.3
_OTHER: Final = 0.5
_PASSING_CHECK: Final = 0.5
_GROUPS: Final = 0.1


def estimate_rows(plan: QueryPlan, facts: PlanFacts) -> Iterator[float]:
    """Yield the estimated rows of every step of a rewritten plan, in the order of `numbered_steps`."""
    for root in roots_of(plan):
        yield from _estimate_tree(root, facts, 1.0)


def rows_of(entity: Entity, facts: PlanFacts) -> float:
    """Return the number of rows in the table of an entity."""
    rows = facts.table(entity.table.alias).rows
    return _ROWS_DEFAULT if rows is None else float(max(rows, 1))


def filtered_rows(entity: Entity, filters: tuple[ex.Expr, ...], facts: PlanFacts) -> float:
    """Return the number of rows of an entity that pass the filters."""
    rows = rows_of(entity, facts)
    equal = set()
    for condition in filters:
        match condition:
            case ex.Compare(ComparisonOperator.EQ, ex.ColumnRef(column=column)):
                equal.add(column)
    keys = (("id",), entity.table.key, *entity.table.uniques)
    if any(key and equal.issuperset(key) for key in keys):
        return 1.0
    return max(_filter_rows(rows, filters), 0.0 if ex.FALSE in filters else 1.0)


def selectivity(condition: ex.Expr) -> float:
    """Return the fraction of rows for which a condition is true."""
    match condition:
        case ex.Literal(False):
            return 0.0
        case ex.Compare(ComparisonOperator.EQ, ex.ColumnRef(type=column_type)):
            few = column_type == BOOL or isinstance(column_type, EnumType)
            return _RANGE if few else _EQUAL
        case ex.Compare(ComparisonOperator.NE):
            return 1.0
        case ex.Compare():
            return _RANGE
        case ex.InList(_, items):
            return min(1.0, _EQUAL * len(items))
        case ex.Prefix() | ex.TextMatch():
            return _EQUAL * 2
        case ex.IsNull(_, negated):
            return 0.9 if negated else 0.1
        case ex.And(operands):
            return _filter_rows(1.0, operands)
        case ex.Or(operands):
            return min(1.0, sum(selectivity(operand) for operand in operands))
        case ex.Not(operand):
            return 1.0 - selectivity(operand) / 2
        case _:
            return _OTHER


def fan_out(link: op.Link, near: Entity, facts: PlanFacts) -> float:
    """Return the number of nodes that a link reaches from one node of the near endpoint."""
    counts = [facts.table(table.alias).rows for table in link.tables]
    degree = sum(
        _DEGREE_DEFAULT if edges is None else max(edges / rows_of(near, facts), 0.1 / len(counts)) for edges in counts
    )
    if link.undirected:
        degree *= 2
    far = link.target if near == link.source else link.source
    return min(degree**link.high, rows_of(far, facts))


def _estimate_tree(relation: op.Relation, facts: PlanFacts, outer: float) -> Iterator[float]:
    """Yield the rows of a step and of those below it, in the order of their numbers."""
    yield _estimate(relation, facts, outer)
    match relation:
        case op.ExistsJoin(input_step, inner) | op.LeftJoin(input_step, inner):
            yield from _estimate_tree(input_step, facts, outer)
            yield from _estimate_tree(inner, facts, _estimate(input_step, facts, outer))
        case _:
            for input_step in inputs_of(relation):
                yield from _estimate_tree(input_step, facts, outer)


def _estimate(relation: op.Relation, facts: PlanFacts, outer: float) -> float:  # noqa: PLR0912 - one case per operator
    match relation:
        case op.Unit():
            return 1.0
        case op.OuterRow():
            return outer
        case op.Scan(entity, _, scan_filter):
            return filtered_rows(entity, scan_filter.conjuncts, facts)
        case op.EdgeScan(edge, undirected=undirected, filter=scan_filter):
            return filtered_rows(edge, scan_filter.conjuncts, facts) * (2 if undirected else 1)
        case op.Pattern(input_step, entities):
            rows = 1.0 if input_step is None else _estimate(input_step, facts, outer)
            for entity in entities:
                rows *= rows_of(entity, facts)
            return rows
        case op.Expand(input_step, table, source, target, _, low, high, more=more):
            link = op.Link(table, source, target, low, high, more=more)
            return _estimate(input_step, facts, outer) * fan_out(link, source, facts)
        case op.ExpandInto(input_step):
            return _estimate(input_step, facts, outer) * _PASSING_CHECK
        case op.EdgeExpand(input_step, edge, source, target, filter=scan_filter, into=into):
            rows = _estimate(input_step, facts, outer) * fan_out(op.Link(edge.table, source, target), source, facts)
            return _filter_rows(rows * (_PASSING_CHECK if into else 1.0), scan_filter.conjuncts)
        case op.Lookup(input_step, _, _, scan_filter):
            return _filter_rows(_estimate(input_step, facts, outer), scan_filter.conjuncts)
        case op.FilterRows(input_step, conditions):
            return _filter_rows(_estimate(input_step, facts, outer), conditions)
        case op.CrossJoin(left, right, on):
            pairs = _estimate(left, facts, outer), _estimate(right, facts, outer)
            return max(pairs) if on else pairs[0] * pairs[1]
        case op.ExistsJoin(input_step):
            return _estimate(input_step, facts, outer) * _PASSING_CHECK
        case op.LeftJoin(input_step, inner):
            rows = _estimate(input_step, facts, outer)
            return max(rows, _estimate(inner, facts, rows))
        case op.Aggregate(input_step, keys):
            return max(1.0, _estimate(input_step, facts, outer) * _GROUPS) if keys else 1.0
        case op.LimitRows(input_step, ex.Literal(int() as count)):
            return min(_estimate(input_step, facts, outer), float(count))
        case op.LimitRows(input_step) | op.Search(input_step) | op.Order(input_step) | op.Project(input_step):
            return _estimate(input_step, facts, outer)


def _filter_rows(rows: float, conditions: tuple[ex.Expr, ...]) -> float:
    return math.prod((selectivity(condition) for condition in conditions), start=rows)
