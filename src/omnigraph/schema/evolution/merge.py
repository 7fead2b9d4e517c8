"""Three catalogs of one graph to one: what two branches made of the schema they had in common. Pure.

In: the catalog of the base, ours and theirs. Out: the merged catalog, or why there is none. A type and a property are
what their ids say, so names do not matter. Whatever only one side changed goes that side's way, down to the single
annotation; what both changed alike is fine; an enum that both extended has the values of both. The order of things
and the counters of ids are no changes. Anything else is a divergence, never a guess: as when both changed one thing, or
one dropped what the other changed, or a name or an id was given twice. What the merged catalog says is read again as
text, so that no merge makes a schema that nobody could have written.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

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
from omnigraph.schema.evolution.apply import renamed_rules
from omnigraph.schema.evolution.diff import find_steps
from omnigraph.schema.evolution.steps import text_of
from omnigraph.schema.parser import parse_schema
from omnigraph.schema.printer import print_schema, schema_from_catalog
from omnigraph.schema.property_types import EnumType, PropertyType

Thing = TypeVar("Thing", bound=Hashable)
AnyValue = TypeVar("AnyValue")
_PROPERTY_PARTS = ("name", "nullable", "indexed", "embedding", "description", "metadata")
_TYPE_PARTS = ("name", "description", "metadata")


@dataclass(frozen=True, slots=True)
class Diverged:
    """Why two catalogs cannot become one."""

    why: str


class _Divergence(Exception):  # noqa: N818 - it never leaves this file
    pass


def merge_catalogs(base: Catalog, ours: Catalog, theirs: Catalog) -> Catalog | Diverged:
    """The catalog with the changes of both sides; ours comes first where there is an order."""
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    try:
        merged = _merged(base, ours, theirs)
        require_consistent(merged)
        _check_text(merged)
    except (_Divergence, InconsistentCatalogError) as fault:
        return Diverged(str(fault))
    return merged


def _check_text(merged: Catalog) -> None:
    """The text of a catalog is a schema, and says what the catalog says."""
    try:
        read = build_catalog(parse_schema(print_schema(schema_from_catalog(merged))))
    except SchemaTextError as error:
        told = "; ".join(problem.message for problem in error.problems)
        raise _Divergence(f"the changes of both sides together are no schema: {told}") from error
    found = find_steps(merged, read)
    left = [f"{one.alias}: {one.detail}" for one in found.unsupported] or [*map(text_of, found.steps)]
    if left:
        raise _Divergence(f"the changes of both sides do not go together without another: {'; '.join(left)}")


def _merged(base: Catalog, ours: Catalog, theirs: Catalog) -> Catalog:
    types = [
        _merged_type(*sides)
        for sides in _aligned(
            *({_identity(found): found for found in side.types} for side in (base, ours, theirs))
        )
    ]
    kept = [found for found in types if found is not None]
    return Catalog(
        tuple(found for found in kept if isinstance(found, NodeType)),
        tuple(found for found in kept if isinstance(found, EdgeType)),
        _merged_interfaces(base, ours, theirs),
        max(ours.next_type_id, theirs.next_type_id),
    )


def _identity(found: Entity) -> tuple[str, str]:
    return found.id, found.incarnation


def _aligned(
    base: Mapping[Thing, AnyValue], ours: Mapping[Thing, AnyValue], theirs: Mapping[Thing, AnyValue]
) -> Iterable[tuple[AnyValue | None, AnyValue | None, AnyValue | None]]:
    for key in dict.fromkeys((*ours, *theirs, *base)):
        yield base.get(key), ours.get(key), theirs.get(key)


def _merged_type(base: Entity | None, ours: Entity | None, theirs: Entity | None) -> Entity | None:
    if base is None:
        if ours is not None and theirs is not None and _said(ours) != _said(theirs):
            raise _Divergence(f"both sides changed {ours.alias}, which their common state does not have")
        return ours or theirs
    if ours is None or theirs is None:
        kept = ours or theirs
        if kept is not None and _said(kept) != _said(base):
            raise _Divergence(f"one side dropped {base.alias} and the other changed it")
        return None
    counter = max(ours.next_property_id, theirs.next_property_id)
    if _said(theirs) == _said(base):
        return replace(ours, next_property_id=counter)
    if _said(ours) == _said(base):
        return replace(theirs, next_property_id=counter)
    return replace(_both_changed(base, ours, theirs), next_property_id=counter)


def _said(found: Entity) -> Entity:
    """What a type says, whatever the order in which it says it and the ids that it has given."""
    rules = replace(
        found.rules,
        uniques=tuple(sorted(tuple(sorted(columns)) for columns in found.rules.uniques)),
        ranges=tuple(sorted(found.rules.ranges, key=lambda rule: rule.property)),
        checks=tuple(sorted(found.rules.checks, key=lambda rule: rule.property)),
    )
    said = replace(
        found,
        properties=tuple(sorted(found.properties, key=lambda one: one.id)),
        rules=rules,
        next_property_id=PropertyId(0),
    )
    return replace(said, implements=tuple(sorted(said.implements))) if isinstance(said, NodeType) else said


def _both_changed(base: Entity, ours: Entity, theirs: Entity) -> Entity:
    alias = ours.alias
    by_id = [{found.id: found for found in side.properties} for side in (base, ours, theirs)]
    merged = [_merged_property(alias, *sides) for sides in _aligned(*by_id)]
    properties = tuple(found for found in merged if found is not None)
    names = {found.id: found.name for found in properties}
    _check_sources(properties)
    parts: dict[str, Any] = {
        part: _part(f"{part} of {alias}", *(getattr(side, part) for side in (base, ours, theirs)))
        for part in _TYPE_PARTS
    }
    match base, ours, theirs:
        case NodeType(), NodeType(), NodeType():
            parts["implements"] = _merged_set(base.implements, ours.implements, theirs.implements)
        case EdgeType(), EdgeType(), EdgeType():
            sides = (base.cardinality, ours.cardinality, theirs.cardinality)
            parts["cardinality"] = _part(f"cardinality of {alias}", *sides)
        case _:
            raise _Divergence(f"{alias} is a node and an edge")
    return replace(
        ours,
        **parts,
        properties=properties,
        rules=_merged_rules(alias, *(_under(side, names) for side in (base, ours, theirs))),
    )


def _merged_property(
    alias: str, base: Property | None, ours: Property | None, theirs: Property | None
) -> Property | None:
    if base is None:
        if ours is not None and theirs is not None and ours != theirs:
            raise _Divergence(
                f"{alias}.{ours.name} and {alias}.{theirs.name} were given one id at the same moment"
            )
        return ours or theirs
    where = f"{alias}.{base.name}"
    if ours is None or theirs is None:
        kept = ours or theirs
        if kept is not None and kept != base:
            raise _Divergence(f"one side dropped {where} and the other changed it")
        return None
    parts: dict[str, Any] = {
        part: _part(f"{part} of {where}", *(getattr(side, part) for side in (base, ours, theirs)))
        for part in _PROPERTY_PARTS
    }
    default = _part(f"default of {where}", base.default, ours.default, theirs.default)
    kind = _merged_kind(where, base.type, ours.type, theirs.type)
    fills = _part(f"what null became in {where}", base.null_fills, ours.null_fills, theirs.null_fills)
    return replace(ours.with_default(default), **parts, type=kind, null_fills=fills)


def _merged_kind(where: str, base: PropertyType, ours: PropertyType, theirs: PropertyType) -> PropertyType:
    match base, ours, theirs:
        case EnumType(), EnumType(left), EnumType(right):
            return EnumType(tuple(sorted({*left, *right})))
        case _:
            return _part(f"the type of {where}", base, ours, theirs)


def _part(what: str, base: AnyValue, ours: AnyValue, theirs: AnyValue) -> AnyValue:
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    raise _Divergence(f"both sides changed {what}")


def _check_sources(properties: tuple[Property, ...]) -> None:
    """What a vector is made from must still have the name that its side knew."""
    names = {found.name for found in properties}
    for found in properties:
        if found.embedding is not None and found.embedding.source not in names:
            raise _Divergence(
                f"one side renamed or dropped {found.embedding.source}, from which the other makes {found.name}"
            )


def _merged_rules(alias: str, base: Rules, ours: Rules, theirs: Rules) -> Rules:
    """The rules of both, which have the merged names of their columns."""
    bounded = [rule.property for side in (ours, theirs, base) for rule in side.ranges]
    checked = [rule.property for side in (ours, theirs, base) for rule in side.checks]
    ranges: list[RangeRule] = []
    checks: list[CheckRule] = []
    for name in dict.fromkeys((*bounded, *checked)):
        of = [
            (
                tuple(rule for rule in side.ranges if rule.property == name),
                tuple(rule for rule in side.checks if rule.property == name),
            )
            for side in (base, ours, theirs)
        ]
        kept_ranges, kept_checks = _part(f"the rules of {alias}.{name}", *of)
        ranges += kept_ranges
        checks += kept_checks
    return Rules(
        _part(f"the key of {alias}", base.key, ours.key, theirs.key),
        _merged_uniques(base.uniques, ours.uniques, theirs.uniques),
        tuple(ranges),
        tuple(checks),
    )


def _under(side: Entity, names: Mapping[PropertyId, str]) -> Rules:
    """A side's rules; a column that the merged type lacks keeps its name, which soundness then misses."""
    return renamed_rules(
        side.rules, {found.name: names.get(found.id, found.name) for found in side.properties}
    )


