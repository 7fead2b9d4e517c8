"""The three-way merge of the catalogs of two branches. Pure.

In: the catalogs of the base, ours and theirs. Out: the merged catalog, or the reason why there is none. Types and
properties are matched by id, so names do not matter. A part that one side changed, down to a single annotation, has
that side's value; a part that both changed must have the same value; an enum that both extended has the values of both.
The order of types and the counters of ids do not count as changes. Everything else is a divergence, never a guess. The
merged catalog is printed and parsed again, so a merge never creates a schema that has no valid text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec.structs import replace

from omnigraph.base.errors import SchemaTextError
from omnigraph.base.ids import PropertyId
from omnigraph.schema.build import build_catalog
from omnigraph.schema.catalog import (
    Catalog,
    CheckRule,
    EdgeType,
    Entity,
    Interface,
    NodeType,
    Property,
    PropertyShape,
    RangeRule,
    Rules,
)
from omnigraph.schema.consistency import InconsistentCatalogError, require_consistent
from omnigraph.schema.evolution.diff import find_steps
from omnigraph.schema.parser import parse_schema
from omnigraph.schema.printer import print_schema, schema_from_catalog
from omnigraph.schema.property_types import EnumType

Key = TypeVar("Key", bound=Hashable)
AnyValue = TypeVar("AnyValue")


@dataclass(frozen=True, slots=True)
class Diverged:
    """The result of a merge that is not possible: why two catalogs cannot become one."""

    reason: str


class _DivergedError(Exception):
    """The reason for a `Diverged`, inside this module."""


def merge_catalogs(base: Catalog, ours: Catalog, theirs: Catalog) -> Catalog | Diverged:
    """Return the catalog with the changes of both sides; ours is first where there is an order."""
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    try:
        merged = _merge(base, ours, theirs)
        require_consistent(merged)
        _require_valid_text(merged)
    except (_DivergedError, InconsistentCatalogError) as error:
        return Diverged(str(error))
    return merged


def _require_valid_text(merged: Catalog) -> None:
    """Raise unless the text of a catalog is a valid schema with the same meaning."""
    try:
        parsed = build_catalog(parse_schema(print_schema(schema_from_catalog(merged))))
    except SchemaTextError as error:
        problems = "; ".join(problem.message for problem in error.problems)
        raise _DivergedError(f"the changes of both sides together are not a valid schema: {problems}") from error
    evolution = find_steps(merged, parsed)
    differences = [f"{change.alias}: {change.detail}" for change in evolution.unsupported]
    differences = differences or [step.describe() for step in evolution.steps]
    if differences:
        raise _DivergedError(f"the changes of both sides together need a further change: {'; '.join(differences)}")


def _merge(base: Catalog, ours: Catalog, theirs: Catalog) -> Catalog:
    types = [
        _merge_type(*sides)
        for sides in _align(
            *({(entity.id, entity.incarnation): entity for entity in side.types} for side in (base, ours, theirs))
        )
    ]
    return Catalog(
        nodes=tuple(entity for entity in types if isinstance(entity, NodeType)),
        edges=tuple(entity for entity in types if isinstance(entity, EdgeType)),
        interfaces=_merge_interfaces(base, ours, theirs),
        next_type_id=max(ours.next_type_id, theirs.next_type_id),
    )


def _align(
    base: Mapping[Key, AnyValue], ours: Mapping[Key, AnyValue], theirs: Mapping[Key, AnyValue]
) -> Iterable[tuple[AnyValue | None, AnyValue | None, AnyValue | None]]:
    for key in dict.fromkeys((*ours, *theirs, *base)):
        yield base.get(key), ours.get(key), theirs.get(key)


def _merge_type(base: Entity | None, ours: Entity | None, theirs: Entity | None) -> Entity | None:
    if base is None:
        if ours is not None and theirs is not None and _canonical(ours) != _canonical(theirs):
            raise _DivergedError(f"both sides added {ours.alias}, with different definitions")
        return ours or theirs
    if ours is None or theirs is None:
        remaining = ours or theirs
        if remaining is not None and _canonical(remaining) != _canonical(base):
            raise _DivergedError(f"one side dropped {base.alias} and the other changed it")
        return None
    counter = max(ours.next_property_id, theirs.next_property_id)
    if _canonical(theirs) == _canonical(base):
        return replace(ours, next_property_id=counter)
    if _canonical(ours) == _canonical(base):
        return replace(theirs, next_property_id=counter)
    return replace(_merge_both_changed(base, ours, theirs), next_property_id=counter)


def _canonical(entity: Entity) -> Entity:
    """Return a type without its order and its counter of ids, to compare two types."""
    rules = replace(
        entity.rules,
        uniques=tuple(sorted(tuple(sorted(columns)) for columns in entity.rules.uniques)),
        ranges=tuple(sorted(entity.rules.ranges, key=lambda rule: rule.property)),
        checks=tuple(sorted(entity.rules.checks, key=lambda rule: rule.property)),
    )
    ordered = replace(
        entity,
        properties=tuple(sorted(entity.properties, key=lambda property_: property_.id)),
        rules=rules,
        next_property_id=PropertyId(0),
    )
    if isinstance(ordered, NodeType):
        return replace(ordered, implements=tuple(sorted(ordered.implements)))
    return ordered


def _merge_both_changed(base: Entity, ours: Entity, theirs: Entity) -> Entity:
    alias = ours.alias
    by_id = [{property_.id: property_ for property_ in side.properties} for side in (base, ours, theirs)]
    merged = [_merge_property(alias, *sides) for sides in _align(*by_id)]
    properties = tuple(filter(None, merged))
    names = {property_.id: property_.name for property_ in properties}
    _require_sources(properties)
    parts = _merge_parts(alias, ("name", "description", "metadata"), (base, ours, theirs))
    match base, ours, theirs:
        case NodeType(), NodeType(), NodeType():
            parts["implements"] = _merge_sets(base.implements, ours.implements, theirs.implements)
        case EdgeType(), EdgeType(), EdgeType():
            sides = (base.cardinality, ours.cardinality, theirs.cardinality)
            parts["cardinality"] = _merge_part(f"cardinality of {alias}", *sides)
        case _:
            raise _DivergedError(f"{alias} is a node and an edge")
    return replace(
        ours,
        **parts,
        properties=properties,
        rules=_merge_rules(alias, *(_rules_with_names(side, names) for side in (base, ours, theirs))),
    )


def _merge_property(
    alias: str, base: Property | None, ours: Property | None, theirs: Property | None
) -> Property | None:
    if base is None:
        if ours is not None and theirs is not None and ours != theirs:
            raise _DivergedError(f"{alias}.{ours.name} and {alias}.{theirs.name} were added with the same id")
        return ours or theirs
    where = f"{alias}.{base.name}"
    if ours is None or theirs is None:
        remaining = ours or theirs
        if remaining is not None and remaining != base:
            raise _DivergedError(f"one side dropped {where} and the other changed it")
        return None
    names = ("name", "nullable", "indexed", "text_options", "embedding", "description", "metadata")
    parts = _merge_parts(where, names, (base, ours, theirs))
    default = _merge_part(f"default of {where}", base.default, ours.default, theirs.default)
    match base.type, ours.type, theirs.type:
        case EnumType(), EnumType(our_values), EnumType(their_values):
            parts["type"] = EnumType(tuple(sorted({*our_values, *their_values})))
        case types:
            parts["type"] = _merge_part(f"the type of {where}", *types)
    label = f"the values that replaced null in {where}"
    parts["null_fills"] = _merge_part(label, base.null_fills, ours.null_fills, theirs.null_fills)
    return replace(ours.with_default(default), **parts)


def _merge_parts(where: str, names: tuple[str, ...], sides: tuple[object, object, object]) -> dict[str, Any]:
    return {name: _merge_part(f"{name} of {where}", *(getattr(side, name) for side in sides)) for name in names}


def _merge_part(label: str, base: AnyValue, ours: AnyValue, theirs: AnyValue) -> AnyValue:
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    raise _DivergedError(f"both sides changed {label}")


def _require_sources(properties: tuple[Property, ...]) -> None:
    """Raise if the source of a vector has another name in the merged type."""
    names = {property_.name for property_ in properties}
    for property_ in properties:
        if property_.embedding is not None and property_.embedding.source not in names:
            source = property_.embedding.source
            raise _DivergedError(
                f"one side renamed or dropped {source}, the source of {property_.name} on the other side"
            )


def _merge_rules(alias: str, base: Rules, ours: Rules, theirs: Rules) -> Rules:
    """Return the rules of both sides. They already have the merged names of their columns."""
    bounded = [rule.property for side in (ours, theirs, base) for rule in side.ranges]
    checked = [rule.property for side in (ours, theirs, base) for rule in side.checks]
    ranges: list[RangeRule] = []
    checks: list[CheckRule] = []
    for name in dict.fromkeys((*bounded, *checked)):
        rules_of_sides = [
            (
                tuple(rule for rule in side.ranges if rule.property == name),
                tuple(rule for rule in side.checks if rule.property == name),
            )
            for side in (base, ours, theirs)
        ]
        merged_ranges, merged_checks = _merge_part(f"the rules of {alias}.{name}", *rules_of_sides)
        ranges += merged_ranges
        checks += merged_checks
    return Rules(
        _merge_part(f"the key of {alias}", base.key, ours.key, theirs.key),
        _merge_uniques(base.uniques, ours.uniques, theirs.uniques),
        tuple(ranges),
        tuple(checks),
    )


def _rules_with_names(side: Entity, names: Mapping[PropertyId, str]) -> Rules:
    """Return a side's rules with the merged names. `require_consistent` reports a column that is missing."""
    return side.rules.renamed(
        {property_.name: names.get(property_.id, property_.name) for property_ in side.properties}
    )


