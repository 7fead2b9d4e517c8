"""Rule: read only the columns that a step above uses, and remove lookups without a use.

The columns of a scan filter are not output unless a step above uses them. Ids are always output, because they break
ties and identify rows. A lookup without columns and without a filter only checks that the node exists, which every edge
guarantees.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import reads_of
from omnigraph.query.plan.expressions import names
from omnigraph.query.plan.types import PlanFacts
from omnigraph.query.plan.walk import argument_columns, expressions_of

RequiredColumns = frozenset[str]


def prune_columns(root: op.Relation, facts: PlanFacts) -> op.Relation:  # noqa: ARG001 - every rule takes the facts
    """Remove unused columns. A result keeps all of its columns, the rows of a mutation keep only their ids."""
    needed = frozenset(names(root.outputs)) if isinstance(root, op.Project) else frozenset[str]()
    return _prune(root, needed)


def _prune(relation: op.Relation, needed: RequiredColumns) -> op.Relation:  # noqa: PLR0912 - one case per operator
    match relation:
        case op.Unit() | op.Pattern():
            return relation
        case op.OuterRow(columns):
            return op.OuterRow(tuple(column for column in columns if column.column == "id" or column.name in needed))
        case op.Scan(entity, columns):
            return replace(relation, columns=_required_columns(entity.name, columns, needed))
        case op.EdgeScan(edge, columns=columns):
            return replace(relation, columns=_required_columns(edge.name, columns, needed))
        case op.EdgeExpand(input_step, edge, columns=columns):
            required = _required_columns(edge.name, columns, needed)
            return replace(relation, input=_prune(input_step, needed), columns=required)
        case op.Lookup(input_step, entity, columns, scan_filter):
            pruned = _prune(input_step, needed)
            required = tuple(name for name in columns if f"{entity.name}.{name}" in needed)
            if not required and not scan_filter.conjuncts:
                return pruned
            return replace(relation, input=pruned, columns=required)
        case op.CrossJoin(left, right, on):
            needed_below = needed | {name for pair in on for name in pair}
            return op.CrossJoin(_prune(left, needed_below), _prune(right, needed_below), on)
        case op.ExistsJoin(input_step, inner, keys):
            pruned = _prune(inner, frozenset(keys))
            return replace(
                relation, input=_prune(input_step, needed | argument_columns(pruned) | {*keys}), inner=pruned
            )
        case op.LeftJoin(input_step, inner, keys):
            pruned = _prune(inner, needed | {*keys})
            return replace(
                relation, input=_prune(input_step, needed | argument_columns(pruned) | {*keys}), inner=pruned
            )
        case op.Aggregate(input_step) | op.Project(input_step):
            return replace(relation, input=_prune(input_step, _columns_read(relation)))
        case op.Order(input_step, ties=ties):
            return replace(relation, input=_prune(input_step, needed | _columns_read(relation) | {*ties}))
        case (
            op.Expand(input_step)
            | op.ExpandInto(input_step)
            | op.FilterRows(input_step)
            | op.Search(input_step)
            | op.LimitRows(input_step)
        ):
            return replace(relation, input=_prune(input_step, needed | _columns_read(relation)))
        case _:
            assert_never(relation)


def _required_columns(entity: str, columns: tuple[str, ...], needed: RequiredColumns) -> tuple[str, ...]:
    return tuple(name for name in columns if name == "id" or f"{entity}.{name}" in needed)


def _columns_read(relation: op.Relation) -> RequiredColumns:
    return frozenset[str]().union(*(reads_of(expression) for expression in expressions_of(relation)))
