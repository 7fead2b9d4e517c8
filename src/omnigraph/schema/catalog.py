"""The typed catalog: what an accepted schema means, with the ids that outlive names.

Immutable values. A type's id and a property's id come from counters that never go back, kept here as the next free
number, so that a rename keeps the id and a drop leaves a gap. Constraints name columns by name: the properties of the
same type, and `src` and `dst` on edges. Interfaces are already expanded into the nodes; they are kept only to be shown
and printed. `renamed_from` is what the text asked for; comparing two catalogs is what acts on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from omnigraph.base.ids import Incarnation, PropertyId, TypeId
from omnigraph.lang.syntax import Annotation
from omnigraph.schema.property_types import PropertyType
from omnigraph.schema.values import RangeBounds, Value


class TypeKind(Enum):
    """Nodes and edges; the value is the first part of an alias."""

    NODE = "node"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector is made from this String property, by this model if one is named.

    The property is always nullable: a row without a vector waits for one. `required` says that it was declared without
    `?`. A graph of an earlier release may have a property that is not nullable instead; it keeps its column and rule.
    """

    source: str
    model: str | None = None
    required: bool = False

    def renamed(self, names: Mapping[str, str]) -> Embedding:
        """Return the embedding with renamed columns; a column that the mapping lacks keeps its name."""
        return replace(self, source=names.get(self.source, self.source))


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyShape:
    """A property without identity, as an interface has it. `default` None means that there is none."""

    name: str
    type: PropertyType
    nullable: bool = False
    indexed: bool = False
    default: Value | None = None
    embedding: Embedding | None = None
    description: str | None = None
    renamed_from: str | None = None
    metadata: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Property(PropertyShape):
    """A property of a node or edge type. Its id is unique within the type and never used again.

    `filled` is the value, or none, that the rows got that were there when the property came; None means that it is
    the default of now. It stays when the default changes, so that a row from before can be told from a changed one.
    `null_fills` has a value for each time that the property became required with a default: what nulls became then.
    """

    id: PropertyId
    filled: tuple[Value, ...] | None = None
    null_fills: tuple[Value, ...] = ()

    @classmethod
    def from_shape(cls, shape: PropertyShape, property_id: PropertyId) -> Property:
        """The shape with an identity."""
        filled, null_fills = (shape.filled, shape.null_fills) if isinstance(shape, Property) else (None, ())
        parts = {name: getattr(shape, name) for name in PropertyShape.__slots__}
        return cls(id=property_id, filled=filled, null_fills=null_fills, **parts)

    @property
    def fill(self) -> Value | None:
        """What a row has that was there before the property; None is null."""
        came_with = self.default if self.filled is None else next(iter(self.filled), None)
        return self.null_fill(0) if came_with is None else came_with

    def null_fill(self, past: int) -> Value | None:
        """What a null became that was written after `past` of the `null_fills`; None if it is still null."""
        return next(iter(self.null_fills[past:]), None)

    def with_default(self, default: Value | None) -> Property:
        """The same property with another default for rows to come."""
        was = () if self.fill is None else (self.fill,)
        now = () if default is None else (default,)
        return replace(self, default=default, filled=None if was == now else was)


@dataclass(frozen=True, slots=True)
class RangeRule:
    """The values of a property lie within these bounds, both included."""

    property: str
    bounds: RangeBounds


