"""The tables that a plan reads, and the variables bound to their rows.

Values made from a catalog that carry all a plan needs to know about a type, so that a plan can be run, printed and sent
elsewhere without its catalog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from omnigraph.base.ids import TypeId
from omnigraph.schema.arrow import system_columns
from omnigraph.schema.catalog import EdgeType, NodeType, TypeKind
from omnigraph.schema.property_types import PropertyType, Scalar, ScalarType, VectorType

# How a query names the system columns of an edge: as the data format does, or as the table does.
_EDGE_NAMES: Final = {"from": "src", "to": "dst"}
_TEXT: Final = ScalarType(Scalar.STRING)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. `embedded` marks a vector that a provider makes from text, `model` by which model."""

    name: str
    type: PropertyType
    nullable: bool = False
    embedded: bool = False
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The table of one node or edge type: system columns first, then the properties."""

    kind: TypeKind
    type_id: TypeId
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    @property
    def alias(self) -> str:
        return f"{self.kind.value}:{self.name}"

    def column(self, name: str) -> Column | None:
        """The column of a property or system column, by the name that a query uses."""
        if self.kind is TypeKind.EDGE:
            name = _EDGE_NAMES.get(name, name)
        return next((found for found in self.columns if found.name == name), None)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(found.name for found in self.columns)

    @property
    def entity_columns(self) -> tuple[str, ...]:
        """What a whole entity shows: everything but Blobs and vectors."""
        return tuple(found.name for found in self.columns if not is_opaque(found.type))


@dataclass(frozen=True, slots=True)
class Entity:
    """A variable of a plan, bound to rows of a table. Its name is unique in the plan."""

    name: str
    table: Table

    @property
    def id(self) -> str:
        """The name of the column that says which row it is."""
        return f"{self.name}.id"


def table_of(entity: NodeType | EdgeType) -> Table:
    """The table of a type of the catalog."""
    names = system_columns(entity)
    properties = (
        Column(
            found.name,
            found.type,
            found.nullable,
            found.embedding is not None,
            found.embedding.model if found.embedding else None,
        )
        for found in entity.properties
    )
    columns = (*(Column(name, _TEXT) for name in names), *properties)
    return Table(entity.kind, entity.id, entity.name, columns, entity.key)


def is_opaque(property_type: PropertyType) -> bool:
    """Whether values are too large to show among others: Blobs and vectors."""
    return isinstance(property_type, VectorType) or property_type == ScalarType(Scalar.BLOB)
