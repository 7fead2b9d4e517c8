"""The typed catalog: the meaning of an accepted schema, with ids that do not depend on names.

Immutable values. The ids of types and properties are assigned by counters that only grow; the catalog has the next free
number of each, so a rename keeps the id and a drop leaves a gap. Constraints refer to columns by name: the properties
of the same type, and `src` and `dst` on edges. Interfaces are already expanded into the nodes; they are only shown and
printed. `renamed_from` is the old name from `@rename_from`; `evolution` acts on it when it compares two catalogs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from functools import cached_property
from typing import ClassVar, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.base.display import did_you_mean
from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import Incarnation, PropertyId, TypeId
from omnigraph.lang.syntax import Annotation
from omnigraph.schema.property_types import PLAIN_TEXT, PropertyType, TextOptions
from omnigraph.schema.values import RangeBounds, Value

_NAME_CHARACTERS_MAX: Final = 60
"""How much of an unknown name is compared with the names of types."""


class TypeKind(Enum):
    """Node or edge; the value is the first part of an alias."""

    NODE = "node"
    EDGE = "edge"


class Embedding(Struct, frozen=True, omit_defaults=True):
    """The String property that a vector is computed from, and the model if the schema names one.

    The vector property is always nullable: a row without a vector gets one later. `required`: the schema declares it
    without `?`. In a graph of an earlier release it may be not nullable instead; it keeps its column and rule.
    """

    source: str
    model: str | None = None
    required: bool = False

    def renamed(self, names: Mapping[str, str]) -> Embedding:
        """Return the embedding with renamed columns; a column that the mapping lacks keeps its name."""
        return replace(self, source=names.get(self.source, self.source))

    def has_same_vectors(self, other: Embedding) -> bool:
        """Return whether both give the same vector for a row."""
        return (self.source, self.model) == (other.source, other.model)


class PropertyShape(Struct, frozen=True, kw_only=True):
    """A property without an id, as an interface has it. `default` None: the property has no default."""

    name: str
    type: PropertyType
    nullable: bool = False
    indexed: bool = False
    text_options: TextOptions = PLAIN_TEXT
    default: Value | None = None
    embedding: Embedding | None = None
    description: str | None = None
    renamed_from: str | None = None
    metadata: tuple[Annotation, ...] = ()


class Property(PropertyShape, frozen=True, kw_only=True):
    """A property of a node or edge type. Its id is unique within the type and never used again.

    `filled` has the value that the existing rows got when the property was added, and is empty if they got null;
    None: they got the current default. It is kept when the default changes, to distinguish rows from before the
    property from changed ones. `null_fills` has the value that replaced null for each time that the property became
    required with a default.
    """

    id: PropertyId
    filled: tuple[Value, ...] | None = None
    null_fills: tuple[Value, ...] = ()

    @classmethod
    def from_shape(cls, shape: PropertyShape, property_id: PropertyId) -> Property:
        """Return the shape with an id."""
        filled, null_fills = (shape.filled, shape.null_fills) if isinstance(shape, Property) else (None, ())
        parts = {name: getattr(shape, name) for name in PropertyShape.__struct_fields__}
        return cls(id=property_id, filled=filled, null_fills=null_fills, **parts)

    @property
    def value_of_older_rows(self) -> Value | None:
        """The value of a row that is older than the property; None is null."""
        first = self.default if self.filled is None else next(iter(self.filled), None)
        return self.null_replacement(0) if first is None else first

    def null_replacement(self, applied: int) -> Value | None:
        """Return what replaced a null that is newer than the first `applied` of the `null_fills`; None: still null."""
        return next(iter(self.null_fills[applied:]), None)

    def with_default(self, default: Value | None) -> Property:
        """Return the property with another default for new rows."""
        old_value = () if self.value_of_older_rows is None else (self.value_of_older_rows,)
        new_value = () if default is None else (default,)
        return replace(self, default=default, filled=None if old_value == new_value else old_value)


class RangeRule(Struct, frozen=True):
    """The values of a property are within these bounds, both included."""

    property: str
    bounds: RangeBounds


class CheckRule(Struct, frozen=True):
    """Every value of a property, as a whole, matches this pattern (see `patterns` for the dialect)."""

    property: str
    pattern: str


class Rules(Struct, frozen=True):
    """The rules for rows beyond the types of values. An empty key: the type has no key."""

    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[RangeRule, ...] = ()
    checks: tuple[CheckRule, ...] = ()

    def renamed(self, names: Mapping[str, str]) -> Rules:
        """Return the rules with renamed columns; a column that the mapping lacks keeps its name."""
        return Rules(
            key=tuple(names.get(name, name) for name in self.key),
            uniques=tuple(tuple(names.get(name, name) for name in columns) for columns in self.uniques),
            ranges=tuple(replace(rule, property=names.get(rule.property, rule.property)) for rule in self.ranges),
            checks=tuple(replace(rule, property=names.get(rule.property, rule.property)) for rule in self.checks),
        )


class Cardinality(Struct, frozen=True, omit_defaults=True):
    """The number of edges of the type that a source may have; `high` None is unbounded."""

    low: int = 0
    high: int | None = None


class Interface(Struct, frozen=True, kw_only=True):
    """An interface as declared. It has no data and no ids."""

    name: str
    properties: tuple[PropertyShape, ...] = ()
    rules: Rules = Rules()
    description: str | None = None
    metadata: tuple[Annotation, ...] = ()


class EntityType(Struct, frozen=True, kw_only=True):
    """The common parts of node and edge types."""

    kind: ClassVar[TypeKind]
    id: TypeId
    incarnation: Incarnation
    name: str
    properties: tuple[Property, ...] = ()
    next_property_id: PropertyId
    rules: Rules = Rules()
    description: str | None = None
    renamed_from: str | None = None
    metadata: tuple[Annotation, ...] = ()

    @property
    def alias(self) -> str:
        """`node:T` or `edge:E`; `display_order` is the sort key for aliases."""
        return f"{self.kind.value}:{self.name}"

    @property
    def key(self) -> tuple[str, ...]:
        return self.rules.key

    def property_named(self, name: str) -> Property | None:
        return next((property_ for property_ in self.properties if property_.name == name), None)

    def property_with_id(self, property_id: PropertyId) -> Property | None:
        return next((property_ for property_ in self.properties if property_.id == property_id), None)


class NodeType(EntityType, frozen=True, kw_only=True):
    """A node type, with the names of the interfaces it implements."""

    kind = TypeKind.NODE
    implements: tuple[str, ...] = ()


class EdgeType(EntityType, frozen=True, kw_only=True):
    """An edge type from one node type to another; the endpoints are type ids, so a renamed node keeps its edges."""

    kind = TypeKind.EDGE
    source: TypeId
    target: TypeId
    cardinality: Cardinality = Cardinality()


Entity = NodeType | EdgeType
"""A type that has a table."""
AnyEntity = TypeVar("AnyEntity", NodeType, EdgeType)
"""A node type or an edge type, for functions whose result has the type of the argument."""


class Catalog(Struct, frozen=True, kw_only=True, dict=True):
    """All types of a schema. `next_type_id` is the number of the next new type; no earlier type had it."""

    nodes: tuple[NodeType, ...] = ()
    edges: tuple[EdgeType, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    next_type_id: int = 1

    @property
    def types(self) -> tuple[Entity, ...]:
        """Nodes, then edges, each in the order in which they were added."""
        return (*self.nodes, *self.edges)

    @cached_property
    def _by_id(self) -> Mapping[TypeId, Entity]:
        return {entity.id: entity for entity in self.types}

    @cached_property
    def _nodes_by_name(self) -> Mapping[str, NodeType]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _edges_by_name(self) -> Mapping[str, EdgeType]:
        return {edge_lookup_name(edge.name): edge for edge in self.edges}

    def node_named(self, name: str) -> NodeType | None:
        return self._nodes_by_name.get(name)

    def edge_named(self, name: str) -> EdgeType | None:
        """Return the edge of this name, ignoring the case of the first letter."""
        return self._edges_by_name.get(edge_lookup_name(name))

    def interface_named(self, name: str) -> Interface | None:
        return next((interface for interface in self.interfaces if interface.name == name), None)

    def type_named(self, name: str) -> Entity | None:
        """Return the node or edge with exactly this name."""
        edge = self.edge_named(name)
        return self.node_named(name) or (edge if edge and edge.name == name else None)

    def require_type(self, name: str) -> Entity:
        """Return the type with this name or alias, `Person` or `node:Person`; raise if there is none.

        The case of the first letter of an edge does not matter.
        """
        kind, separator, rest = name.partition(":")
        entity: Entity | None = None
        if not separator or kind == TypeKind.NODE.value:
            entity = self.node_named(rest or name)
        if entity is None and (not separator or kind == TypeKind.EDGE.value):
            entity = self.edge_named(rest or name)
        if entity is None:
            similar = did_you_mean((rest or name)[:_NAME_CHARACTERS_MAX], (entity.name for entity in self.types))
            raise NotFoundError(
                f"unknown type '{name}'{similar}",
                code="type_missing",
                hint=hint("Run {} to list the types.", action("schema show")),
                facts={"type": name},
            )
        return entity

    def select_types(self, names: Collection[str] | None) -> list[Entity]:
        """Return the types with these names or aliases, in the order of the schema; all types if there are no names."""
        chosen = {self.require_type(name).id for name in names or ()}
        return [entity for entity in self.types if not names or entity.id in chosen]

    def type_with_id(self, type_id: TypeId) -> Entity | None:
        return self._by_id.get(type_id)

    def same_type(self, entity: Entity) -> Entity | None:
        """Return the type of this catalog with the same id; None if it was dropped or created again."""
        same = self._by_id.get(entity.id)
        return same if same is not None and same.incarnation == entity.incarnation else None

    def source_of(self, edge: EdgeType) -> NodeType:
        return self._endpoint(edge.source)

    def target_of(self, edge: EdgeType) -> NodeType:
        return self._endpoint(edge.target)

    def _endpoint(self, type_id: TypeId) -> NodeType:
        node = self._by_id[type_id]
        assert isinstance(node, NodeType), "the endpoints of an edge are nodes"
        return node


def edge_lookup_name(name: str) -> str:
    """Return an edge's name with a lower-case first letter."""
    return name[:1].lower() + name[1:]


def type_alias(kind: str, name: str) -> str:
    """Return the alias of a type of a kind from its name or alias; raise for an alias of the other kind."""
    if name.startswith(f"{kind}:"):
        return name
    if name.startswith(tuple(f"{other.value}:" for other in TypeKind)):
        raise UsageError(
            f"'{name}' is not {'an edge' if kind == TypeKind.EDGE.value else 'a node'} type",
            code="type_kind",
            hint=f"Pass the name of a type of this kind, or the other kind: expected `{kind}:` or no prefix.",
            facts={"type": name, "entity_kind": kind},
        )
    return f"{kind}:{name}"


def display_order(alias: str) -> tuple[bool, str]:
    """Return the sort key of an alias in every list of tables: nodes before edges, each by name."""
    return alias.startswith("edge:"), alias
