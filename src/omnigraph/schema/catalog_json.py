"""Catalogs as canonical JSON, and back.

The `Stored…` classes declare the stored shape once, for both directions. Out: canonical JSON, with sorted members and
without those that have their default value; its SHA-256 is the schema hash, so the bytes for a catalog never change.
In: any stored text; a consistent `Catalog` or a `FormatError` results. Unknown members are ignored, missing ones are
never guessed.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final, TypeVar, assert_never
from typing import Literal as OneOf

import msgspec

from omnigraph.base.errors import FormatError
from omnigraph.base.ids import SchemaHash
from omnigraph.lang import syntax
from omnigraph.schema.catalog import (
    Cardinality,
    Catalog,
    CheckRule,
    EdgeType,
    Embedding,
    Interface,
    NodeType,
    Property,
    PropertyShape,
    RangeRule,
    Rules,
)
from omnigraph.schema.consistency import InconsistentCatalogError, require_consistent
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType
from omnigraph.schema.values import InvalidValue, RangeBounds, Value, value_from_text, value_text

CATALOG_VERSION: Final = 1
_SCALARS: Final = {scalar.value: scalar for scalar in Scalar}
_DECIMAL: Final = re.compile(r"[0-9]{1,19}")

Target = TypeVar("Target")
AnyType = TypeVar("AnyType", NodeType, EdgeType, Interface)


class Stored(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A part of the stored catalog."""


class StoredType(Stored, kw_only=True, frozen=True):
    """A property's type: a scalar's name, `list` with `item`, `Vector` with `size` or `enum` with `values`."""

    kind: str
    item: str = ""
    size: int = 0
    values: tuple[str, ...] = ()


class StoredArgument(Stored, kw_only=True, frozen=True):
    """An argument of an annotation: a literal with `text`, or a range or named argument, which have literals."""

    kind: OneOf["string", "number", "word", "date", "datetime", "range", "named"]
    text: str | None = None
    low: StoredArgument | None = None
    high: StoredArgument | None = None
    name: str | None = None
    value: StoredArgument | None = None


class StoredAnnotation(Stored, kw_only=True, frozen=True):
    """An annotation without a meaning of its own."""

    name: str
    arguments: tuple[StoredArgument, ...] = ()


class StoredEmbedding(Stored, kw_only=True, frozen=True):
    """See `catalog.Embedding`."""

    source: str
    model: str | None = None
    required: bool = False


class StoredShape(Stored, kw_only=True, frozen=True):
    """See `catalog.PropertyShape`; `default` is canonical text."""

    name: str
    type: StoredType
    nullable: bool = False
    indexed: bool = False
    default: str | None = None
    embedding: StoredEmbedding | None = None
    description: str | None = None
    renamed_from: str | None = None
    metadata: tuple[StoredAnnotation, ...] = ()


class StoredProperty(StoredShape, kw_only=True, frozen=True):
    """See `catalog.Property`; `filled` and `null_fills` are canonical text, an empty `filled` is null."""

    id: int
    filled: tuple[str, ...] | None = None
    null_fills: tuple[str, ...] = ()


class StoredRange(Stored, kw_only=True, frozen=True):
    """See `catalog.RangeRule`; the bounds are canonical text, an absent one is open."""

    property: str
    low: str | None = None
    high: str | None = None


class StoredCheck(Stored, kw_only=True, frozen=True):
    """See `catalog.CheckRule`."""

    property: str
    pattern: str


class StoredRules(Stored, kw_only=True, frozen=True):
    """See `catalog.Rules`."""

    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[StoredRange, ...] = ()
    checks: tuple[StoredCheck, ...] = ()


class StoredInterface(StoredRules, kw_only=True, frozen=True):
    """See `catalog.Interface`."""

    name: str
    properties: tuple[StoredShape, ...] = ()
    description: str | None = None
    metadata: tuple[StoredAnnotation, ...] = ()


class StoredEntity(StoredRules, kw_only=True, frozen=True):
    """See `catalog.EntityType`."""

    id: str
    incarnation: str
    name: str
    next_property_id: int
    properties: tuple[StoredProperty, ...] = ()
    description: str | None = None
    renamed_from: str | None = None
    metadata: tuple[StoredAnnotation, ...] = ()


class StoredNode(StoredEntity, kw_only=True, frozen=True):
    """See `catalog.NodeType`."""

    implements: tuple[str, ...] = ()


class StoredCardinality(Stored, kw_only=True, frozen=True):
    """See `catalog.Cardinality`."""

    low: int = 0
    high: int | None = None


class StoredEdge(StoredEntity, kw_only=True, frozen=True):
    """See `catalog.EdgeType`; without `cardinality` any number of edges is valid."""

    source: str
    target: str
    cardinality: StoredCardinality | None = None


class StoredCatalog(Stored, kw_only=True, frozen=True):
    """See `catalog.Catalog`; `v` is the version of this shape, `next_type_id` is decimal text."""

    v: int
    nodes: tuple[StoredNode, ...]
    edges: tuple[StoredEdge, ...]
    interfaces: tuple[StoredInterface, ...] = ()
    next_type_id: str


