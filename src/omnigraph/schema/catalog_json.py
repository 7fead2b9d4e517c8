"""JSON text to a catalog.

Comes in: whatever is stored. Goes out: a `Catalog` that is sound in itself (ids do not clash, edges end at nodes, rules
name columns), or a `FormatError` that says what is wrong. Never guesses a missing member.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, assert_never
from typing import Literal as OneOf

import msgspec

from omnigraph.base.errors import FormatError
from omnigraph.base.ids import Incarnation, PropertyId, SchemaHash, TypeId
from omnigraph.lang.syntax import (
    Annotation,
    Argument,
    Literal,
    Name,
    NamedArgument,
    NumberLiteral,
    RangeArgument,
    StringLiteral,
    TimeLiteral,
    WordLiteral,
)
from omnigraph.schema.catalog import (
    Cardinality,
    Catalog,
    CheckRule,
    EdgeType,
    Embedding,
    Entity,
    EntityType,
    Interface,
    NodeType,
    Property,
    PropertyShape,
    RangeRule,
    Rules,
    edge_lookup_name,
)
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType
from omnigraph.schema.values import RangeBounds, Value, ValueMistake, value_from_text, value_text

_ID: Final = re.compile(r"[0-9a-f]{16}")


class CatalogFault(Exception):  # noqa: N818 - it never leaves this room; readers see a FormatError
    """A catalog says something impossible."""


def check_soundness(catalog: Catalog) -> None:
    """Raise `CatalogFault` when ids or names clash, a counter is behind, or an edge or a rule names nothing."""
    _check_distinct("type id", (found.id for found in catalog.types))
    _check_distinct("node name", (found.name for found in catalog.nodes))
    _check_distinct("edge name", (edge_lookup_name(found.name) for found in catalog.edges))
    nodes = {found.id for found in catalog.nodes}
    for found in catalog.types:
        if not _ID.fullmatch(found.id) or not _ID.fullmatch(found.incarnation):
            raise CatalogFault(f"{found.alias} has an id that is not 16 lower-case hex digits")
        if int(found.id, 16) >= catalog.next_type_id:
            raise CatalogFault(f"{found.alias} has an id that is still to be given")
        if isinstance(found, EdgeType) and not {found.source, found.target} <= nodes:
            raise CatalogFault(f"{found.alias} ends at a node that does not exist")
        _check_entity(found)


def _check_entity(found: Entity) -> None:
    _check_distinct(f"property id of {found.alias}", (own.id for own in found.properties))
    _check_distinct(f"property name of {found.alias}", (own.name for own in found.properties))
    if any(own.id >= found.next_property_id or own.id < 1 for own in found.properties):
        raise CatalogFault(f"{found.alias} has a property id that is still to be given")
    columns = {own.name for own in found.properties}
    ends = {"src", "dst"} if isinstance(found, EdgeType) else set()
    if unknown := sorted(_named_columns(found.rules) - columns - ends):
        raise CatalogFault(f"a rule of {found.alias} names the unknown column `{unknown[0]}`")


def _named_columns(rules: Rules) -> set[str]:
    lists = {name for columns in (rules.key, *rules.uniques) for name in columns}
    return lists | {rule.property for rule in rules.ranges} | {rule.property for rule in rules.checks}


def _check_distinct(what: str, values: Iterable[object]) -> None:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise CatalogFault(f"two entries have the same {what} `{value}`")
        seen.add(value)


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


_SCALARS: Final = {scalar.value: scalar for scalar in Scalar}
_DECIMAL: Final = re.compile(r"[0-9]{1,19}")


def decode_catalog(text: str | bytes) -> Catalog:
    """The catalog that a JSON text describes."""
    try:
        wire = msgspec.json.decode(text, type=CatalogWire)
        if wire.v != 1:
            raise CatalogFault(f"it has version {wire.v}, and this release reads version 1")
        catalog = _catalog(wire)
        check_soundness(catalog)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, CatalogFault) as error:
        raise FormatError(
            f"the stored catalog cannot be read: {error}",
            code="catalog_malformed",
            hint="it was changed by hand or written by a newer omnigraph; upgrade, or restore the graph's files",
        ) from error
    return catalog


def _catalog(wire: CatalogWire) -> Catalog:
    if not _DECIMAL.fullmatch(wire.next_type_id):
        raise CatalogFault("`next_type_id` is no number")
    return Catalog(
        nodes=tuple(_node(found) for found in wire.nodes),
        edges=tuple(_edge(found) for found in wire.edges),
        interfaces=tuple(_interface(found) for found in wire.interfaces),
        next_type_id=int(wire.next_type_id),
    )


def _node(wire: NodeWire) -> NodeType:
    properties = tuple(_property(found) for found in wire.properties)
    return NodeType(
        id=TypeId(wire.id),
        incarnation=Incarnation(wire.incarnation),
        name=wire.name,
        properties=properties,
        next_property_id=PropertyId(wire.next_property_id),
        rules=_rules(wire, properties),
        description=wire.description,
        renamed_from=wire.renamed_from,
        metadata=tuple(_annotation(found) for found in wire.metadata),
        implements=wire.implements,
    )


def _edge(wire: EdgeWire) -> EdgeType:
    properties = tuple(_property(found) for found in wire.properties)
    return EdgeType(
        id=TypeId(wire.id),
        incarnation=Incarnation(wire.incarnation),
        name=wire.name,
        properties=properties,
        next_property_id=PropertyId(wire.next_property_id),
        rules=_rules(wire, properties),
        description=wire.description,
        renamed_from=wire.renamed_from,
        metadata=tuple(_annotation(found) for found in wire.metadata),
        source=TypeId(wire.source),
        target=TypeId(wire.target),
        cardinality=Cardinality(wire.cardinality.low, wire.cardinality.high),
    )


def _interface(wire: InterfaceWire) -> Interface:
    properties = tuple(_shape(found) for found in wire.properties)
    return Interface(
        name=wire.name,
        properties=properties,
        rules=_rules(wire, properties),
        description=wire.description,
        metadata=tuple(_annotation(found) for found in wire.metadata),
    )


def _shape(wire: ShapeWire) -> PropertyShape:
    resolved = _type(wire.type)
    return PropertyShape(
        name=wire.name,
        type=resolved,
        nullable=wire.nullable,
        indexed=wire.indexed,
        default=_value(wire.default, resolved),
        embedding=_embedding(wire.embedding) if wire.embedding else None,
        description=wire.description,
        renamed_from=wire.renamed_from,
        metadata=tuple(_annotation(found) for found in wire.metadata),
    )


def _property(wire: PropertyWire) -> Property:
    shaped = Property.from_shape(_shape(wire), PropertyId(wire.id))
    shaped = replace(shaped, null_fills=_values(wire.null_fills, shaped.type))
    return shaped if wire.filled is None else replace(shaped, filled=_values(wire.filled[:1], shaped.type))


def _values(texts: tuple[str, ...], property_type: PropertyType) -> tuple[Value, ...]:
    values = (_value(text, property_type) for text in texts)
    return tuple(value for value in values if value is not None)


def _type(wire: TypeWire) -> PropertyType:
    if wire.kind in _SCALARS:
        return ScalarType(_SCALARS[wire.kind])
    if wire.kind == "list" and wire.item in _SCALARS:
        return ListType(_SCALARS[wire.item])
    if wire.kind == "Vector" and wire.size > 0:
        return VectorType(wire.size)
    if wire.kind == "enum" and wire.values:
        return EnumType(tuple(sorted(set(wire.values))))
    raise CatalogFault(f"it has a property of an unknown type `{wire.kind}`")


def _rules(wire: RulesWire, properties: tuple[PropertyShape, ...]) -> Rules:
    types = {found.name: found.type for found in properties}
    ranges = []
    for found in wire.ranges:
        if found.property not in types:
            raise CatalogFault(f"a range names the unknown property `{found.property}`")
        resolved = types[found.property]
        bounds = RangeBounds(_value(found.low, resolved), _value(found.high, resolved))
        ranges.append(RangeRule(found.property, bounds))
    checks = tuple(CheckRule(found.property, found.pattern) for found in wire.checks)
    return Rules(wire.key, wire.uniques, tuple(ranges), checks)


def _value(text: str | None, resolved: PropertyType) -> Value | None:
    value = None if text is None else value_from_text(text, resolved)
    if isinstance(value, ValueMistake):
        raise CatalogFault(value.message)
    return value


def _embedding(wire: EmbeddingWire) -> Embedding:
    return Embedding(wire.source, wire.model, wire.required)


def _annotation(wire: AnnotationWire) -> Annotation:
    return Annotation(Name(wire.name), tuple(_argument(found) for found in wire.arguments))


def _argument(wire: ArgumentWire) -> Argument:
    match wire.kind:
        case "range":
            low, high = (
                None if end is None else _literal(end.kind, end.text) for end in (wire.low, wire.high)
            )
            return RangeArgument(low, high)
        case "named":
            if wire.value is None:
                raise CatalogFault("a named argument has no value")
            return NamedArgument(Name(wire.name), _literal(wire.value.kind, wire.value.text))
        case kind:
            return _literal(kind, wire.text)


def _literal(kind: LiteralKind, text: str) -> Literal:
    match kind:
        case "string":
            return StringLiteral(text)
        case "number":
            return NumberLiteral(text)
        case "word":
            return WordLiteral(text)
        case "date" | "datetime":
            return TimeLiteral(kind == "datetime", text)
        case _:
            assert_never(kind)


Json = str | int | bool | None | list["Json"] | dict[str, "Json"]

CATALOG_VERSION = 1


def catalog_text(catalog: Catalog) -> str:
    """The canonical JSON of a catalog."""
    whole: dict[str, Json] = {
        "v": CATALOG_VERSION,
        "nodes": [_encode_node(found) for found in catalog.nodes],
        "edges": [_encode_edge(found) for found in catalog.edges],
        "next_type_id": str(catalog.next_type_id),
        **_given(interfaces=[_encode_interface(found) for found in catalog.interfaces]),
    }
    return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _given(**members: Json) -> dict[str, Json]:
    """Only the members that say something: not null, not false, not empty."""
    return {name: value for name, value in members.items() if value not in (None, False, [], {})}


def _encode_node(found: NodeType) -> dict[str, Json]:
    return {**_entity(found), **_given(implements=list(found.implements))}


def _encode_edge(found: EdgeType) -> dict[str, Json]:
    return {
        **_entity(found),
        "source": found.source,
        "target": found.target,
        **_given(cardinality=_cardinality(found.cardinality)),
    }


def _entity(found: EntityType) -> dict[str, Json]:
    return {
        "id": found.id,
        "incarnation": found.incarnation,
        "name": found.name,
        "next_property_id": found.next_property_id,
        **_encode_rules(found.rules, found.properties),
        **_given(
            properties=[{"id": own.id, **_encode_property(own), **_fills(own)} for own in found.properties],
            description=found.description,
            renamed_from=found.renamed_from,
            metadata=[_encode_annotation(annotation) for annotation in found.metadata],
        ),
    }


def _encode_interface(found: Interface) -> dict[str, Json]:
    return {
        "name": found.name,
        **_encode_rules(found.rules, found.properties),
        **_given(
            properties=[_encode_property(own) for own in found.properties],
            description=found.description,
            metadata=[_encode_annotation(annotation) for annotation in found.metadata],
        ),
    }


def _encode_property(found: PropertyShape) -> dict[str, Json]:
    return {
        "name": found.name,
        "type": _encode_type(found.type),
        **_given(
            nullable=found.nullable,
            indexed=found.indexed,
            default=_encode_value(found.default, found.type),
            embedding=_encode_embedding(found.embedding) if found.embedding else None,
            description=found.description,
            renamed_from=found.renamed_from,
            metadata=[_encode_annotation(annotation) for annotation in found.metadata],
        ),
    }


def _fills(found: Property) -> dict[str, Json]:
    """What rows from before the property got, where it is not the default (none is null), and what nulls became."""
    fills: dict[str, Json] = _given(
        null_fills=[_encode_value(value, found.type) for value in found.null_fills]
    )
    if found.filled is not None:
        fills["filled"] = [_encode_value(value, found.type) for value in found.filled]
    return fills


def _encode_type(property_type: PropertyType) -> Json:
    match property_type:
        case ScalarType(scalar):
            return {"kind": scalar.value}
        case ListType(item):
            return {"kind": "list", "item": item.value}
        case VectorType(size):
            return {"kind": "Vector", "size": size}
        case EnumType(values):
            return {"kind": "enum", "values": list(values)}
        case _:
            assert_never(property_type)


def _encode_rules(
    rules: Rules, properties: tuple[PropertyShape, ...] | tuple[Property, ...]
) -> dict[str, Json]:
    types = {found.name: found.type for found in properties}
    return _given(
        key=list(rules.key),
        uniques=[list(columns) for columns in rules.uniques],
        ranges=[_range(rule, types[rule.property]) for rule in rules.ranges],
        checks=[{"property": rule.property, "pattern": rule.pattern} for rule in rules.checks],
    )


def _range(rule: RangeRule, property_type: PropertyType) -> Json:
    low, high = _encode_value(rule.bounds.low, property_type), _encode_value(rule.bounds.high, property_type)
    return {"property": rule.property, **_given(low=low, high=high)}


def _encode_value(value: Value | None, property_type: PropertyType) -> str | None:
    return None if value is None else value_text(value, property_type)


def _cardinality(cardinality: Cardinality) -> dict[str, Json]:
    # Not through _given: a maximum is never 0, but a reader of the text should not have to know that.
    high: dict[str, Json] = {} if cardinality.high is None else {"high": cardinality.high}
    return {**({"low": cardinality.low} if cardinality.low else {}), **high}


def _encode_embedding(embedding: Embedding) -> Json:
    return {"source": embedding.source, **_given(model=embedding.model, required=embedding.required)}


def _encode_annotation(annotation: Annotation) -> Json:
    arguments: list[Json] = [_encode_argument(argument) for argument in annotation.arguments]
    return {"name": annotation.name.text, **_given(arguments=arguments)}


def _encode_argument(argument: Argument) -> Json:
    match argument:
        case RangeArgument(low, high):
            return {
                "kind": "range",
                **_given(
                    low=_encode_literal(low) if low else None, high=_encode_literal(high) if high else None
                ),
            }
        case NamedArgument(name, value):
            return {"kind": "named", "name": name.text, "value": _encode_literal(value)}
        case StringLiteral() | NumberLiteral() | WordLiteral() | TimeLiteral():
            return _encode_literal(argument)
        case _:
            assert_never(argument)


def _encode_literal(literal: Literal) -> dict[str, Json]:
    match literal:
        case StringLiteral(value):
            return {"kind": "string", "text": value}
        case NumberLiteral(text):
            return {"kind": "number", "text": text}
        case WordLiteral(text):
            return {"kind": "word", "text": text}
        case TimeLiteral(text=text):
            return {"kind": literal.function, "text": text}
        case _:
            assert_never(literal)


def catalog_to_json(catalog: Catalog) -> str:
    """The canonical JSON of a catalog."""
    return catalog_text(catalog)


def catalog_from_json(text: str | bytes) -> Catalog:
    """The catalog that a JSON text describes; `FormatError` when it describes none."""

    return decode_catalog(text)


def schema_hash(catalog: Catalog) -> SchemaHash:
    """SHA-256 of the canonical JSON, in hex."""
    return SchemaHash(hashlib.sha256(catalog_text(catalog).encode()).hexdigest())
