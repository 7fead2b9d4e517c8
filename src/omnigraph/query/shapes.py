"""The shape of a query: its parameters, its columns, and the types that it reads and writes. Runs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.query.checks.run import CheckedQuery
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.statements import InsertRow, QueryPlan, ReadPlan, UpdateRows
from omnigraph.query.plan.types import Table, value_type_text
from omnigraph.query.plan.walk import roots_of, steps_of
from omnigraph.schema.catalog import Catalog, TypeKind, display_order


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A parameter or an output column."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryShape:
    """The interface of a query. Types have the names of their tables: `node:Person`, `edge:Knows`."""

    name: str
    is_mutation: bool
    description: str | None
    parameters: tuple[ColumnShape, ...]
    columns: tuple[ColumnShape, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def query_shape(checked: CheckedQuery, catalog: Catalog) -> QueryShape:
    """Return the shape of a checked query. A delete of nodes also writes the edges that can reference them."""
    plan = checked.plan
    fields = plan.outputs if isinstance(plan, ReadPlan) else ()
    reads = {table.alias for root in roots_of(plan) for table in tables_of(root)}
    return QueryShape(
        name=checked.name,
        is_mutation=checked.is_mutation,
        description=checked.description,
        parameters=tuple(
            ColumnShape(parameter.name, value_type_text(parameter.type), parameter.nullable)
            for parameter in plan.parameters
        ),
        columns=tuple(ColumnShape(column.name, value_type_text(column.type), column.nullable) for column in fields),
        reads=tuple(sorted(reads, key=display_order)),
        writes=tuple(sorted(_written_aliases(plan, catalog), key=display_order)),
    )


def tables_of(root: op.Relation) -> set[Table]:
    """Return the tables that a relation reads."""
    tables: set[Table] = set()
    for step in steps_of(root):
        match step:
            case op.Pattern(entities=entities, links=links):
                tables.update(entity.table for entity in entities)
                tables.update(table for link in links for table in link.tables)
            case op.Scan(entity) | op.Lookup(entity=entity):
                tables.add(entity.table)
            case op.EdgeScan(edge) | op.EdgeExpand(edge=edge):
                tables.add(edge.table)
            case op.Expand() | op.ExpandInto():
                tables.update(step.tables)
    return tables


def _written_aliases(plan: QueryPlan, catalog: Catalog) -> set[str]:
    if isinstance(plan, ReadPlan):
        return set()
    aliases: set[str] = set()
    for statement in plan.statements:
        table = statement.table if isinstance(statement, InsertRow) else statement.entity.table
        aliases.add(table.alias)
        if not isinstance(statement, InsertRow | UpdateRows) and table.kind is TypeKind.NODE:
            aliases.update(edge.alias for edge in catalog.edges if table.type_id in {edge.source, edge.target})
    return aliases
