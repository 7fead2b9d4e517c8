"""Reads only the columns that something above needs, and drops lookups that nothing needs.

What a filter of a scan reads is not needed above it: a scan reads those columns itself. Ids always stay, because they
break ties and say which row is which. A lookup without columns and without a filter only says that the node exists,
which every edge guarantees.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.query.plan.expression_walk import reads_of
from omnigraph.query.plan.expressions import Expr, names
from omnigraph.query.plan.operators import (
    Aggregate,
    Argument,
    CrossJoin,
    EdgeExpand,
    EdgeScan,
    ExistsJoin,
    Expand,
    ExpandInto,
    FilterRows,
    LeftJoin,
    LimitRows,
    Lookup,
    Order,
    Pattern,
    Project,
    Scan,
    Search,
    Unit,
)
from omnigraph.query.plan.statements import Relation
from omnigraph.query.plan.types import PlanFacts
from omnigraph.query.plan.walk import argument_columns

RequiredColumns = frozenset[str]


def prune_columns(root: Relation, facts: PlanFacts) -> Relation:  # noqa: ARG001 - every rule takes the facts
    """The rule. The root keeps all of its columns if it is a result, and the id if it gives the rows of a mutation."""
    needed = frozenset(names(root.outputs)) if isinstance(root, Project) else frozenset[str]()
    return _pruned(root, needed)


def _pruned(relation: Relation, needed: RequiredColumns) -> Relation:
    match relation:
        case Unit():
            return relation
        case Argument(columns):
            required = tuple(column for column in columns if column.column == "id" or column.name in needed)
            return Argument(required)
        case Scan() | EdgeScan() | EdgeExpand() | Lookup() | Expand() | ExpandInto() | Pattern():
            return _pruned_read(relation, needed)
        case CrossJoin(left, right, on):
            below = needed | {name for pair in on for name in pair}
            return CrossJoin(_pruned(left, below), _pruned(right, below), on)
        case ExistsJoin(outer, inner, keys, negated):
            pruned = _pruned(inner, frozenset(keys))
            return ExistsJoin(
                _pruned(outer, needed | argument_columns(pruned) | {*keys}), pruned, keys, negated
            )
        case LeftJoin(outer, inner, keys):
            pruned = _pruned(inner, needed | {*keys})
            return LeftJoin(_pruned(outer, needed | argument_columns(pruned) | {*keys}), pruned, keys)
        case _:
            return _pruned_rows(relation, needed)


def _pruned_rows(
    relation: FilterRows | Search | Aggregate | Order | LimitRows | Project, needed: RequiredColumns
) -> Relation:
    below = relation.input
    match relation:
        case FilterRows(_, conditions):
            return replace(relation, input=_pruned(below, needed | _reads(conditions)))
        case Search(_, scores):
            return replace(relation, input=_pruned(below, needed | _reads(column.score for column in scores)))
        case Aggregate(_, keys, aggregates):
            read = _reads(key.expression for key in keys) | _reads(column.call for column in aggregates)
            return replace(relation, input=_pruned(below, read))
        case Order(_, keys, ties):
            read = needed | _reads(key.expression for key in keys) | {*ties}
            return replace(relation, input=_pruned(below, read))
        case LimitRows():
            return replace(relation, input=_pruned(below, needed))
        case Project(_, columns):
            return replace(relation, input=_pruned(below, _reads(column.expression for column in columns)))


def _pruned_read(
    relation: Scan | EdgeScan | EdgeExpand | Lookup | Expand | ExpandInto | Pattern, needed: RequiredColumns
) -> Relation:
    match relation:
        case Scan(entity, columns):
            return replace(relation, columns=_kept(entity.name, columns, needed))
        case EdgeScan(edge, columns=columns):
            return replace(relation, columns=_kept(edge.name, columns, needed))
        case EdgeExpand(below, edge, columns=columns):
            pruned = _pruned(below, needed)
            return replace(relation, input=pruned, columns=_kept(edge.name, columns, needed))
        case Lookup(below, entity, columns, scan_filter):
            pruned = _pruned(below, needed)
            required = tuple(name for name in columns if f"{entity.name}.{name}" in needed)
            if not required and not scan_filter.conjuncts:
                return pruned
            return replace(relation, input=pruned, columns=required)
        case Expand() | ExpandInto():
            return replace(relation, input=_pruned(relation.input, needed))
        case Pattern():
            return relation


def _kept(entity: str, columns: tuple[str, ...], needed: RequiredColumns) -> tuple[str, ...]:
    return tuple(name for name in columns if name == "id" or f"{entity}.{name}" in needed)


def _reads(expressions: Iterable[Expr]) -> RequiredColumns:
    return frozenset[str]().union(*(reads_of(expression) for expression in expressions))
