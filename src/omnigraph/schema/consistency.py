"""The consistency of a catalog: distinct ids and names, counters ahead of them, endpoints and columns that exist.

In: a catalog that was read from storage or computed by a merge. Out: nothing, or an `InconsistentCatalogError`, which
the caller turns into an error of its own. A catalog that was built from a schema text needs no check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from omnigraph.schema.catalog import Catalog, EdgeType, Entity, Rules, edge_lookup_name

_ID: Final = re.compile(r"[0-9a-f]{16}")


class InconsistentCatalogError(Exception):
    """A catalog contradicts itself."""


def require_consistent(catalog: Catalog) -> None:
    """Raise `InconsistentCatalogError` if ids or names repeat, a counter is too low, or a reference is unknown."""
    _require_distinct("type id", (entity.id for entity in catalog.types))
    _require_distinct("node name", (node.name for node in catalog.nodes))
    _require_distinct("edge name", (edge_lookup_name(edge.name) for edge in catalog.edges))
    node_ids = {node.id for node in catalog.nodes}
    for entity in catalog.types:
        for name, value in (("id", entity.id), ("incarnation", entity.incarnation)):
            if not _ID.fullmatch(value):
                raise InconsistentCatalogError(
                    f"invalid {name} of {entity.alias}: expected 16 lower-case hex digits, got '{value}'"
                )
        if int(entity.id, 16) >= catalog.next_type_id:
            raise InconsistentCatalogError(
                f"invalid id of {entity.alias}: expected less than {catalog.next_type_id:016x}, got {entity.id}"
            )
        if isinstance(entity, EdgeType) and not {entity.source, entity.target} <= node_ids:
            raise InconsistentCatalogError(f"{entity.alias} has an endpoint that does not exist")
        _require_consistent_type(entity)


def _require_consistent_type(entity: Entity) -> None:
    _require_distinct(f"property id of {entity.alias}", (property_.id for property_ in entity.properties))
    _require_distinct(f"property name of {entity.alias}", (property_.name for property_ in entity.properties))
    if any(property_.id >= entity.next_property_id or property_.id < 1 for property_ in entity.properties):
        raise InconsistentCatalogError(f"{entity.alias} has a property id outside 1 to {entity.next_property_id - 1}")
    columns = {property_.name for property_ in entity.properties}
    endpoints = {"src", "dst"} if isinstance(entity, EdgeType) else set()
    if unknown := sorted(_named_columns(entity.rules) - columns - endpoints):
        raise InconsistentCatalogError(f"a rule of {entity.alias} names the unknown column '{unknown[0]}'")


def _named_columns(rules: Rules) -> set[str]:
    lists = {name for columns in (rules.key, *rules.uniques) for name in columns}
    return lists | {rule.property for rule in rules.ranges} | {rule.property for rule in rules.checks}


def _require_distinct(label: str, values: Iterable[object]) -> None:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise InconsistentCatalogError(f"two entries have the same {label} '{value}'")
        seen.add(value)
