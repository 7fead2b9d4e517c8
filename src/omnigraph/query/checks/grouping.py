"""Aggregates of a result: what is not an aggregate is a group key, and the rest reads the groups.

A whole entity as a key groups by its id; its other columns are looked up again for the groups that remain.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from omnigraph.query.checks.blocks import Block
from omnigraph.query.codes import QueryCode
from omnigraph.query.expression_walk import columns_of, parts_of, replaced, walk
from omnigraph.query.expressions import AggregateCall, ColumnRef, EntityRef, Expr, OutputRef
from omnigraph.query.fields import Named
from omnigraph.query.plan import Aggregate, AggregateColumn, Lookup, OrderKey, Relation
from omnigraph.query.tables import Entity, is_opaque
from omnigraph.query.value_types import EntityType, NullType
from omnigraph.schema.syntax import Span

Grouped = tuple[Relation, tuple[Named, ...], tuple[OrderKey, ...], tuple[str, ...]]


@dataclass(slots=True)
class _Groups:
    """The keys and aggregates found so far, each once."""

    keys: dict[Expr, str] = field(default_factory=dict)
    aggregates: dict[AggregateCall, str] = field(default_factory=dict)
    entities: dict[str, EntityRef] = field(default_factory=dict)

    def add_key(self, expression: Expr) -> None:
        if isinstance(expression, EntityRef):
            self.entities[expression.entity] = expression
            expression = expression.id
        name = expression.name if isinstance(expression, ColumnRef) else f"key_{len(self.keys) + 1}"
        self.keys.setdefault(expression, name)

    def add_aggregates(self, expression: Expr) -> None:
        for found in walk(expression):
            if isinstance(found, AggregateCall):
                self.aggregates.setdefault(found, f"agg_{len(self.aggregates) + 1}")

    def read(self, expression: Expr) -> Expr | None:
        """How a result reads a key or an aggregate; None looks further inside."""
        if isinstance(expression, AggregateCall):
            return OutputRef(self.aggregates[expression], expression.type, expression.nullable)
        if expression in self.keys and not isinstance(expression, ColumnRef):
            return OutputRef(self.keys[expression], expression.type, expression.nullable)
        return None


def is_aggregated(expressions: tuple[Expr, ...]) -> bool:
    """Whether any aggregate is used, which makes every other expression a group key."""
    return any(isinstance(found, AggregateCall) for expression in expressions for found in walk(expression))


def group(
    relation: Relation,
    columns: tuple[Named, ...],
    order: tuple[OrderKey, ...],
    block: Block,
    spans: tuple[Span, ...],
) -> Grouped | None:
    """The groups, and the columns, order and ties over them; None after a problem."""
    groups = _Groups()
    for column in columns:
        _add_keys(column.expression, groups)
    for expression in (*(found.expression for found in columns), *(key.expression for key in order)):
        groups.add_aggregates(expression)
    if not _keys_are_possible(columns, groups, block, spans) or not _is_grouped(order, groups, block, spans):
        return None
    keys = tuple(Named(name, key) for key, name in groups.keys.items())
    aggregates = tuple(AggregateColumn(name, call) for call, name in groups.aggregates.items())
    grouped: Relation = Aggregate(relation, keys, aggregates)
    entities = {bound.entity.name: bound.entity for bound in block.visible.values()}
    for name, reference in groups.entities.items():
        grouped = _looked_up(grouped, entities[name], reference)
    return (
        grouped,
        tuple(Named(found.name, replaced(found.expression, groups.read)) for found in columns),
        tuple(replace(key, expression=replaced(key.expression, groups.read)) for key in order),
        tuple(key.name for key in keys),
    )


def _add_keys(expression: Expr, groups: _Groups) -> None:
    """The whole of a column without aggregates; beside an aggregate, each column that is read."""
    if not any(True for _ in columns_of(expression)):
        return
    if not is_aggregated((expression,)) or isinstance(expression, ColumnRef | EntityRef):
        groups.add_key(expression)
    elif not isinstance(expression, AggregateCall):
        for part in parts_of(expression):
            if isinstance(part, ColumnRef | EntityRef) or is_aggregated((part,)):
                _add_keys(part, groups)
            else:
                for column in columns_of(part):
                    groups.add_key(column)


def _keys_are_possible(
    columns: tuple[Named, ...], groups: _Groups, block: Block, spans: tuple[Span, ...]
) -> bool:
    good = True
    for column, span in zip(columns, spans, strict=False):
        found = column.expression
        if (
            found in groups.keys
            and not isinstance(found.type, EntityType | NullType)
            and is_opaque(found.type)
        ):
            message = "a vector cannot be a group key"
            block.context.report(QueryCode.NOT_RETURNABLE, span, message)
            good = False
    return good


def _is_grouped(order: tuple[OrderKey, ...], groups: _Groups, block: Block, spans: tuple[Span, ...]) -> bool:
    good = True
    for key, span in zip(order, spans[len(spans) - len(order) :], strict=True):
        rest = replaced(key.expression, groups.read)
        missing = [found for found in columns_of(rest) if not _is_key(found, groups)]
        if missing:
            message = f"`${missing[0].name}` has no single value in a group"
            hint = "return it as well, or order by an aggregate of it"
            block.context.report(QueryCode.NOT_GROUPED, span, message, hint)
            good = False
    return good


def _is_key(column: ColumnRef, groups: _Groups) -> bool:
    if column in groups.keys:
        return True
    entity = groups.entities.get(column.entity)
    return entity is not None and column.column in entity.table.entity_columns


def _looked_up(grouped: Relation, entity: Entity, reference: EntityRef) -> Relation:
    """The columns of an entity that its id brings back; those that are keys themselves are there already."""
    known = {found.name for found in grouped.outputs}
    columns = tuple(name for name in entity.table.entity_columns if f"{entity.name}.{name}" not in known)
    if not columns:
        return grouped
    return Lookup(grouped, entity, columns, keep_missing=reference.nullable)
