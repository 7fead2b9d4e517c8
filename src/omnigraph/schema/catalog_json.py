"""Catalogs as canonical JSON, and back.

The `_Stored…` classes declare the stored shape once, for both directions, each for the class of `catalog` with that
name; values are canonical text. Classes of `catalog` whose members are stored unchanged are used directly. Out:
canonical JSON, with sorted members and without those that have their default value; its SHA-256 is the schema hash, so
the bytes for a catalog never change. In: any stored text; a consistent `Catalog` or a `FormatError` results. Unknown
members are ignored, missing ones are never guessed.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final, TypeVar, assert_never

import msgspec

from omnigraph.base.decoding import decode_json
from omnigraph.base.errors import FormatError
from omnigraph.base.ids import SchemaHash
from omnigraph.lang import syntax
from omnigraph.schema import property_types
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
from omnigraph.schema.values import InvalidValue, RangeBounds, Value, value_from_text, value_text

CATALOG_VERSION: Final = 1
_SCALARS: Final = {scalar.value: scalar for scalar in property_types.Scalar}
_LITERALS: Final[dict[str, type[syntax.StringLiteral | syntax.NumberLiteral | syntax.WordLiteral]]] = {
    "string": syntax.StringLiteral,
    "number": syntax.NumberLiteral,
    "word": syntax.WordLiteral,
}
_DECIMAL: Final = re.compile(r"[0-9]{1,19}")

Target = TypeVar("Target")
AnyType = TypeVar("AnyType", NodeType, EdgeType, Interface)


class _Stored(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A part of the stored catalog."""


class _StoredType(_Stored, kw_only=True, frozen=True):
    """A property's type: a scalar's name, `list` with `item`, `Vector` with `size` or `enum` with `values`."""

    kind: str
    item: str = ""
    size: int = 0
    values: tuple[str, ...] = ()


class _StoredArgument(_Stored, kw_only=True, frozen=True):
    """An argument of an annotation: a literal with `text`, or a range or named argument, which have literals."""

    kind: str
    text: str | None = None
    low: _StoredArgument | None = None
    high: _StoredArgument | None = None
    name: str | None = None
    value: _StoredArgument | None = None


class _StoredAnnotation(_Stored, kw_only=True, frozen=True):
    """An annotation without a meaning of its own."""

    name: str
    arguments: tuple[_StoredArgument, ...] = ()


class _StoredShape(_Stored, kw_only=True, frozen=True):
    name: str
    type: _StoredType
    nullable: bool = False
    indexed: bool = False
    text_options: property_types.TextOptions | None = None
    default: str | None = None
    embedding: Embedding | None = None
    description: str | None = None
    renamed_from: str | None = None
    metadata: tuple[_StoredAnnotation, ...] = ()


class _StoredProperty(_StoredShape, kw_only=True, frozen=True):
    """`filled` has at most one value; an empty one is null."""

    id: int
    filled: tuple[str, ...] | None = None
    null_fills: tuple[str, ...] = ()


class _StoredRange(_Stored, kw_only=True, frozen=True):
    property: str
    low: str | None = None
    high: str | None = None


class _StoredRules(_Stored, kw_only=True, frozen=True):
    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[_StoredRange, ...] = ()
    checks: tuple[CheckRule, ...] = ()


class _StoredInterface(_StoredRules, kw_only=True, frozen=True):
    name: str
    properties: tuple[_StoredShape, ...] = ()
    description: str | None = None
    metadata: tuple[_StoredAnnotation, ...] = ()


class _StoredEntity(_StoredRules, kw_only=True, frozen=True):
    id: str
    incarnation: str
    name: str
    next_property_id: int
    properties: tuple[_StoredProperty, ...] = ()
    description: str | None = None
    renamed_from: str | None = None
    metadata: tuple[_StoredAnnotation, ...] = ()


class _StoredNode(_StoredEntity, kw_only=True, frozen=True):
    implements: tuple[str, ...] = ()


class _StoredEdge(_StoredEntity, kw_only=True, frozen=True):
    """Without `cardinality` any number of edges is valid."""

    source: str
    target: str
    cardinality: Cardinality | None = None


