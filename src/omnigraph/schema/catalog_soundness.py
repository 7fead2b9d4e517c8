"""What a catalog promises about itself beyond the types of its members, checked when one is read from storage."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from omnigraph.schema.catalog import Catalog, EdgeType, Entity, Rules, edge_lookup_name

_ID: Final = re.compile(r"[0-9a-f]{16}")


class CatalogFault(Exception):  # noqa: N818 - it never leaves this room; readers see a FormatError
    """A catalog says something impossible."""


def check_soundness(catalog: Catalog) -> None:
    """Raise `CatalogFault` when ids or names clash, a counter is behind, or an edge or a rule names nothing."""
    _check_distinct("type id", (found.id for found in catalog.types))
    _check_distinct("node name", (found.name for found in catalog.nodes))
    _check_distinct("edge name", (edge_lookup_name(found.name) for found in catalog.edges))
    nodes = {found.id for found in catalog.nodes}
    for found in catalog.types:
        if not _ID.fullmatch(found.id) or not _ID.fullmatch(found.incarnation):
            raise CatalogFault(f"{found.alias} has an id that is not 16 lower-case hex digits")
        if int(found.id, 16) >= catalog.next_type_id:
            raise CatalogFault(f"{found.alias} has an id that is still to be given")
        if isinstance(found, EdgeType) and not {found.source, found.target} <= nodes:
            raise CatalogFault(f"{found.alias} ends at a node that does not exist")
        _check_entity(found)


def _check_entity(found: Entity) -> None:
    _check_distinct(f"property id of {found.alias}", (own.id for own in found.properties))
    _check_distinct(f"property name of {found.alias}", (own.name for own in found.properties))
    if any(own.id >= found.next_property_id or own.id < 1 for own in found.properties):
        raise CatalogFault(f"{found.alias} has a property id that is still to be given")
    columns = {own.name for own in found.properties}
    ends = {"src", "dst"} if isinstance(found, EdgeType) else set()
    if unknown := sorted(_named_columns(found.rules) - columns - ends):
        raise CatalogFault(f"a rule of {found.alias} names the unknown column `{unknown[0]}`")


def _named_columns(rules: Rules) -> set[str]:
    lists = {name for columns in (rules.key, *rules.uniques) for name in columns}
    return lists | {rule.property for rule in rules.ranges} | {rule.property for rule in rules.checks}


def _check_distinct(what: str, values: Iterable[object]) -> None:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise CatalogFault(f"two entries have the same {what} `{value}`")
        seen.add(value)
