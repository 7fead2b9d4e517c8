"""Rule: read only the columns that a step above uses, and remove lookups without a use.

The columns of a scan filter are not output unless a step above uses them. Ids are always output, because they break
ties and identify rows. A lookup without columns and without a filter only checks that the node exists, which every edge
guarantees.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import reads_of
from omnigraph.query.plan.expressions import Expr, names
from omnigraph.query.plan.types import PlanFacts
from omnigraph.query.plan.walk import argument_columns

RequiredColumns = frozenset[str]


def prune_columns(root: op.Relation, facts: PlanFacts) -> op.Relation:  # noqa: ARG001 - every rule takes the facts
    """Remove unused columns. A result keeps all of its columns, the rows of a mutation keep only their ids."""
    needed = frozenset(names(root.outputs)) if isinstance(root, op.Project) else frozenset[str]()
    return _prune(root, needed)


def _prune(relation: op.Relation, needed: RequiredColumns) -> op.Relation:
    match relation:
        case op.Unit():
            return relation
        case op.OuterRow(columns):
            required = tuple(column for column in columns if column.column == "id" or column.name in needed)
            return op.OuterRow(required)
        case op.Scan() | op.EdgeScan() | op.EdgeExpand() | op.Lookup() | op.Expand() | op.ExpandInto() | op.Pattern():
            return _prune_read(relation, needed)
        case op.CrossJoin(left, right, on):
            below = needed | {name for pair in on for name in pair}
            return op.CrossJoin(_prune(left, below), _prune(right, below), on)
        case op.ExistsJoin(outer, inner, keys, negated):
            pruned = _prune(inner, frozenset(keys))
            return op.ExistsJoin(_prune(outer, needed | argument_columns(pruned) | {*keys}), pruned, keys, negated)
        case op.LeftJoin(outer, inner, keys):
            pruned = _prune(inner, needed | {*keys})
            return op.LeftJoin(_prune(outer, needed | argument_columns(pruned) | {*keys}), pruned, keys)
        case _:
            return _prune_rows(relation, needed)


def _prune_rows(
    relation: op.FilterRows | op.Search | op.Aggregate | op.Order | op.LimitRows | op.Project, needed: RequiredColumns
) -> op.Relation:
    below = relation.input
    match relation:
        case op.FilterRows(_, conditions):
            return replace(relation, input=_prune(below, needed | _columns_read(conditions)))
        case op.Search(_, scores):
            return replace(
                relation, input=_prune(below, needed | _columns_read(column.expression for column in scores))
            )
        case op.Aggregate(_, keys, aggregates):
            read = _columns_read(key.expression for key in keys) | _columns_read(
                column.expression for column in aggregates
            )
            return replace(relation, input=_prune(below, read))
        case op.Order(_, keys, ties):
            read = needed | _columns_read(key.expression for key in keys) | {*ties}
            return replace(relation, input=_prune(below, read))
        case op.LimitRows():
            return replace(relation, input=_prune(below, needed))
        case op.Project(_, columns):
            return replace(relation, input=_prune(below, _columns_read(column.expression for column in columns)))


def _prune_read(
    relation: op.Scan | op.EdgeScan | op.EdgeExpand | op.Lookup | op.Expand | op.ExpandInto | op.Pattern,
    needed: RequiredColumns,
) -> op.Relation:
    match relation:
        case op.Scan(entity, columns):
            return replace(relation, columns=_required_columns(entity.name, columns, needed))
        case op.EdgeScan(edge, columns=columns):
            return replace(relation, columns=_required_columns(edge.name, columns, needed))
        case op.EdgeExpand(below, edge, columns=columns):
            pruned = _prune(below, needed)
            return replace(relation, input=pruned, columns=_required_columns(edge.name, columns, needed))
        case op.Lookup(below, entity, columns, scan_filter):
            pruned = _prune(below, needed)
            required = tuple(name for name in columns if f"{entity.name}.{name}" in needed)
            if not required and not scan_filter.conjuncts:
                return pruned
            return replace(relation, input=pruned, columns=required)
        case op.Expand() | op.ExpandInto():
            return replace(relation, input=_prune(relation.input, needed))
        case op.Pattern():
            return relation


def _required_columns(entity: str, columns: tuple[str, ...], needed: RequiredColumns) -> tuple[str, ...]:
    return tuple(name for name in columns if name == "id" or f"{entity}.{name}" in needed)


def _columns_read(expressions: Iterable[Expr]) -> RequiredColumns:
    return frozenset[str]().union(*(reads_of(expression) for expression in expressions))