@dataclass(frozen=True, slots=True)
class CheckRule:
    """The whole of every value of a property matches this pattern (see `patterns` for the dialect)."""

    property: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What rows must obey beyond their types. An empty key means that the type has none."""

    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[RangeRule, ...] = ()
    checks: tuple[CheckRule, ...] = ()

    def renamed(self, names: Mapping[str, str]) -> Rules:
        """Return the rules with renamed columns; a column that the mapping lacks keeps its name."""
        return Rules(
            key=tuple(names.get(name, name) for name in self.key),
            uniques=tuple(tuple(names.get(name, name) for name in columns) for columns in self.uniques),
            ranges=tuple(
                replace(rule, property=names.get(rule.property, rule.property)) for rule in self.ranges
            ),
            checks=tuple(
                replace(rule, property=names.get(rule.property, rule.property)) for rule in self.checks
            ),
        )


@dataclass(frozen=True, slots=True)
class Cardinality:
    """How many edges of the type a source may have; `high` None is unbounded."""

    low: int = 0
    high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """An interface as declared. It has no data and no ids."""

    name: str
    properties: tuple[PropertyShape, ...] = ()
    rules: Rules = Rules()
    description: str | None = None
    metadata: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityType:
    """What node and edge types have in common."""

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
    def kind(self) -> TypeKind:
        raise NotImplementedError

    @property
    def alias(self) -> str:
        """`node:T` or `edge:E`; `display_order` is the order in which people see several."""
        return f"{self.kind.value}:{self.name}"

    @property
    def key(self) -> tuple[str, ...]:
        return self.rules.key

    def property_named(self, name: str) -> Property | None:
        return next((found for found in self.properties if found.name == name), None)

    def property_with_id(self, property_id: PropertyId) -> Property | None:
        return next((found for found in self.properties if found.id == property_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType(EntityType):
    """A node type, with the names of the interfaces it implements."""

    implements: tuple[str, ...] = ()

    @property
    def kind(self) -> TypeKind:
        return TypeKind.NODE


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeType(EntityType):
    """An edge type from one node type to another; the ends are type ids, so that a renamed node keeps its edges."""

    source: TypeId
    target: TypeId
    cardinality: Cardinality = Cardinality()

    @property
    def kind(self) -> TypeKind:
        return TypeKind.EDGE


Entity = NodeType | EdgeType
"""A type that has a table."""
AnyEntity = TypeVar("AnyEntity", NodeType, EdgeType)
"""A node type where one comes in and an edge type where one does."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All types of a schema. `next_type_id` is the number of the next type, never of an earlier one."""

    nodes: tuple[NodeType, ...] = ()
    edges: tuple[EdgeType, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    next_type_id: int = 1
    _by_id: Mapping[TypeId, Entity] = field(init=False, repr=False, compare=False)
    _nodes_by_name: Mapping[str, NodeType] = field(init=False, repr=False, compare=False)
    _edges_by_name: Mapping[str, EdgeType] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Plain dictionaries and not read-only views of them: a catalog travels to executors, and views do not pickle.
        by_id: Iterable[tuple[TypeId, Entity]] = ((found.id, found) for found in self.types)
        object.__setattr__(self, "_by_id", dict(by_id))
        nodes = {found.name: found for found in self.nodes}
        object.__setattr__(self, "_nodes_by_name", nodes)
        edges = {edge_lookup_name(found.name): found for found in self.edges}
        object.__setattr__(self, "_edges_by_name", edges)

    @property
    def types(self) -> tuple[Entity, ...]:
        """Nodes, then edges, each in the order of the text that introduced them."""
        return (*self.nodes, *self.edges)

    def node_named(self, name: str) -> NodeType | None:
        return self._nodes_by_name.get(name)

    def edge_named(self, name: str) -> EdgeType | None:
        """The edge of this name; the case of the first letter does not matter."""
        return self._edges_by_name.get(edge_lookup_name(name))

    def interface_named(self, name: str) -> Interface | None:
        return next((found for found in self.interfaces if found.name == name), None)

    def type_named(self, name: str) -> Entity | None:
        """The node or edge of exactly this name."""
        edge = self.edge_named(name)
        return self.node_named(name) or (edge if edge and edge.name == name else None)

    def type_with_id(self, type_id: TypeId) -> Entity | None:
        return self._by_id.get(type_id)

    def source_of(self, edge: EdgeType) -> NodeType:
        return self._end(edge.source)

    def target_of(self, edge: EdgeType) -> NodeType:
        return self._end(edge.target)

    def _end(self, type_id: TypeId) -> NodeType:
        found = self._by_id[type_id]
        assert isinstance(found, NodeType), "an edge ends at nodes"
        return found


def edge_lookup_name(name: str) -> str:
    """An edge's name with the case of its first letter taken away."""
    return name[:1].lower() + name[1:]


def display_order(alias: str) -> tuple[bool, str]:
    """A key to sort aliases of tables by, wherever several are shown: nodes before edges, each by name."""
    return alias.startswith("edge:"), alias
