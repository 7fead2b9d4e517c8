"""The difference of two catalogs as ordered steps, and what of it is refused. Pure.

In: the accepted catalog, the catalog of a desired text (whose ids mean nothing yet), and how many rows each type has.
Out: an `Evolution`. Types and properties are matched by name, then by `@rename_from`. The order is safe: rules go
before the columns they name, columns come before their rules, edges go before and come after the nodes they end at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.base.ids import TypeId, type_id_from_number
from omnigraph.schema.catalog import Catalog, EdgeType, Entity, Interface, NodeType
from omnigraph.schema.evolution.codes import EvolutionCode
from omnigraph.schema.evolution.steps import (
    AddType,
    DropType,
    RenameType,
    Step,
    Unsupported,
    UpdateInterfaces,
)
from omnigraph.schema.evolution.type_diff import TypePair, compare_type


@dataclass(frozen=True, slots=True)
class Evolution:
    """What to do, in order, and what cannot be done. Nothing may be done while `unsupported` is not empty."""

    steps: tuple[Step, ...]
    unsupported: tuple[Unsupported, ...] = ()


@dataclass(frozen=True, slots=True)
class _Match:
    """The types of the desired catalog with their accepted ones, and those that are new or gone."""

    pairs: tuple[tuple[Entity, Entity], ...]
    added: tuple[Entity, ...]
    dropped: tuple[Entity, ...]
    unsupported: tuple[Unsupported, ...]
    ids: Mapping[TypeId, TypeId] = field(default_factory=dict)


def find_steps(
    accepted: Catalog, desired: Catalog, rows: Mapping[TypeId, int] | None = None, *, hard: bool = False
) -> Evolution:
    """The steps from the accepted catalog to the desired one. `hard`: what is dropped shall not be read again."""
    sizes = rows or {}
    match = _match_types(accepted, desired)
    steps: list[Step] = [
        DropType(found.id, found.alias, hard) for kind in (EdgeType, NodeType) for found in _of(match, kind)
    ]
    steps += [RenameType(old.id, old.alias, new.name) for old, new in match.pairs if old.name != new.name]
    refused = list(match.unsupported)
    for old, new in match.pairs:
        pair = TypePair(old, new, sizes.get(old.id, 0), hard)
        changed = compare_type(pair)
        refused += [*changed.unsupported, *_moved_ends(old, new, match.ids)]
        steps += changed.supported_steps
    steps += [AddType(_identified(found, match.ids)) for found in match.added if isinstance(found, NodeType)]
    steps += [AddType(_identified(found, match.ids)) for found in match.added if isinstance(found, EdgeType)]
    interfaces = _plain(desired.interfaces)
    if _plain(accepted.interfaces) != interfaces:
        steps.append(UpdateInterfaces(interfaces))
    return Evolution(tuple(steps), tuple(refused))


def find_steps_by_id(old: Catalog, new: Catalog, *, hard: bool = False) -> tuple[Step, ...]:
    """The steps between two catalogs of one graph: what a type or a property is, its id says."""
    pairs = [(before, after) for after in new.types if (before := _same_type(old, after)) is not None]
    steps: list[Step] = [
        DropType(found.id, found.alias, hard)
        for kind in (EdgeType, NodeType)
        for found in old.types
        if isinstance(found, kind) and _same_type(new, found) is None
    ]
    steps += [
        RenameType(before.id, before.alias, after.name)
        for before, after in pairs
        if before.name != after.name
    ]
    for before, after in pairs:
        steps += compare_type(TypePair(before, after, hard=hard, by_id=True)).steps
    steps += [AddType(found) for found in new.types if _same_type(old, found) is None]
    interfaces = _plain(new.interfaces)
    if _plain(old.interfaces) != interfaces:
        steps.append(UpdateInterfaces(interfaces))
    return tuple(steps)


def _same_type(catalog: Catalog, wanted: Entity) -> Entity | None:
    found = catalog.type_with_id(wanted.id)
    return found if found is not None and found.incarnation == wanted.incarnation else None


def _of(match: _Match, kind: type[Entity]) -> Iterator[Entity]:
    return (found for found in match.dropped if isinstance(found, kind))


def _match_types(accepted: Catalog, desired: Catalog) -> _Match:
    pairs: list[tuple[Entity, Entity]] = []
    added: list[Entity] = []
    refused: list[Unsupported] = []
    used: set[TypeId] = set()
    for new in desired.types:
        same, source = accepted.type_named(new.name), _renamed_from(accepted, new)
        other = same if same is not None and same.kind is not new.kind else None
        if other is not None:
            detail = f"{other.alias} would become {new.alias}"
            refused.append(Unsupported(EvolutionCode.KIND_CHANGED, new.alias, None, detail))
            used.add(other.id)
        elif same is not None:
            pairs.append((same, new))
            used.add(same.id)
            if source is not None:
                detail = f"{source.alias} would become {new.alias}, which is there already"
                refused.append(Unsupported(EvolutionCode.RENAME_TAKEN, new.alias, None, detail))
                used.add(source.id)
        elif source is not None:
            pairs.append((source, new))
            used.add(source.id)
        elif new.renamed_from is not None:
            detail = f"there is no {new.kind.value} type {new.renamed_from}"
            refused.append(Unsupported(EvolutionCode.RENAME_UNKNOWN, new.alias, None, detail))
        else:
            added.append(new)
    ids = {new.id: old.id for old, new in pairs}
    numbers = range(accepted.next_type_id, accepted.next_type_id + len(added))
    in_text_order = sorted(added, key=lambda found: found.id)
    ids |= {new.id: type_id_from_number(number) for new, number in zip(in_text_order, numbers, strict=True)}
    dropped = tuple(found for found in accepted.types if found.id not in used)
    return _Match(tuple(pairs), tuple(in_text_order), dropped, tuple(refused), ids)


def _renamed_from(accepted: Catalog, new: Entity) -> Entity | None:
    """The accepted type of the same kind that the new one says it was."""
    found = None if new.renamed_from is None else accepted.type_named(new.renamed_from)
    return found if found is not None and found.kind is new.kind else None


def _moved_ends(old: Entity, new: Entity, ids: Mapping[TypeId, TypeId]) -> Iterator[Unsupported]:
    if not isinstance(old, EdgeType) or not isinstance(new, EdgeType):
        return
    for word, before, after in (("begins", old.source, new.source), ("ends", old.target, new.target)):
        if ids.get(after) != before:
            detail = f"it {word} at another node type than before"
            yield Unsupported(EvolutionCode.ENDS_CHANGED, new.alias, None, detail)


def _identified(found: Entity, ids: Mapping[TypeId, TypeId]) -> Entity:
    """A new type with ids of this graph; an end that was refused means nothing, and such a plan is never followed."""
    if isinstance(found, NodeType):
        return replace(found, id=ids[found.id])
    return replace(
        found,
        id=ids[found.id],
        source=ids.get(found.source, found.source),
        target=ids.get(found.target, found.target),
    )


def _plain(interfaces: tuple[Interface, ...]) -> tuple[Interface, ...]:
    """The interfaces without what their texts said about renames."""
    return tuple(
        replace(found, properties=tuple(replace(shape, renamed_from=None) for shape in found.properties))
        for found in interfaces
    )
