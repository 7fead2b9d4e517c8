"""Walking plans: the inputs of a step, a copy with other inputs or other expressions, and every step in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

from omnigraph.query.plan.expression_walk import ScanFilter, split_filter
from omnigraph.query.plan.expressions import AggregateCall, Expr, Named, Score, names
from omnigraph.query.plan.operators import (
    Aggregate,
    AggregateColumn,
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
    ScoreColumn,
    Search,
    Unit,
)
from omnigraph.query.plan.statements import InsertRow, QueryPlan, ReadPlan, Relation

Change = Callable[[Expr], Expr]


def inputs_of(relation: Relation) -> tuple[Relation, ...]:
    """The relations directly below, outer before inner, left before right."""
    match relation:
        case Unit() | Argument() | Scan() | EdgeScan():
            return ()
        case Pattern(below):
            return () if below is None else (below,)
        case CrossJoin(left, right):
            return (left, right)
        case ExistsJoin(outer, inner) | LeftJoin(outer, inner):
            return (outer, inner)
        case _:
            return (relation.input,)


def with_inputs(relation: Relation, inputs: tuple[Relation, ...]) -> Relation:
    """A copy over other inputs."""
    match relation:
        case Unit() | Argument() | Scan() | EdgeScan():
            return relation
        case Pattern():
            return replace(relation, input=inputs[0]) if inputs else relation
        case CrossJoin():
            return replace(relation, left=inputs[0], right=inputs[1])
        case ExistsJoin() | LeftJoin():
            return replace(relation, input=inputs[0], inner=inputs[1])
        case _:
            return replace(relation, input=inputs[0])


def rewritten_plan(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """A copy in which every step, lowest first, is replaced by what `change` gives for it."""
    before = inputs_of(relation)
    after = tuple(rewritten_plan(below, change) for below in before)
    same = all(new is old for new, old in zip(after, before, strict=True))
    return change(relation if same else with_inputs(relation, after))


def steps_of(relation: Relation) -> Iterator[Relation]:
    """The step and all below it, from the top down, outer before inner."""
    yield relation
    for below in inputs_of(relation):
        yield from steps_of(below)


def roots_of(plan: QueryPlan) -> tuple[Relation, ...]:
    """The relation of a read; of a mutation, those that give the rows of its updates and deletes, in order."""
    if isinstance(plan, ReadPlan):
        return (plan.root,)
    return tuple(statement.rows for statement in plan.statements if not isinstance(statement, InsertRow))


def argument_columns(inner: Relation) -> frozenset[str]:
    """The columns that an inner plan takes from its outer rows, not those of plans inside it."""
    if isinstance(inner, Argument):
        return frozenset(names(inner.outputs))
    below = inputs_of(inner)
    if isinstance(inner, ExistsJoin | LeftJoin):
        below = below[:1]
    return frozenset[str]().union(*(argument_columns(relation) for relation in below))


def with_expressions(relation: Relation, change: Change) -> Relation:
    """A copy whose own expressions are changed, or the step itself; filters of scans are split anew."""
    match relation:
        case Unit() | Argument() | Expand() | ExpandInto() | CrossJoin() | ExistsJoin() | LeftJoin():
            return relation
        case Pattern(filters=filters):
            changed = _changed(filters, change)
            return relation if changed is filters else replace(relation, filters=changed)
        case Scan() | EdgeScan() | EdgeExpand() | Lookup():
            scan_filter = _filter(relation.filter, change)
            return relation if scan_filter is relation.filter else replace(relation, filter=scan_filter)
        case FilterRows(conditions=conditions):
            changed = _changed(conditions, change)
            return relation if changed is conditions else replace(relation, conditions=changed)
        case Search(scores=scores):
            found_scores = tuple(
                ScoreColumn(column.name, cast(Score, change(column.score))) for column in scores
            )
            return replace(relation, scores=found_scores)
        case Aggregate(keys=keys, aggregates=aggregates):
            return replace(
                relation,
                keys=_named(keys, change),
                aggregates=tuple(
                    AggregateColumn(column.name, cast(AggregateCall, change(column.call)))
                    for column in aggregates
                ),
            )
        case Order(keys=order):
            changed_order = tuple(replace(key, expression=change(key.expression)) for key in order)
            return replace(relation, keys=changed_order)
        case LimitRows(count=count, offset=offset):
            return replace(relation, count=change(count), offset=None if offset is None else change(offset))
        case Project(columns=columns):
            named = _named(columns, change)
            return relation if named is columns else replace(relation, columns=named)


def _changed(expressions: tuple[Expr, ...], change: Change) -> tuple[Expr, ...]:
    """The very same tuple where nothing changes, so that a step need not be made again."""
    after = tuple(change(expression) for expression in expressions)
    return expressions if all(new is old for new, old in zip(after, expressions, strict=True)) else after


def _named(columns: tuple[Named, ...], change: Change) -> tuple[Named, ...]:
    before = tuple(column.expression for column in columns)
    after = _changed(before, change)
    if after is before:
        return columns
    return tuple(Named(column.name, new) for column, new in zip(columns, after, strict=True))


def _filter(scan_filter: ScanFilter, change: Change) -> ScanFilter:
    changed = _changed(scan_filter.conjuncts, change)
    return scan_filter if changed is scan_filter.conjuncts else split_filter(changed)