def catalog_to_json(catalog: Catalog) -> str:
    """Return the canonical JSON of a catalog."""
    stored = StoredCatalog(
        v=CATALOG_VERSION,
        nodes=tuple(_store_type(StoredNode, node) for node in catalog.nodes),
        edges=tuple(_store_type(StoredEdge, edge) for edge in catalog.edges),
        interfaces=tuple(_store_type(StoredInterface, interface) for interface in catalog.interfaces),
        next_type_id=str(catalog.next_type_id),
    )
    # Not msgspec's encoder, whose escapes differ: the hash depends on these bytes.
    return json.dumps(msgspec.to_builtins(stored), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def schema_hash(catalog: Catalog) -> SchemaHash:
    """Return the SHA-256 of the canonical JSON, in hex."""
    return SchemaHash(hashlib.sha256(catalog_to_json(catalog).encode()).hexdigest())


def catalog_from_json(text: str | bytes) -> Catalog:
    """Return the catalog that a JSON text describes, or raise `FormatError`."""
    try:
        stored = msgspec.json.decode(text, type=StoredCatalog)
        if stored.v != CATALOG_VERSION:
            raise InconsistentCatalogError(f"unsupported version: expected {CATALOG_VERSION}, got {stored.v}")
        if not _DECIMAL.fullmatch(stored.next_type_id):
            raise InconsistentCatalogError("`next_type_id` is not a decimal number")
        catalog = Catalog(
            nodes=tuple(_restore_type(NodeType, node) for node in stored.nodes),
            edges=tuple(_restore_type(EdgeType, edge) for edge in stored.edges),
            interfaces=tuple(_restore_type(Interface, interface) for interface in stored.interfaces),
            next_type_id=int(stored.next_type_id),
        )
        require_consistent(catalog)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, InconsistentCatalogError) as error:
        raise FormatError(
            f"the stored catalog cannot be read: {error}",
            code="catalog_malformed",
            hint="Upgrade omnigraph if a newer release wrote this graph. Otherwise restore the graph's files.",
        ) from error
    return catalog


def _copy(target: type[Target], source: object, **converted: object) -> Target:
    """Make a `target` from the converted fields, and from the fields of the source with the same names."""
    kind: Any = target
    names = kind.__struct_fields__
    same = {name: getattr(source, name) for name in names if name not in converted and hasattr(source, name)}
    made: Target = kind(**same, **converted)
    return made


def _store_type(target: type[Target], declared: NodeType | EdgeType | Interface) -> Target:
    shape_class: type[StoredShape] = StoredShape if target is StoredInterface else StoredProperty
    types = {property_.name: property_.type for property_ in declared.properties}
    rules = declared.rules
    converted: dict[str, object] = {
        "properties": tuple(_store_property(shape_class, property_) for property_ in declared.properties),
        "metadata": _store_annotations(declared.metadata),
        "key": rules.key,
        "uniques": rules.uniques,
        "ranges": tuple(_store_range(rule, types[rule.property]) for rule in rules.ranges),
        "checks": tuple(_copy(StoredCheck, rule) for rule in rules.checks),
    }
    if isinstance(declared, EdgeType):
        is_any = declared.cardinality == Cardinality()
        converted["cardinality"] = None if is_any else _copy(StoredCardinality, declared.cardinality)
    return _copy(target, declared, **converted)


def _restore_type(target: type[AnyType], stored: StoredNode | StoredEdge | StoredInterface) -> AnyType:
    shape_class: type[PropertyShape] = PropertyShape if target is Interface else Property
    properties = tuple(_restore_property(shape_class, property_) for property_ in stored.properties)
    types = {property_.name: property_.type for property_ in properties}
    converted: dict[str, object] = {
        "properties": properties,
        "metadata": _restore_annotations(stored.metadata),
        "rules": Rules(
            stored.key,
            stored.uniques,
            tuple(_restore_range(rule, types) for rule in stored.ranges),
            tuple(_copy(CheckRule, rule) for rule in stored.checks),
        ),
    }
    if isinstance(stored, StoredEdge):
        converted["cardinality"] = _copy(Cardinality, stored.cardinality or StoredCardinality())
    return _copy(target, stored, **converted)


def _store_property(target: type[StoredShape], shape: PropertyShape) -> StoredShape:
    converted: dict[str, object] = {
        "type": _store_property_type(shape.type),
        "default": _store_value(shape.default, shape.type),
        "embedding": shape.embedding and _copy(StoredEmbedding, shape.embedding),
        "metadata": _store_annotations(shape.metadata),
    }
    if isinstance(shape, Property):
        converted["null_fills"] = tuple(value_text(value, shape.type) for value in shape.null_fills)
        if shape.filled is not None:
            converted["filled"] = tuple(value_text(value, shape.type) for value in shape.filled)
    return _copy(target, shape, **converted)


