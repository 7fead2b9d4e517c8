"""What a caller sees of a query without running it: its parameters, its columns, and the types it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.base.errors import Fact
from omnigraph.query.checks.run import CheckedQuery
from omnigraph.query.plan.operators import EdgeExpand, EdgeScan, Expand, ExpandInto, Lookup, Pattern, Scan
from omnigraph.query.plan.statements import InsertRow, QueryPlan, ReadPlan, Relation, UpdateRows
from omnigraph.query.plan.types import Table, value_type_text
from omnigraph.query.plan.walk import roots_of, steps_of
from omnigraph.schema.catalog import Catalog, TypeKind, display_order


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A parameter or an output column."""

    name: str
    type: str
    nullable: bool

    def to_json(self) -> dict[str, Fact]:
        return {"name": self.name, "type": self.type, "nullable": self.nullable}


@dataclass(frozen=True, slots=True)
class QueryShape:
    """The outside of a query. Types are named as tables are: `node:Person`, `edge:Knows`."""

    name: str
    is_mutation: bool
    description: str | None
    parameters: tuple[ColumnShape, ...]
    columns: tuple[ColumnShape, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    def to_json(self) -> dict[str, Fact]:
        return {
            "name": self.name,
            "kind": "mutation" if self.is_mutation else "read",
            "description": self.description,
            "parameters": [parameter.to_json() for parameter in self.parameters],
            "columns": [column.to_json() for column in self.columns],
            "reads": list(self.reads),
            "writes": list(self.writes),
        }


def query_shape(checked: CheckedQuery, catalog: Catalog) -> QueryShape:
    """The shape of a checked query. Deleting nodes writes the edges that can end at them."""
    plan = checked.plan
    fields = plan.outputs if isinstance(plan, ReadPlan) else ()
    return QueryShape(
        name=checked.name,
        is_mutation=checked.is_mutation,
        description=checked.description,
        parameters=tuple(
            ColumnShape(parameter.name, value_type_text(parameter.type), parameter.nullable)
            for parameter in plan.parameters
        ),
        columns=tuple(
            ColumnShape(column.name, value_type_text(column.type), column.nullable) for column in fields
        ),
        reads=_sorted({table.alias for root in roots_of(plan) for table in _tables(root)}),
        writes=_sorted(_writes(plan, catalog)),
    )


def _tables(root: Relation) -> set[Table]:
    tables: set[Table] = set()
    for step in steps_of(root):
        match step:
            case Pattern(entities=entities, links=links):
                tables.update(entity.table for entity in entities)
                tables.update(link.table for link in links)
            case Scan(entity) | Lookup(entity=entity):
                tables.add(entity.table)
            case EdgeScan(edge) | EdgeExpand(edge=edge):
                tables.add(edge.table)
            case Expand(table=table) | ExpandInto(table=table):
                tables.add(table)
    return tables


def _writes(plan: QueryPlan, catalog: Catalog) -> set[str]:
    if isinstance(plan, ReadPlan):
        return set()
    aliases: set[str] = set()
    for statement in plan.statements:
        table = statement.table if isinstance(statement, InsertRow) else statement.entity.table
        aliases.add(table.alias)
        if not isinstance(statement, InsertRow | UpdateRows) and table.kind is TypeKind.NODE:
            ends = (edge for edge in catalog.edges if table.type_id in {edge.source, edge.target})
            aliases.update(edge.alias for edge in ends)
    return aliases


def _sorted(aliases: set[str]) -> tuple[str, ...]:
    """Nodes before edges, then by name."""
    return tuple(sorted(aliases, key=display_order))
