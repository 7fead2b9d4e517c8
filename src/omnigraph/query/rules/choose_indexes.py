"""Notes which index serves each read, and what it does not cover.

A choice changes no rows: with any coverage, and without an index, a read gives the same. For a scan the index is that
of its most selective condition; equality and `in` before a prefix before a range, text search where there is nothing
else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from omnigraph.query.plan.expression_walk import ScanFilter
from omnigraph.query.plan.expressions import (
    Bm25,
    ColumnRef,
    Compare,
    Expr,
    InList,
    ListMembership,
    Nearest,
    Prefix,
    Rrf,
    Score,
    TextMatch,
)
from omnigraph.query.plan.operators import (
    Direction,
    EdgeExpand,
    EdgeScan,
    Expand,
    ExpandInto,
    Lookup,
    Scan,
    Search,
)
from omnigraph.query.plan.statements import Relation
from omnigraph.query.plan.types import Entity, IndexFact, PlanFacts, Table, TableFacts
from omnigraph.query.plan.walk import rewritten_plan, steps_of
from omnigraph.query.syntax import ComparisonOperator
from omnigraph.schema.property_types import IndexKind

_EQUALITY, _LISTED, _PREFIX, _RANGE, _TEXT = range(5)
_ENDS: Final = {
    Direction.OUT: ("src",),
    Direction.IN: ("dst",),
    Direction.BOTH: ("src", "dst"),
}


def choose_indexes(root: Relation, facts: PlanFacts) -> Relation:
    """The rule."""
    tables = {entity.name: entity.table for entity in _entities(root)}

    def change(relation: Relation) -> Relation:
        match relation:
            case Scan(entity, _, scan_filter):
                return replace(relation, index=_best(scan_filter, facts.table(entity.table.alias)))
            case EdgeScan(edge, filter=scan_filter):
                return replace(relation, index=_best(scan_filter, facts.table(edge.table.alias)))
            case Lookup(entity=entity):
                table_facts = facts.table(entity.table.alias)
                return replace(relation, index=table_facts.index("id", IndexKind.BTREE))
            case Expand(table=table, direction=direction) | ExpandInto(table=table, direction=direction):
                return replace(relation, index=_end(facts.table(table.alias), direction))
            case EdgeExpand(edge=edge, direction=direction):
                return replace(relation, index=_end(facts.table(edge.table.alias), direction))
            case Search(scores=scores):
                uses = (use for column in scores for use in _score_uses(column.score, tables, facts))
                return replace(relation, index=tuple(dict.fromkeys(uses)))
            case _:
                return relation

    return rewritten_plan(root, change)


def _entities(root: Relation) -> Iterator[Entity]:
    for step in steps_of(root):
        match step:
            case Scan(entity) | Lookup(entity=entity) | Expand(target=entity):
                yield entity
            case EdgeScan(edge, source, target):
                yield from (edge, source, target)
            case EdgeExpand(edge=edge, target=target):
                yield from (edge, target)


def _best(scan_filter: ScanFilter, table: TableFacts) -> IndexFact | None:
    candidates: list[tuple[int, IndexFact]] = []
    for conjunct in scan_filter.conjuncts:
        served = _served(conjunct)
        use = table.index(served[1], served[2]) if served else None
        if served and use:
            candidates.append((served[0], use))
    return min(candidates, key=lambda choice: choice[0])[1] if candidates else None


def _served(condition: Expr) -> tuple[int, str, IndexKind] | None:
    """How well an index on which column could serve a condition."""
    match condition:
        case Compare(ComparisonOperator.EQ, ColumnRef(column=column)):
            return _EQUALITY, column, IndexKind.BTREE
        case InList(ColumnRef(column=column)) | ListMembership(ColumnRef(column=column)):
            return _LISTED, column, IndexKind.BTREE
        case Prefix(ColumnRef(column=column)):
            return _PREFIX, column, IndexKind.BTREE
        case Compare(
            ComparisonOperator.LT | ComparisonOperator.LE | ComparisonOperator.GT | ComparisonOperator.GE,
            ColumnRef(column=column),
        ):
            return _RANGE, column, IndexKind.BTREE
        case TextMatch(_, ColumnRef(column=column)):
            return _TEXT, column, IndexKind.INVERTED
        case _:
            return None


def _end(table: TableFacts, direction: Direction) -> IndexFact | None:
    """The index that finds the edges at a node; both ends need one when either can be the near one."""
    uses = [table.index(column, IndexKind.BTREE) for column in _ENDS[direction]]
    present = [use for use in uses if use is not None]
    if len(present) < len(uses):
        return None
    return max(present, key=lambda use: use.uncovered_rows)


def _score_uses(score: Score, tables: dict[str, Table], facts: PlanFacts) -> Iterator[IndexFact]:
    match score:
        case Rrf(first, second):
            yield from _score_uses(first, tables, facts)
            yield from _score_uses(second, tables, facts)
        case Nearest(column) | Bm25(column):
            kind = IndexKind.VECTOR if isinstance(score, Nearest) else IndexKind.INVERTED
            use = facts.table(tables[column.entity].alias).index(column.column, kind)
            if use:
                yield use