def _restore_property(target: type[PropertyShape], stored: StoredShape) -> PropertyShape:
    property_type = _restore_property_type(stored.type)
    converted: dict[str, object] = {
        "type": property_type,
        "default": None if stored.default is None else _restore_value(stored.default, property_type),
        "embedding": stored.embedding and _copy(Embedding, stored.embedding),
        "metadata": _restore_annotations(stored.metadata),
    }
    if isinstance(stored, StoredProperty):
        converted["null_fills"] = tuple(_restore_value(text, property_type) for text in stored.null_fills)
        if stored.filled is not None:
            converted["filled"] = tuple(_restore_value(text, property_type) for text in stored.filled[:1])
    return _copy(target, stored, **converted)


def _store_property_type(property_type: PropertyType) -> StoredType:
    match property_type:
        case ScalarType(scalar):
            return StoredType(kind=scalar.value)
        case ListType(item):
            return StoredType(kind="list", item=item.value)
        case VectorType(size):
            return StoredType(kind="Vector", size=size)
        case EnumType(values):
            return StoredType(kind="enum", values=values)
        case _:
            assert_never(property_type)


def _restore_property_type(stored: StoredType) -> PropertyType:
    if stored.kind in _SCALARS:
        return ScalarType(_SCALARS[stored.kind])
    if stored.kind == "list" and stored.item in _SCALARS:
        return ListType(_SCALARS[stored.item])
    if stored.kind == "Vector" and stored.size > 0:
        return VectorType(stored.size)
    if stored.kind == "enum" and stored.values:
        return EnumType(tuple(sorted(set(stored.values))))
    raise InconsistentCatalogError(f"a property has the unknown type '{stored.kind}'")


def _store_value(value: Value | None, property_type: PropertyType) -> str | None:
    return None if value is None else value_text(value, property_type)


def _restore_value(text: str, property_type: PropertyType) -> Value:
    value = value_from_text(text, property_type)
    if isinstance(value, InvalidValue):
        raise InconsistentCatalogError(value.message)
    return value


def _store_range(rule: RangeRule, property_type: PropertyType) -> StoredRange:
    low, high = (_store_value(bound, property_type) for bound in (rule.bounds.low, rule.bounds.high))
    return StoredRange(property=rule.property, low=low, high=high)


def _restore_range(stored: StoredRange, types: dict[str, PropertyType]) -> RangeRule:
    if stored.property not in types:
        raise InconsistentCatalogError(f"a range names the unknown property '{stored.property}'")
    property_type = types[stored.property]
    low, high = (None if bound is None else _restore_value(bound, property_type) for bound in (stored.low, stored.high))
    return RangeRule(stored.property, RangeBounds(low, high))


def _store_annotations(annotations: tuple[syntax.Annotation, ...]) -> tuple[StoredAnnotation, ...]:
    return tuple(
        StoredAnnotation(name=annotation.name.text, arguments=tuple(map(_store_argument, annotation.arguments)))
        for annotation in annotations
    )


def _restore_annotations(stored: tuple[StoredAnnotation, ...]) -> tuple[syntax.Annotation, ...]:
    return tuple(
        syntax.Annotation(syntax.Name(annotation.name), tuple(map(_restore_argument, annotation.arguments)))
        for annotation in stored
    )


def _store_argument(argument: syntax.Argument) -> StoredArgument:
    match argument:
        case syntax.StringLiteral(text):
            return StoredArgument(kind="string", text=text)
        case syntax.NumberLiteral(text):
            return StoredArgument(kind="number", text=text)
        case syntax.WordLiteral(text):
            return StoredArgument(kind="word", text=text)
        case syntax.TimeLiteral(is_datetime, text):
            return StoredArgument(kind="datetime" if is_datetime else "date", text=text)
        case syntax.RangeArgument(low, high):
            stored_low, stored_high = (None if end is None else _store_argument(end) for end in (low, high))
            return StoredArgument(kind="range", low=stored_low, high=stored_high)
        case syntax.NamedArgument(name, value):
            return StoredArgument(kind="named", name=name.text, value=_store_argument(value))
        case _:
            assert_never(argument)


def _restore_argument(stored: StoredArgument) -> syntax.Argument:
    match stored.kind:
        case "range":
            low, high = (None if end is None else _restore_literal(end) for end in (stored.low, stored.high))
            return syntax.RangeArgument(low, high)
        case "named":
            if stored.value is None:
                raise InconsistentCatalogError("a named argument has no value")
            return syntax.NamedArgument(syntax.Name(stored.name or ""), _restore_literal(stored.value))
        case _:
            return _restore_literal(stored)


def _restore_literal(stored: StoredArgument) -> syntax.Literal:
    if stored.text is None:
        raise InconsistentCatalogError(f"a literal of the kind '{stored.kind}' has no text")
    match stored.kind:
        case "string":
            return syntax.StringLiteral(stored.text)
        case "number":
            return syntax.NumberLiteral(stored.text)
        case "word":
            return syntax.WordLiteral(stored.text)
        case "date" | "datetime":
            return syntax.TimeLiteral(stored.kind == "datetime", stored.text)
        case _:
            raise InconsistentCatalogError(f"an argument of the kind '{stored.kind}' is not a literal")