_Uniques = tuple[tuple[str, ...], ...]


def _merged_uniques(base: _Uniques, ours: _Uniques, theirs: _Uniques) -> _Uniques:
    """As sets, because the order of its columns is no part of a `@unique`; each as ours writes it, or else theirs."""
    spelled = {frozenset(columns): columns for columns in (*theirs, *ours)}
    sides = (tuple(map(frozenset, side)) for side in (base, ours, theirs))
    return tuple(spelled[columns] for columns in _merged_set(*sides))


def _merged_set(
    base: tuple[Thing, ...], ours: tuple[Thing, ...], theirs: tuple[Thing, ...]
) -> tuple[Thing, ...]:
    """What both have, and what either has added."""
    every = dict.fromkeys((*ours, *theirs))
    return tuple(one for one in every if one not in base or (one in ours and one in theirs))


def _merged_interfaces(base: Catalog, ours: Catalog, theirs: Catalog) -> tuple[Interface, ...]:
    """The interfaces by their names, which are all that they are known by."""
    by_name = [{found.name: found for found in side.interfaces} for side in (base, ours, theirs)]
    merged = (_merged_interface(*sides) for sides in _aligned(*by_name))
    return tuple(found for found in merged if found is not None)


def _merged_interface(
    base: Interface | None, ours: Interface | None, theirs: Interface | None
) -> Interface | None:
    if base is None or ours is None or theirs is None:
        some = ours or theirs or base
        assert some is not None, "somebody knows it"
        return _part(f"interface {some.name}", base, ours, theirs)
    where = f"interface {ours.name}"
    sides = (base, ours, theirs)
    properties: list[PropertyShape] = []
    for shapes in _aligned(*({found.name: found for found in side.properties} for side in sides)):
        name = next(found.name for found in shapes if found is not None)
        merged = _part(f"{name} of {where}", *shapes)
        properties += [] if merged is None else [merged]
    return replace(
        ours,
        properties=tuple(properties),
        rules=_merged_rules(where, *(side.rules for side in sides)),
        description=_part(f"description of {where}", *(side.description for side in sides)),
        metadata=_part(f"metadata of {where}", *(side.metadata for side in sides)),
    )
