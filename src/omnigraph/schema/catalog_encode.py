"""A catalog to its canonical JSON text. Written with the standard library, so that no other package decides a hash."""

from __future__ import annotations

import json
from typing import assert_never

from omnigraph.schema.catalog import (
    Cardinality,
    Catalog,
    EdgeType,
    Embedding,
    EntityType,
    Interface,
    NodeType,
    Property,
    PropertyShape,
    RangeRule,
    Rules,
)
from omnigraph.schema.property_types import EnumType, ListType, PropertyType, ScalarType, VectorType
from omnigraph.schema.syntax import (
    Annotation,
    Argument,
    Literal,
    NamedArgument,
    NumberLiteral,
    RangeArgument,
    StringLiteral,
    TimeLiteral,
    WordLiteral,
)
from omnigraph.schema.values import Value, value_text

Json = str | int | bool | None | list["Json"] | dict[str, "Json"]

CATALOG_VERSION = 1


def catalog_text(catalog: Catalog) -> str:
    """The canonical JSON of a catalog."""
    whole: dict[str, Json] = {
        "v": CATALOG_VERSION,
        "nodes": [_node(found) for found in catalog.nodes],
        "edges": [_edge(found) for found in catalog.edges],
        "next_type_id": str(catalog.next_type_id),
        **_given(interfaces=[_interface(found) for found in catalog.interfaces]),
    }
    return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _given(**members: Json) -> dict[str, Json]:
    """Only the members that say something: not null, not false, not empty."""
    return {name: value for name, value in members.items() if value not in (None, False, [], {})}


def _node(found: NodeType) -> dict[str, Json]:
    return {**_entity(found), **_given(implements=list(found.implements))}


def _edge(found: EdgeType) -> dict[str, Json]:
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
        **_rules(found.rules, found.properties),
        **_given(
            properties=[{"id": own.id, **_property(own), **_fills(own)} for own in found.properties],
            description=found.description,
            renamed_from=found.renamed_from,
            metadata=[_annotation(annotation) for annotation in found.metadata],
        ),
    }


def _interface(found: Interface) -> dict[str, Json]:
    return {
        "name": found.name,
        **_rules(found.rules, found.properties),
        **_given(
            properties=[_property(own) for own in found.properties],
            description=found.description,
            metadata=[_annotation(annotation) for annotation in found.metadata],
        ),
    }


def _property(found: PropertyShape) -> dict[str, Json]:
    return {
        "name": found.name,
        "type": _type(found.type),
        **_given(
            nullable=found.nullable,
            indexed=found.indexed,
            default=_value(found.default, found.type),
            embedding=_embedding(found.embedding) if found.embedding else None,
            description=found.description,
            renamed_from=found.renamed_from,
            metadata=[_annotation(annotation) for annotation in found.metadata],
        ),
    }


def _fills(found: Property) -> dict[str, Json]:
    """What rows from before the property got, where it is not the default (none is null), and what nulls became."""
    fills: dict[str, Json] = _given(null_fills=[_value(value, found.type) for value in found.null_fills])
    if found.filled is not None:
        fills["filled"] = [_value(value, found.type) for value in found.filled]
    return fills


def _type(property_type: PropertyType) -> Json:
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


def _rules(rules: Rules, properties: tuple[PropertyShape, ...] | tuple[Property, ...]) -> dict[str, Json]:
    types = {found.name: found.type for found in properties}
    return _given(
        key=list(rules.key),
        uniques=[list(columns) for columns in rules.uniques],
        ranges=[_range(rule, types[rule.property]) for rule in rules.ranges],
        checks=[{"property": rule.property, "pattern": rule.pattern} for rule in rules.checks],
    )


def _range(rule: RangeRule, property_type: PropertyType) -> Json:
    low, high = _value(rule.bounds.low, property_type), _value(rule.bounds.high, property_type)
    return {"property": rule.property, **_given(low=low, high=high)}


def _value(value: Value | None, property_type: PropertyType) -> str | None:
    return None if value is None else value_text(value, property_type)


def _cardinality(cardinality: Cardinality) -> dict[str, Json]:
    # Not through _given: a maximum is never 0, but a reader of the text should not have to know that.
    high: dict[str, Json] = {} if cardinality.high is None else {"high": cardinality.high}
    return {**({"low": cardinality.low} if cardinality.low else {}), **high}


def _embedding(embedding: Embedding) -> Json:
    return {"source": embedding.source, **_given(model=embedding.model, required=embedding.required)}


def _annotation(annotation: Annotation) -> Json:
    arguments: list[Json] = [_argument(argument) for argument in annotation.arguments]
    return {"name": annotation.name.text, **_given(arguments=arguments)}


def _argument(argument: Argument) -> Json:
    match argument:
        case RangeArgument(low, high):
            return {
                "kind": "range",
                **_given(low=_literal(low) if low else None, high=_literal(high) if high else None),
            }
        case NamedArgument(name, value):
            return {"kind": "named", "name": name.text, "value": _literal(value)}
        case StringLiteral() | NumberLiteral() | WordLiteral() | TimeLiteral():
            return _literal(argument)
        case _:
            assert_never(argument)


def _literal(literal: Literal) -> dict[str, Json]:
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
