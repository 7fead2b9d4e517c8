"""The shape of the catalog's JSON, one struct per object. Members that a struct does not know are ignored."""

from __future__ import annotations

from typing import Literal as OneOf

import msgspec

LiteralKind = OneOf["string", "number", "word", "date", "datetime"]


class Wire(msgspec.Struct, kw_only=True, frozen=True):
    """A struct that ignores what it does not know."""


class TypeWire(Wire, kw_only=True, frozen=True):
    """A property's type: a scalar's name, `list` with `item`, `Vector` with `size` or `enum` with `values`."""

    kind: str
    item: str = ""
    size: int = 0
    values: tuple[str, ...] = ()


class LiteralWire(Wire, kw_only=True, frozen=True):
    """A literal of an annotation that is only kept."""

    kind: LiteralKind
    text: str


class ArgumentWire(Wire, kw_only=True, frozen=True):
    """An argument of an annotation that is only kept."""

    kind: OneOf["string", "number", "word", "date", "datetime", "range", "named"]
    text: str = ""
    low: LiteralWire | None = None
    high: LiteralWire | None = None
    name: str = ""
    value: LiteralWire | None = None


class AnnotationWire(Wire, kw_only=True, frozen=True):
    """An annotation that is only kept."""

    name: str
    arguments: tuple[ArgumentWire, ...] = ()


class EmbeddingWire(Wire, kw_only=True, frozen=True):
    """See `catalog.Embedding`."""

    source: str
    model: str | None = None
    required: bool = False


class ShapeWire(Wire, kw_only=True, frozen=True):
    """See `catalog.PropertyShape`; `default` is canonical text."""

    name: str
    type: TypeWire
    nullable: bool = False
    indexed: bool = False
    default: str | None = None
    embedding: EmbeddingWire | None = None
    description: str | None = None
    renamed_from: str | None = None
    metadata: tuple[AnnotationWire, ...] = ()


class PropertyWire(ShapeWire, kw_only=True, frozen=True):
    """See `catalog.Property`; `filled` and `null_fills` are canonical text, an empty `filled` is null."""

    id: int
    filled: tuple[str, ...] | None = None
    null_fills: tuple[str, ...] = ()


class RangeWire(Wire, kw_only=True, frozen=True):
    """See `catalog.RangeRule`; the ends are canonical text, an absent one is open."""

    property: str
    low: str | None = None
    high: str | None = None


class CheckWire(Wire, kw_only=True, frozen=True):
    """See `catalog.CheckRule`."""

    property: str
    pattern: str


class RulesWire(Wire, kw_only=True, frozen=True):
    """See `catalog.Rules`."""

    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[RangeWire, ...] = ()
    checks: tuple[CheckWire, ...] = ()


class InterfaceWire(RulesWire, kw_only=True, frozen=True):
    """See `catalog.Interface`."""

    name: str
    properties: tuple[ShapeWire, ...] = ()
    description: str | None = None
    metadata: tuple[AnnotationWire, ...] = ()


class EntityWire(RulesWire, kw_only=True, frozen=True):
    """See `catalog.EntityType`."""

    id: str
    incarnation: str
    name: str
    next_property_id: int
    properties: tuple[PropertyWire, ...] = ()
    description: str | None = None
    renamed_from: str | None = None
    metadata: tuple[AnnotationWire, ...] = ()


class NodeWire(EntityWire, kw_only=True, frozen=True):
    """See `catalog.NodeType`."""

    implements: tuple[str, ...] = ()


class CardinalityWire(Wire, kw_only=True, frozen=True):
    """See `catalog.Cardinality`."""

    low: int = 0
    high: int | None = None


class EdgeWire(EntityWire, kw_only=True, frozen=True):
    """See `catalog.EdgeType`."""

    source: str
    target: str
    cardinality: CardinalityWire = CardinalityWire()


class CatalogWire(Wire, kw_only=True, frozen=True):
    """The whole; `v` is the version of this shape, `next_type_id` is decimal text."""

    v: int
    nodes: tuple[NodeWire, ...]
    edges: tuple[EdgeWire, ...]
    interfaces: tuple[InterfaceWire, ...] = ()
    next_type_id: str
