"""Which indexes the table of a type should have: the one rule that builder, coverage check and planner share.

`id`, and on edges `src` and `dst`, always have a BTREE. A property of the key has a BTREE, so that equality on it is
indexed. A property with `@index` has the index of its type; a `String` that is both has both. `@unique` alone asks for
no index. What is declared here is intent: reads are correct with any coverage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.schema.arrow import system_columns
from omnigraph.schema.catalog import Entity
from omnigraph.schema.indexable import IndexKind, index_kind


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """One index that a column should have."""

    column: str
    kind: IndexKind


def declared_indexes(entity: Entity) -> tuple[ColumnIndex, ...]:
    """Every index of a type's table, in the order of its columns."""
    system = system_columns(entity)
    always = (ColumnIndex(name, IndexKind.BTREE) for name in system)
    return (*always, *_property_indexes(entity))


def _property_indexes(entity: Entity) -> Iterator[ColumnIndex]:
    for found in entity.properties:
        declared = index_kind(found.type) if found.indexed else None
        if declared is not None:
            yield ColumnIndex(found.name, declared)
        if found.name in entity.key and declared is not IndexKind.BTREE:
            yield ColumnIndex(found.name, IndexKind.BTREE)
