"""The tables and types of a plan.

`PlanFacts` are the sizes and indexes of tables, `Table` and `Entity` are what a plan reads. A `ValueType` is the type
of a property, an entity, or null; the functions say which types can be compared, ordered and assigned. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Struct, field

from omnigraph.base.ids import TypeId
from omnigraph.schema.catalog import EdgeType, NodeType, TypeKind
from omnigraph.schema.property_types import (
    FLOATS,
    INTEGER_BOUNDS,
    PLAIN_TEXT,
    EnumType,
    IndexKind,
    ListType,
    PropertyType,
    Scalar,
    ScalarType,
    TextOptions,
    VectorType,
    type_text,
)
from omnigraph.schema.tables import system_columns


class IndexFact(Struct, frozen=True):
    """An existing index, and the rows that it does not cover."""

    column: str
    kind: IndexKind
    uncovered_fragments: int = 0
    uncovered_rows: int = 0
    lance_type: str = ""
    segments: int = 1
    is_current: bool = True
    """Whether this release builds indexes with its parameters, apart from the options of a text index."""
    text: TextOptions = PLAIN_TEXT

    def is_usable(self, text: TextOptions = PLAIN_TEXT) -> bool:
        """Return whether a search on a column with these options can use it."""
        return self.is_current and self.text == text


class TableFacts(Struct, frozen=True):
    """The row count of a table, None if unknown, and its indexes."""

    rows: int | None = None
    indexes: tuple[IndexFact, ...] = ()
    has_deleted_rows: bool = False
    """Whether storage still holds deleted rows, which an index may count."""

    def index(self, column: str, kind: IndexKind) -> IndexFact | None:
        """Return the index of this kind on a column."""
        return next((index for index in self.indexes if (index.column, index.kind) == (column, kind)), None)


class PlanFacts(Struct, frozen=True):
    """The facts of tables, by alias (`node:Person`)."""

    tables: Mapping[str, TableFacts] = field(default_factory=dict)

    def table(self, alias: str) -> TableFacts:
        return self.tables.get(alias, _UNKNOWN)


_UNKNOWN: Final = TableFacts()
NO_FACTS: Final = PlanFacts()

# A query uses the names of the data format for the system columns of an edge, or those of the table.
_EDGE_NAMES: Final = {"from": "src", "to": "dst"}
STRING: Final = ScalarType(Scalar.STRING)


class Column(Struct, frozen=True, kw_only=True):
    """A column of a table. `embedded` marks a vector that a provider computes from text with `model`."""

    name: str
    type: PropertyType
    nullable: bool = False
    embedded: bool = False
    model: str | None = None
    text: TextOptions = PLAIN_TEXT
    """The options of full-text search."""


class Table(Struct, frozen=True, kw_only=True):
    """The table of one node or edge type: system columns first, then the properties."""

    kind: TypeKind
    type_id: TypeId
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    """The columns of each `@unique`."""

    @property
    def alias(self) -> str:
        return f"{self.kind.value}:{self.name}"

    def column(self, name: str) -> Column | None:
        """Return the column of a property or system column, by the name that a query uses."""
        if self.kind is TypeKind.EDGE:
            name = _EDGE_NAMES.get(name, name)
        return next((column for column in self.columns if column.name == name), None)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def entity_columns(self) -> tuple[str, ...]:
        """The columns of an entity in a result: all but Blobs and vectors."""
        return tuple(column.name for column in self.columns if not is_opaque(column.type))


class Entity(Struct, frozen=True):
    """A variable of a plan, bound to rows of a table; its name is unique in the plan."""

    name: str
    table: Table

    @property
    def id(self) -> str:
        """The name of the column with the id of the row."""
        return f"{self.name}.id"


def table_of(entity: NodeType | EdgeType) -> Table:
    """Return the table of a type of the catalog."""
    columns = [Column(name=name, type=STRING) for name in system_columns(entity)]
    for prop in entity.properties:
        model = prop.embedding.model if prop.embedding else None
        columns.append(
            Column(
                name=prop.name,
                type=prop.type,
                nullable=prop.nullable,
                embedded=prop.embedding is not None,
                model=model,
                text=prop.text_options,
            )
        )
    return Table(
        kind=entity.kind,
        type_id=entity.id,
        name=entity.name,
        columns=tuple(columns),
        key=entity.key,
        uniques=entity.rules.uniques,
    )


PATH_LENGTH: Final = "length"
"""The only property of a path: its number of hops."""


def path_table(edge: Table) -> Table:
    """Return the table of the paths of a traversal over an edge; it is not stored and has no ids."""
    return Table(
        kind=edge.kind,
        type_id=edge.type_id,
        name="path",
        columns=(Column(name=PATH_LENGTH, type=ScalarType(Scalar.I64)),),
    )


class EntityValueType(Struct, frozen=True):
    """The type of a node or an edge."""

    kind: TypeKind
    name: str


class EntityListType(Struct, frozen=True):
    """The type of the nodes or edges that `collect` returns."""

    table: Table


class NullType(Struct, frozen=True):
    """The type of the literal `null`, which is comparable with every type."""


ValueType = PropertyType | EntityValueType | EntityListType | NullType

BOOL: Final = ScalarType(Scalar.BOOL)
I64: Final = ScalarType(Scalar.I64)
U64: Final = ScalarType(Scalar.U64)
F64: Final = ScalarType(Scalar.F64)
DATE: Final = ScalarType(Scalar.DATE)
DATETIME: Final = ScalarType(Scalar.DATETIME)
NULL: Final = NullType()


class TypeFamily(Enum):
    """Types whose values can be compared with each other."""

    NUMBER = "number"
    TEXT = "text"
    BOOL = "Bool"
    TIME = "date or datetime"
    LIST = "list"
    OPAQUE = "opaque"
    ENTITY = "entity"
    NULL = "null"


_FAMILIES: Final = {
    Scalar.STRING: TypeFamily.TEXT,
    Scalar.BOOL: TypeFamily.BOOL,
    Scalar.DATE: TypeFamily.TIME,
    Scalar.DATETIME: TypeFamily.TIME,
    Scalar.BLOB: TypeFamily.OPAQUE,
}
_WIDER: Final = {
    Scalar.I32: {Scalar.I64, Scalar.F64},
    Scalar.U32: {Scalar.I64, Scalar.U64, Scalar.F64},
    Scalar.F32: {Scalar.F64},
}


def family_of(value_type: ValueType) -> TypeFamily:
    """Return the family of a type."""
    match value_type:
        case ScalarType(scalar):
            return _FAMILIES.get(scalar, TypeFamily.NUMBER)
        case EnumType():
            return TypeFamily.TEXT
        case ListType() | EntityListType():
            return TypeFamily.LIST
        case VectorType():
            return TypeFamily.OPAQUE
        case EntityValueType():
            return TypeFamily.ENTITY
        case NullType():
            return TypeFamily.NULL


def value_type_text(value_type: ValueType) -> str:
    """Return the text of a type for messages and plans."""
    match value_type:
        case EntityValueType(_, name):
            return name
        case EntityListType(table):
            return f"[{table.name}]"
        case NullType():
            return "null"
        case _:
            return type_text(value_type)


def is_text(value_type: ValueType) -> bool:
    """Return whether a type is text or null."""
    return family_of(value_type) in {TypeFamily.TEXT, TypeFamily.NULL}


def is_opaque(value_type: ValueType) -> bool:
    """Return whether a type is Blob or Vector, whose values are not part of an entity in a result."""
    return family_of(value_type) is TypeFamily.OPAQUE


def is_number(value_type: ValueType) -> bool:
    """Return whether a type is a number."""
    return family_of(value_type) is TypeFamily.NUMBER


def is_integer(value_type: ValueType) -> bool:
    """Return whether a type is one of the four integer types."""
    return isinstance(value_type, ScalarType) and value_type.scalar in INTEGER_BOUNDS


def is_float(value_type: ValueType) -> bool:
    """Return whether a type is F32 or F64."""
    return isinstance(value_type, ScalarType) and value_type.scalar in FLOATS


def are_comparable(left: ValueType, right: ValueType) -> bool:
    """Return whether values of the two types can be compared with `=`."""
    families = {family_of(left), family_of(right)}
    if TypeFamily.NULL in families:
        return True
    if len(families) > 1 or families & {TypeFamily.LIST, TypeFamily.OPAQUE}:
        return False
    return TypeFamily.ENTITY not in families or left == right


def has_order(value_type: ValueType) -> bool:
    """Return whether values can be compared with `<`; those of an enum have no meaningful order."""
    return not isinstance(value_type, EnumType) and is_sortable(value_type)


def is_sortable(value_type: ValueType) -> bool:
    """Return whether rows can be ordered by values of a type, and `min` and `max` support it."""
    return family_of(value_type) not in {TypeFamily.LIST, TypeFamily.OPAQUE, TypeFamily.ENTITY}


def is_assignable(value: ValueType, target: PropertyType) -> bool:
    """Return whether every value of one type can be stored as the other without loss."""
    if value == target or isinstance(value, NullType):
        return True
    match value, target:
        case ScalarType(have), ScalarType(want):
            return want in _WIDER.get(have, set())
        case (ScalarType(Scalar.STRING), EnumType()) | (EnumType(), ScalarType(Scalar.STRING)):
            return True
        case EnumType(have), EnumType(want):
            return set(have) <= set(want)
        case _:
            return False
