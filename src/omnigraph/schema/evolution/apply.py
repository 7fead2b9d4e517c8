"""Steps followed on a catalog: the next catalog. Pure.

Every kind of step is one small change of a value. What the steps do not name stays as it is, ids and order included;
new types and properties come last. The counters only go up, so that an id that was given is never given again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, assert_never

from omnigraph.base.ids import PropertyId
from omnigraph.schema.catalog import (
    AnyEntity,
    Cardinality,
    Catalog,
    CheckRule,
    EdgeType,
    Embedding,
    Entity,
    NodeType,
    Property,
    RangeRule,
    Rules,
)
from omnigraph.schema.evolution.steps import (
    AddConstraint,
    AddIndex,
    AddProperty,
    AddType,
    CardRule,
    Constraint,
    DropConstraint,
    DropIndex,
    DropProperty,
    DropType,
    ExtendEnum,
    Notes,
    RelaxNullability,
    RenameProperty,
    RenameType,
    RequiredRule,
    Step,
    UniqueRule,
    UpdateInterfaces,
    UpdateMetadata,
    UpdateText,
)
from omnigraph.schema.property_types import EnumType
from omnigraph.schema.values import Value


def raise_counters(catalog: Catalog, others: Iterable[Catalog]) -> Catalog:
    """The catalog, which gives no id that one of the others has given."""
    found = tuple(others)
    return replace(
        catalog,
        nodes=tuple(_raised(one, found) for one in catalog.nodes),
        edges=tuple(_raised(one, found) for one in catalog.edges),
        next_type_id=max(catalog.next_type_id, *(other.next_type_id for other in found), 0),
    )


def _raised(entity: AnyEntity, others: tuple[Catalog, ...]) -> AnyEntity:
    same = (other.type_with_id(entity.id) for other in others)
    counters = (one.next_property_id for one in same if one is not None)
    return replace(entity, next_property_id=PropertyId(max(entity.next_property_id, *counters, 0)))


def renamed_rules(rules: Rules, names: Mapping[str, str]) -> Rules:
    """The same rules; columns that the mapping does not have keep their names."""
    return Rules(
        key=_renamed(rules.key, names),
        uniques=tuple(_renamed(columns, names) for columns in rules.uniques),
        ranges=tuple(
            RangeRule(names.get(rule.property, rule.property), rule.bounds) for rule in rules.ranges
        ),
        checks=tuple(
            CheckRule(names.get(rule.property, rule.property), rule.pattern) for rule in rules.checks
        ),
    )


def _renamed(columns: tuple[str, ...], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(name, name) for name in columns)


def next_catalog(accepted: Catalog, steps: Iterable[Step]) -> Catalog:
    """The catalog after the steps, in their order."""
    catalog = accepted
    for step in steps:
        match step:
            case AddType(entity):
                catalog = _with_type(catalog, entity)
            case DropType(type_id):
                catalog = replace(
                    catalog,
                    nodes=tuple(found for found in catalog.nodes if found.id != type_id),
                    edges=tuple(found for found in catalog.edges if found.id != type_id),
                )
            case UpdateInterfaces(interfaces):
                catalog = replace(catalog, interfaces=interfaces)
            case UpdateText():
                pass
            case _:
                catalog = replace(
                    catalog,
                    nodes=tuple(_followed(found, step) for found in catalog.nodes),
                    edges=tuple(_followed(found, step) for found in catalog.edges),
                )
    return catalog


_TypeStep = (
    RenameType
    | AddProperty
    | RenameProperty
    | AddIndex
    | DropIndex
    | AddConstraint
    | DropConstraint
    | ExtendEnum
    | RelaxNullability
    | UpdateMetadata
    | DropProperty
)


def _with_type(catalog: Catalog, entity: Entity) -> Catalog:
    counter = max(catalog.next_type_id, int(entity.id, 16) + 1)
    if isinstance(entity, NodeType):
        return replace(catalog, nodes=(*catalog.nodes, entity), next_type_id=counter)
    return replace(catalog, edges=(*catalog.edges, entity), next_type_id=counter)


def _followed(entity: AnyEntity, step: _TypeStep) -> AnyEntity:  # noqa: PLR0912  # one case for each kind
    if entity.id != step.type_id:
        return entity
    match step:
        case RenameType(name=name):
            return replace(entity, name=name)
        case AddProperty(property=added):
            counter = PropertyId(max(entity.next_property_id, added.id + 1))
            return replace(entity, properties=(*entity.properties, added), next_property_id=counter)
        case DropProperty(property_id=gone):
            return replace(entity, properties=tuple(own for own in entity.properties if own.id != gone))
        case RenameProperty(old=old, new=new):
            return _follow_renames(entity, old, new)
        case AddIndex(property=name):
            return _changed(entity, name, lambda own: replace(own, indexed=True))
        case DropIndex(property=name):
            return _changed(entity, name, lambda own: replace(own, indexed=False))
        case ExtendEnum(property=name, values=values):
            return _changed(entity, name, lambda own: _extended(own, values))
        case RelaxNullability(property=name):
            return _changed(entity, name, lambda own: replace(own, nullable=True))
        case AddConstraint(constraint=constraint):
            return _constrained(entity, constraint)
        case DropConstraint(constraint=constraint):
            return _freed(entity, constraint)
        case UpdateMetadata(property=name, notes=notes):
            if name is None:
                return _noted(entity, notes)
            return _changed(entity, name, lambda own: _noted_property(own, notes))
        case _:
            assert_never(step)


def _changed(entity: AnyEntity, name: str, change: Callable[[Property], Property]) -> AnyEntity:
    return replace(
        entity, properties=tuple(change(own) if own.name == name else own for own in entity.properties)
    )


def _follow_renames(entity: AnyEntity, old: str, new: str) -> AnyEntity:
    properties = tuple(
        replace(own, name=new if own.name == old else own.name, embedding=_source_renamed(own, old, new))
        for own in entity.properties
    )
    return replace(entity, properties=properties, rules=renamed_rules(entity.rules, {old: new}))


def _source_renamed(own: Property, old: str, new: str) -> Embedding | None:
    if own.embedding is None or own.embedding.source != old:
        return own.embedding
    return replace(own.embedding, source=new)


def _required(own: Property, fill: Value | None) -> Property:
    fills = own.null_fills if fill is None else (*own.null_fills, fill)
    return replace(own, nullable=False, null_fills=fills)


def _extended(own: Property, values: tuple[str, ...]) -> Property:
    assert isinstance(own.type, EnumType), "only enums are extended"
    return replace(own, type=EnumType(tuple(sorted({*own.type.values, *values}))))


def _constrained(entity: AnyEntity, constraint: Constraint) -> AnyEntity:
    rules: Rules = entity.rules
    match constraint:
        case UniqueRule(columns):
            return replace(entity, rules=replace(rules, uniques=(*rules.uniques, columns)))
        case RangeRule():
            return replace(entity, rules=replace(rules, ranges=(*rules.ranges, constraint)))
        case CheckRule():
            return replace(entity, rules=replace(rules, checks=(*rules.checks, constraint)))
        case RequiredRule(name, fill):
            return _changed(entity, name, lambda own: _required(own, fill))
        case CardRule(cardinality):
            return _with_cardinality(entity, cardinality)
        case _:
            assert_never(constraint)


def _freed(entity: AnyEntity, constraint: UniqueRule | RangeRule | CheckRule | CardRule) -> AnyEntity:
    rules: Rules = entity.rules
    match constraint:
        case UniqueRule(columns):
            freed = replace(rules, uniques=_without(rules.uniques, columns))
        case RangeRule():
            freed = replace(rules, ranges=_without(rules.ranges, constraint))
        case CheckRule():
            freed = replace(rules, checks=_without(rules.checks, constraint))
        case CardRule():
            return _with_cardinality(entity, Cardinality())
        case _:
            assert_never(constraint)
    return replace(entity, rules=freed)


def _without(rules: tuple[Any, ...], gone: object) -> tuple[Any, ...]:
    return tuple(rule for rule in rules if rule != gone)


def _with_cardinality(entity: AnyEntity, cardinality: Cardinality) -> AnyEntity:
    assert isinstance(entity, EdgeType), "only edges have a cardinality"
    return replace(entity, cardinality=cardinality)


def _noted(entity: AnyEntity, notes: Notes) -> AnyEntity:
    noted = replace(entity, description=notes.description, metadata=notes.metadata)
    return replace(noted, implements=notes.implements) if isinstance(noted, NodeType) else noted


def _noted_property(own: Property, notes: Notes) -> Property:
    return replace(
        own.with_default(notes.default),
        description=notes.description,
        metadata=notes.metadata,
        embedding=notes.embedding,
    )
