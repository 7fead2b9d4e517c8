"""Rule: choose the index of each read, with the rows that it does not cover.

The choice never changes the rows of a plan. A scan uses the index of its most selective condition: equality, then
`in`, then a prefix, then a range, then text search. A search chooses its own index when it runs (`search_choice`).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import ScanFilter
from omnigraph.query.plan.types import IndexFact, PlanFacts, TableFacts
from omnigraph.query.plan.walk import transform_plan
from omnigraph.query.syntax import ComparisonOperator
from omnigraph.schema.property_types import IndexKind

_EQUALITY, _LISTED, _PREFIX, _RANGE, _TEXT = range(5)
_ENDPOINTS: Final = {op.Direction.OUT: ("src",), op.Direction.IN: ("dst",), op.Direction.BOTH: ("src", "dst")}


def choose_indexes(root: op.Relation, facts: PlanFacts) -> op.Relation:
    """Set the index of every step that can use one."""

    def change(relation: op.Relation) -> op.Relation:
        match relation:
            case op.Scan(entity, _, scan_filter):
                return replace(relation, index=_best_index(scan_filter, facts.table(entity.table.alias)))
            case op.EdgeScan(edge, filter=scan_filter):
                return replace(relation, index=_best_index(scan_filter, facts.table(edge.table.alias)))
            case op.Lookup(entity=entity):
                table_facts = facts.table(entity.table.alias)
                return replace(relation, index=table_facts.index("id", IndexKind.BTREE))
            case op.Expand(more=(_, *_)) | op.ExpandInto(more=(_, *_)):
                return relation  # the traversal chooses an index for each of its tables
            case op.Expand(table=table, direction=direction) | op.ExpandInto(table=table, direction=direction):
                return replace(relation, index=_endpoint_index(facts.table(table.alias), direction))
            case op.EdgeExpand(edge=edge, direction=direction):
                return replace(relation, index=_endpoint_index(facts.table(edge.table.alias), direction))
            case _:
                return relation

    return transform_plan(root, change)


def _best_index(scan_filter: ScanFilter, table: TableFacts) -> IndexFact | None:
    candidates: list[tuple[int, IndexFact]] = []
    for conjunct in scan_filter.conjuncts:
        usable = _usable_index(conjunct)
        index = table.index(usable[1], usable[2]) if usable else None
        if usable and index:
            candidates.append((usable[0], index))
    return min(candidates, key=lambda choice: choice[0])[1] if candidates else None


def _usable_index(condition: ex.Expr) -> tuple[int, str, IndexKind] | None:
    """Return the rank, column and kind of the index that a condition can use; a lower rank is better."""
    match condition:
        case ex.Compare(ComparisonOperator.EQ, ex.ColumnRef(column=column)):
            return _EQUALITY, column, IndexKind.BTREE
        case ex.InList(ex.ColumnRef(column=column)) | ex.ListMembership(ex.ColumnRef(column=column)):
            return _LISTED, column, IndexKind.BTREE
        case ex.Prefix(ex.ColumnRef(column=column)):
            return _PREFIX, column, IndexKind.BTREE
        case ex.Compare(
            ComparisonOperator.LT | ComparisonOperator.LE | ComparisonOperator.GT | ComparisonOperator.GE,
            ex.ColumnRef(column=column),
        ):
            return _RANGE, column, IndexKind.BTREE
        case ex.TextMatch(_, ex.ColumnRef(column=column)):
            return _TEXT, column, IndexKind.INVERTED
        case _:
            return None


def _endpoint_index(table: TableFacts, direction: op.Direction) -> IndexFact | None:
    """Return the index for the edges of a node; an undirected traversal requires one on both endpoints."""
    indexes = [table.index(column, IndexKind.BTREE) for column in _ENDPOINTS[direction]]
    present = [index for index in indexes if index is not None]
    if len(present) < len(indexes):
        return None
    return max(present, key=lambda index: index.uncovered_rows)
