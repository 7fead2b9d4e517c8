"""Steps applied to a catalog, and counters that no branch has used. Pure.

A counter of ids only grows: an id that any branch has assigned is never assigned again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from omnigraph.base.ids import PropertyId
from omnigraph.schema.catalog import AnyEntity, Catalog

if TYPE_CHECKING:
    from omnigraph.schema.evolution.steps import EvolutionStep


def next_catalog(accepted: Catalog, steps: Iterable[EvolutionStep]) -> Catalog:
    """Return the catalog after the steps, in their order."""
    catalog = accepted
    for step in steps:
        catalog = step.apply(catalog)
    return catalog


def raise_counters(catalog: Catalog, others: Iterable[Catalog]) -> Catalog:
    """Return the catalog with counters that are past every id of the others."""
    catalogs = tuple(others)
    return replace(
        catalog,
        nodes=tuple(_raise_property_counter(node, catalogs) for node in catalog.nodes),
        edges=tuple(_raise_property_counter(edge, catalogs) for edge in catalog.edges),
        next_type_id=max(catalog.next_type_id, *(other.next_type_id for other in catalogs), 0),
    )


def _raise_property_counter(entity: AnyEntity, others: tuple[Catalog, ...]) -> AnyEntity:
    same_types = (other.type_with_id(entity.id) for other in others)
    counters = (same.next_property_id for same in same_types if same is not None)
    return replace(entity, next_property_id=PropertyId(max(entity.next_property_id, *counters, 0)))
