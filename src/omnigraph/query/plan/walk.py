"""Walks plans: the inputs of a step, copies with other inputs or other expressions, and every step in order.

Pure functions over frozen steps. `_INPUTS` (default: `input`) and `_EXPRESSIONS` name the fields of each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import ScanFilter, change_all, split_filter, walk
from omnigraph.query.plan.statements import InsertRow, QueryPlan, ReadPlan
from omnigraph.query.plan.types import Entity

Change = Callable[[ex.Expr], ex.Expr]

_INPUTS: Final[dict[type, tuple[str, ...]]] = {
    op.Unit: (),
    op.OuterRow: (),
    op.Scan: (),
    op.EdgeScan: (),
    op.CrossJoin: ("left", "right"),
    op.ExistsJoin: ("input", "inner"),
    op.LeftJoin: ("input", "inner"),
}
_EXPRESSIONS: Final[dict[type, tuple[str, ...]]] = {
    op.Pattern: ("filters",),
    op.Scan: ("filter",),
    op.EdgeScan: ("filter",),
    op.EdgeExpand: ("filter",),
    op.Lookup: ("filter",),
    op.FilterRows: ("conditions",),
    op.Search: ("scores",),
    op.Aggregate: ("keys", "aggregates"),
    op.Order: ("keys",),
    op.LimitRows: ("count", "offset"),
    op.Project: ("columns",),
}


def inputs_of(relation: op.Relation) -> tuple[op.Relation, ...]:
    """Return the relations directly below a step: outer before inner, left before right."""
    inputs = (getattr(relation, name) for name in _INPUTS.get(type(relation), ("input",)))
    return tuple(step for step in inputs if step is not None)


def with_inputs(relation: op.Relation, inputs: tuple[op.Relation, ...]) -> op.Relation:
    """Return a copy of a step over other inputs, in the order of `inputs_of`."""
    names = _INPUTS.get(type(relation), ("input",))
    changes: dict[str, Any] = dict(zip(names, inputs, strict=False))
    return replace(relation, **changes) if changes else relation


def transform_plan(relation: op.Relation, change: Callable[[op.Relation], op.Relation]) -> op.Relation:
    """Return a copy in which `change` replaces every step, lowest first."""
    before = inputs_of(relation)
    after = tuple(transform_plan(step, change) for step in before)
    is_same = all(new is old for new, old in zip(after, before, strict=True))
    return change(relation if is_same else with_inputs(relation, after))


def steps_of(relation: op.Relation) -> Iterator[op.Relation]:
    """Yield a step and all steps below it, from the top down, outer before inner."""
    yield relation
    for step in inputs_of(relation):
        yield from steps_of(step)


def entities_of(root: op.Relation) -> Iterator[Entity]:
    """Yield the nodes and edges that the steps of a rewritten plan bind."""
    for step in steps_of(root):
        match step:
            case op.Scan(entity) | op.Lookup(entity=entity) | op.Expand(target=entity):
                yield entity
            case op.EdgeScan(edge, source, target):
                yield from (edge, source, target)
            case op.EdgeExpand(edge=edge, target=target):
                yield from (edge, target)


def roots_of(plan: QueryPlan) -> tuple[op.Relation, ...]:
    """Return the relation of a read, or those of the updates and deletes of a mutation, in order."""
    if isinstance(plan, ReadPlan):
        return (plan.root,)
    return tuple(statement.rows for statement in plan.statements if not isinstance(statement, InsertRow))


def argument_columns(inner: op.Relation) -> frozenset[str]:
    """Return the columns that an inner plan reads from its outer rows, without those of plans inside it."""
    if isinstance(inner, op.OuterRow):
        return frozenset(ex.names(inner.outputs))
    inputs = inputs_of(inner)
    if isinstance(inner, op.ExistsJoin | op.LeftJoin):
        inputs = inputs[:1]
    return frozenset[str]().union(*map(argument_columns, inputs))


def expressions_of(relation: op.Relation) -> Iterator[ex.Expr]:
    """Yield the expressions of a step, without those of the steps below."""
    for name in _EXPRESSIONS.get(type(relation), ()):
        value = getattr(relation, name)
        conjuncts = value.conjuncts if isinstance(value, ScanFilter) else value
        for item in conjuncts if isinstance(conjuncts, tuple) else (conjuncts,):
            if item is not None:
                yield item.expression if isinstance(item, ex.NamedExpression | op.OrderKey) else item


def reads_clock(plan: ReadPlan) -> bool:
    """Return whether the rows of a query depend on the time at which it runs."""
    expressions = (expr for step in steps_of(plan.root) for expr in expressions_of(step))
    return any(isinstance(part, ex.Now) for expr in expressions for part in walk(expr))


def with_expressions(relation: op.Relation, change: Change) -> op.Relation:
    """Return a copy of a step with changed expressions, or the same step; filters of scans are split again."""
    changes: dict[str, Any] = {}
    for name in _EXPRESSIONS.get(type(relation), ()):
        before = getattr(relation, name)
        after = _change_field(before, change)
        if after is not before:
            changes[name] = after
    return replace(relation, **changes) if changes else relation


def _change_field(value: Any, change: Change) -> Any:
    """Change the expressions of one field of a step; return the same object if none changes."""
    match value:
        case None:
            return None
        case tuple():
            return change_all(value, lambda item: _change_field(item, change))
        case ScanFilter(conjuncts=conjuncts):
            changed = change_all(conjuncts, change)
            return value if changed is conjuncts else split_filter(changed)
        case ex.NamedExpression(expression=expression) | op.OrderKey(expression=expression):
            new = change(expression)
            return value if new is expression else replace(value, expression=new)
        case _:
            return change(value)
