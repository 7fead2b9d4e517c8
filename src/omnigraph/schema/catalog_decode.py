"""JSON text to a catalog.

Comes in: whatever is stored. Goes out: a `Catalog` that is sound in itself (ids do not clash, edges end at nodes, rules
name columns), or a `FormatError` that says what is wrong. Never guesses a missing member.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, assert_never

import msgspec

from omnigraph.base.errors import FormatError
from omnigraph.base.ids import Incarnation, PropertyId, TypeId
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
from omnigraph.schema.catalog_soundness import CatalogFault, check_soundness
from omnigraph.schema.catalog_wire import (
    AnnotationWire,
    ArgumentWire,
    CatalogWire,
    EdgeWire,
    EmbeddingWire,
    InterfaceWire,
    LiteralKind,
    NodeWire,
    PropertyWire,
    RulesWire,
    ShapeWire,
    TypeWire,
)
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType
from omnigraph.schema.range_bounds import RangeBounds
from omnigraph.schema.syntax import (
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
from omnigraph.schema.values import Value, ValueMistake, value_from_text

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
