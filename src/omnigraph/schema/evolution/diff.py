"""The difference of two catalogs as ordered steps, and the changes that are rejected. Pure.

In: the accepted catalog, the catalog of a desired text (whose ids have no meaning yet), and the rows of each type.
Out: an `Evolution`. Types and properties are matched by name, then by `@rename_from`. The order is safe: rules are
dropped before their columns and added after them, edges are dropped before their endpoints and added after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from omnigraph.base.ids import TypeId, type_id_from_number
from omnigraph.schema.catalog import Catalog, EdgeType, Entity, Interface, NodeType
from omnigraph.schema.evolution.codes import EvolutionCode
from omnigraph.schema.evolution.steps import AddType, DropType, EvolutionStep, RenameType, Unsupported, UpdateInterfaces
from omnigraph.schema.evolution.type_diff import TypePair, compare_type


@dataclass(frozen=True, slots=True)
class Evolution:
    """The steps, in order, and the rejected changes. No step may be applied while `unsupported` is not empty."""

    steps: tuple[EvolutionStep, ...]
    unsupported: tuple[Unsupported, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _TypeMatch:
    """The types of both catalogs, old and new, the added and the dropped types, and accepted ids by desired ids."""

    pairs: tuple[tuple[Entity, Entity], ...]
    added: tuple[Entity, ...]
    dropped: tuple[Entity, ...]
    unsupported: tuple[Unsupported, ...]
    ids: Mapping[TypeId, TypeId] = field(default_factory=dict)


def find_steps(
    accepted: Catalog, desired: Catalog, rows: Mapping[TypeId, int] | None = None, *, hard: bool = False
) -> Evolution:
    """Return the steps from the accepted catalog to the desired one. `hard`: drop data permanently."""
    sizes = rows or {}
    match = _match_types(accepted, desired)
    steps = [*_drop_steps(match.dropped, hard), *_rename_steps(match.pairs)]
    unsupported = list(match.unsupported)
    for old, new in match.pairs:
        pair = TypePair(old=old, new=new, row_count=sizes.get(old.id, 0), is_hard_drop=hard)
        difference = compare_type(pair)
        unsupported += [*difference.unsupported, *_changed_endpoints(old, new, match.ids)]
        steps += difference.supported_steps
    nodes_first = sorted(match.added, key=lambda entity: isinstance(entity, EdgeType))
    steps += [_add_type(_with_accepted_ids(entity, match.ids)) for entity in nodes_first]
    steps += _interface_steps(accepted, desired)
    return Evolution(tuple(steps), tuple(unsupported))


def find_steps_by_id(old: Catalog, new: Catalog, *, hard: bool = False) -> tuple[EvolutionStep, ...]:
    """Return the steps between two catalogs of one graph, with types and properties matched by id."""
    pairs = [(before, after) for after in new.types if (before := old.same_type(after)) is not None]
    dropped = [entity for entity in old.types if new.same_type(entity) is None]
    steps = [*_drop_steps(dropped, hard), *_rename_steps(pairs)]
    for before, after in pairs:
        steps += compare_type(TypePair(old=before, new=after, is_hard_drop=hard, match_by_id=True)).steps
    steps += [_add_type(entity) for entity in new.types if old.same_type(entity) is None]
    steps += _interface_steps(old, new)
    return tuple(steps)


def _add_type(entity: Entity) -> AddType:
    return AddType(entity.id, entity.alias, entity)


def _drop_steps(types: Iterable[Entity], hard: bool) -> list[EvolutionStep]:
    edges_first = sorted(types, key=lambda entity: isinstance(entity, NodeType))
    return [DropType(entity.id, entity.alias, hard) for entity in edges_first]


def _rename_steps(pairs: Iterable[tuple[Entity, Entity]]) -> list[EvolutionStep]:
    return [RenameType(old.id, old.alias, new.name) for old, new in pairs if old.name != new.name]


def _match_types(accepted: Catalog, desired: Catalog) -> _TypeMatch:
    pairs: list[tuple[Entity, Entity]] = []
    added: list[Entity] = []
    unsupported: list[Unsupported] = []
    matched_ids: set[TypeId] = set()
    for new in desired.types:
        same, source = accepted.type_named(new.name), _renamed_from(accepted, new)
        if same is not None and same.kind is not new.kind:
            detail = f"{same.alias} would become {new.alias}"
            unsupported.append(Unsupported(EvolutionCode.KIND_CHANGED, new.alias, None, detail))
            matched_ids.add(same.id)
        elif same is not None:
            pairs.append((same, new))
            matched_ids.add(same.id)
            if source is not None:
                detail = f"{source.alias} would become {new.alias}, which already exists"
                unsupported.append(Unsupported(EvolutionCode.RENAME_TO_EXISTING, new.alias, None, detail))
                matched_ids.add(source.id)
        elif source is not None:
            pairs.append((source, new))
            matched_ids.add(source.id)
        elif new.renamed_from is not None:
            detail = f"{new.kind.value} type {new.renamed_from} does not exist"
            unsupported.append(Unsupported(EvolutionCode.RENAME_UNKNOWN, new.alias, None, detail))
        else:
            added.append(new)
    ids = {new.id: old.id for old, new in pairs}
    numbers = range(accepted.next_type_id, accepted.next_type_id + len(added))
    in_text_order = sorted(added, key=lambda entity: entity.id)
    ids |= {new.id: type_id_from_number(number) for new, number in zip(in_text_order, numbers, strict=True)}
    dropped = tuple(entity for entity in accepted.types if entity.id not in matched_ids)
    return _TypeMatch(
        pairs=tuple(pairs), added=tuple(in_text_order), dropped=dropped, unsupported=tuple(unsupported), ids=ids
    )


def _renamed_from(accepted: Catalog, new: Entity) -> Entity | None:
    """Return the accepted type of the same kind that `@rename_from` names."""
    old = None if new.renamed_from is None else accepted.type_named(new.renamed_from)
    return old if old is not None and old.kind is new.kind else None


def _changed_endpoints(old: Entity, new: Entity, ids: Mapping[TypeId, TypeId]) -> Iterator[Unsupported]:
    if not isinstance(old, EdgeType) or not isinstance(new, EdgeType):
        return
    for endpoint, before, after in (("source", old.source, new.source), ("target", old.target, new.target)):
        if ids.get(after) != before:
            detail = f"its {endpoint} is another node type than before"
            yield Unsupported(EvolutionCode.ENDPOINTS_CHANGED, new.alias, None, detail)


def _with_accepted_ids(entity: Entity, ids: Mapping[TypeId, TypeId]) -> Entity:
    """Return a new type with ids of the graph. A rejected endpoint keeps its id: such a plan is never applied."""
    if isinstance(entity, NodeType):
        return replace(entity, id=ids[entity.id])
    return replace(
        entity,
        id=ids[entity.id],
        source=ids.get(entity.source, entity.source),
        target=ids.get(entity.target, entity.target),
    )


def _interface_steps(old: Catalog, new: Catalog) -> list[EvolutionStep]:
    interfaces = _without_renames(new.interfaces)
    return [UpdateInterfaces(interfaces)] if _without_renames(old.interfaces) != interfaces else []


def _without_renames(interfaces: tuple[Interface, ...]) -> tuple[Interface, ...]:
    """Return the interfaces without the `@rename_from` of their properties."""
    return tuple(
        replace(interface, properties=tuple(replace(shape, renamed_from=None) for shape in interface.properties))
        for interface in interfaces
    )