_Uniques = tuple[tuple[str, ...], ...]


def _merge_uniques(base: _Uniques, ours: _Uniques, theirs: _Uniques) -> _Uniques:
    """Merge as sets, because the order of columns has no meaning in `@unique`; the order of ours is kept."""
    written = {frozenset(columns): columns for columns in (*theirs, *ours)}
    sides = (tuple(map(frozenset, side)) for side in (base, ours, theirs))
    return tuple(written[columns] for columns in _merge_sets(*sides))


def _merge_sets(base: tuple[Key, ...], ours: tuple[Key, ...], theirs: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return the members that both sides have, and those that either side added."""
    members = dict.fromkeys((*ours, *theirs))
    return tuple(member for member in members if member not in base or (member in ours and member in theirs))


def _merge_interfaces(base: Catalog, ours: Catalog, theirs: Catalog) -> tuple[Interface, ...]:
    """Merge interfaces by name, because they have no ids."""
    by_name = [{interface.name: interface for interface in side.interfaces} for side in (base, ours, theirs)]
    merged = (_merge_interface(*sides) for sides in _align(*by_name))
    return tuple(filter(None, merged))


def _merge_interface(base: Interface | None, ours: Interface | None, theirs: Interface | None) -> Interface | None:
    if base is None or ours is None or theirs is None:
        existing = ours or theirs or base
        assert existing is not None, "at least one side has the interface"
        return _merge_part(f"interface {existing.name}", base, ours, theirs)
    where = f"interface {ours.name}"
    sides = (base, ours, theirs)
    properties: list[PropertyShape] = []
    for shapes in _align(*({shape.name: shape for shape in side.properties} for side in sides)):
        name = next(shape.name for shape in shapes if shape is not None)
        merged = _merge_part(f"{name} of {where}", *shapes)
        properties += [] if merged is None else [merged]
    return replace(
        ours,
        properties=tuple(properties),
        rules=_merge_rules(where, *(side.rules for side in sides)),
        **_merge_parts(where, ("description", "metadata"), sides),
    )