class _StoredCatalog(_Stored, kw_only=True, frozen=True):
    """`v` is the version of this shape, `next_type_id` is decimal text."""

    v: int
    nodes: tuple[_StoredNode, ...]
    edges: tuple[_StoredEdge, ...]
    interfaces: tuple[_StoredInterface, ...] = ()
    next_type_id: str


def catalog_to_json(catalog: Catalog) -> str:
    """Return the canonical JSON of a catalog."""
    stored = _StoredCatalog(
        v=CATALOG_VERSION,
        nodes=tuple(_store_type(_StoredNode, node) for node in catalog.nodes),
        edges=tuple(_store_type(_StoredEdge, edge) for edge in catalog.edges),
        interfaces=tuple(_store_type(_StoredInterface, interface) for interface in catalog.interfaces),
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
        stored = decode_json(text, _StoredCatalog)
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
    copy: Target = kind(**same, **converted)
    return copy


def _store_type(target: type[Target], declared: NodeType | EdgeType | Interface) -> Target:
    shape_class: type[_StoredShape] = _StoredShape if target is _StoredInterface else _StoredProperty
    types = {property_.name: property_.type for property_ in declared.properties}
    rules = declared.rules
    converted: dict[str, object] = {
        "properties": tuple(_store_property(shape_class, property_) for property_ in declared.properties),
        "metadata": _store_annotations(declared.metadata),
        "key": rules.key,
        "uniques": rules.uniques,
        "ranges": tuple(_store_range(rule, types[rule.property]) for rule in rules.ranges),
        "checks": rules.checks,
    }
    if isinstance(declared, EdgeType):
        is_any = declared.cardinality == Cardinality()
        converted["cardinality"] = None if is_any else declared.cardinality
    return _copy(target, declared, **converted)


def _restore_type(target: type[AnyType], stored: _StoredNode | _StoredEdge | _StoredInterface) -> AnyType:
    shape_class: type[PropertyShape] = PropertyShape if target is Interface else Property
    properties = tuple(_restore_property(shape_class, property_) for property_ in stored.properties)
    types = {property_.name: property_.type for property_ in properties}
    converted: dict[str, object] = {
        "properties": properties,
        "metadata": _restore_annotations(stored.metadata),
        "rules": Rules(
            stored.key, stored.uniques, tuple(_restore_range(rule, types) for rule in stored.ranges), stored.checks
        ),
    }
    if isinstance(stored, _StoredEdge):
        converted["cardinality"] = stored.cardinality or Cardinality()
    return _copy(target, stored, **converted)


def _store_property(target: type[_StoredShape], shape: PropertyShape) -> _StoredShape:
    is_plain = shape.text_options == property_types.PLAIN_TEXT
    converted: dict[str, object] = {
        "type": _store_property_type(shape.type),
        "default": _store_value(shape.default, shape.type),
        "text_options": None if is_plain else shape.text_options,
        "metadata": _store_annotations(shape.metadata),
    }
    if isinstance(shape, Property):
        converted["null_fills"] = tuple(value_text(value, shape.type) for value in shape.null_fills)
        if shape.filled is not None:
            converted["filled"] = tuple(value_text(value, shape.type) for value in shape.filled)
    return _copy(target, shape, **converted)


def _restore_property(target: type[PropertyShape], stored: _StoredShape) -> PropertyShape:
    property_type = _restore_property_type(stored.type)
    options = stored.text_options or property_types.PLAIN_TEXT
    if options.stem is not None and options.stem not in property_types.STEM_LANGUAGES:
        raise InconsistentCatalogError(f"a text index has the unknown language '{options.stem}'")
    converted: dict[str, object] = {
        "type": property_type,
        "default": None if stored.default is None else _restore_value(stored.default, property_type),
        "text_options": options,
        "metadata": _restore_annotations(stored.metadata),
    }
    if isinstance(stored, _StoredProperty):
        converted["null_fills"] = tuple(_restore_value(text, property_type) for text in stored.null_fills)
        if stored.filled is not None:
            converted["filled"] = tuple(_restore_value(text, property_type) for text in stored.filled[:1])
    return _copy(target, stored, **converted)


def _store_property_type(property_type: property_types.PropertyType) -> _StoredType:
    match property_type:
        case property_types.ScalarType(scalar):
            return _StoredType(kind=scalar.value)
        case property_types.ListType(item):
            return _StoredType(kind="list", item=item.value)
        case property_types.VectorType(size):
            return _StoredType(kind="Vector", size=size)
        case property_types.EnumType(values):
            return _StoredType(kind="enum", values=values)
        case _:
            assert_never(property_type)


def _restore_property_type(stored: _StoredType) -> property_types.PropertyType:
    if stored.kind in _SCALARS:
        return property_types.ScalarType(_SCALARS[stored.kind])
    if stored.kind == "list" and stored.item in _SCALARS:
        return property_types.ListType(_SCALARS[stored.item])
    if stored.kind == "Vector" and stored.size > 0:
        return property_types.VectorType(stored.size)
    if stored.kind == "enum" and stored.values:
        return property_types.EnumType(tuple(sorted(set(stored.values))))
    raise InconsistentCatalogError(f"a property has the unknown type '{stored.kind}'")


def _store_value(value: Value | None, property_type: property_types.PropertyType) -> str | None:
    return None if value is None else value_text(value, property_type)


def _restore_value(text: str, property_type: property_types.PropertyType) -> Value:
    value = value_from_text(text, property_type)
    if isinstance(value, InvalidValue):
        raise InconsistentCatalogError(value.message)
    return value


def _store_range(rule: RangeRule, property_type: property_types.PropertyType) -> _StoredRange:
    low, high = (_store_value(bound, property_type) for bound in (rule.bounds.low, rule.bounds.high))
    return _StoredRange(property=rule.property, low=low, high=high)


def _restore_range(stored: _StoredRange, types: dict[str, property_types.PropertyType]) -> RangeRule:
    if stored.property not in types:
        raise InconsistentCatalogError(f"a range names the unknown property '{stored.property}'")
    property_type = types[stored.property]
    low, high = (None if bound is None else _restore_value(bound, property_type) for bound in (stored.low, stored.high))
    return RangeRule(stored.property, RangeBounds(low, high))


def _store_annotations(annotations: tuple[syntax.Annotation, ...]) -> tuple[_StoredAnnotation, ...]:
    return tuple(
        _StoredAnnotation(name=annotation.name.text, arguments=tuple(map(_store_argument, annotation.arguments)))
        for annotation in annotations
    )


def _restore_annotations(stored: tuple[_StoredAnnotation, ...]) -> tuple[syntax.Annotation, ...]:
    return tuple(
        syntax.Annotation(syntax.Name(annotation.name), tuple(map(_restore_argument, annotation.arguments)))
        for annotation in stored
    )


def _store_argument(argument: syntax.Argument) -> _StoredArgument:
    match argument:
        case syntax.RangeArgument(low, high):
            stored_low, stored_high = (None if end is None else _store_argument(end) for end in (low, high))
            return _StoredArgument(kind="range", low=stored_low, high=stored_high)
        case syntax.NamedArgument(name, value):
            return _StoredArgument(kind="named", name=name.text, value=_store_argument(value))
        case syntax.TimeLiteral(text=text):
            return _StoredArgument(kind=argument.function, text=text)
        case syntax.StringLiteral(text) | syntax.NumberLiteral(text) | syntax.WordLiteral(text):
            kind = next(kind for kind, literal_class in _LITERALS.items() if isinstance(argument, literal_class))
            return _StoredArgument(kind=kind, text=text)
        case _:
            assert_never(argument)


def _restore_argument(stored: _StoredArgument) -> syntax.Argument:
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


def _restore_literal(stored: _StoredArgument) -> syntax.Literal:
    if stored.text is None:
        raise InconsistentCatalogError(f"a literal of the kind '{stored.kind}' has no text")
    if stored.kind in _LITERALS:
        return _LITERALS[stored.kind](stored.text)
    if stored.kind in {"date", "datetime"}:
        return syntax.TimeLiteral(stored.kind == "datetime", stored.text)
    raise InconsistentCatalogError(f"an argument of the kind '{stored.kind}' is not a literal")
