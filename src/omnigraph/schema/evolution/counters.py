"""Ids that no branch has given: the counters of a catalog, raised to those of others. Pure.

Every branch has a schema of its own and counts in it. Two branches that each add a property would give it the same
number, and a merge could not tell the two apart. So whoever adds something looks at the counters of all branches first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.base.ids import PropertyId
from omnigraph.schema.catalog import AnyEntity, Catalog


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
