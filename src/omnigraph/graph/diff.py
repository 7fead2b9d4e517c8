"""What differs between two snapshots, entity by entity, with both images; the change feed is made of such differences.

In: two snapshots of one graph, on any branches. Out: batches of changes, made while they are taken, so that a large
difference needs no more memory than a small one. It costs by what changed. A commit that only moved files is empty.
Types and properties are what their ids say, and a property that one side lacks is null there. So a new property is told
by the rows that got a value, all of them if it came with a default; one that became required with a default by the
rows that had null. Deletions of types that went come before all else: another type may have their name now, and ids of
theirs. A property that goes with its values is no change of an entity: such a difference is refused. Nothing here
writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.errors import RefusedError
from omnigraph.graph.manifest.records import TableId, TableRecord, table_id
from omnigraph.graph.manifest.snapshot import Snapshot, open_pin
from omnigraph.graph.rows.changed_rows import compare_pins
from omnigraph.graph.rows.entity_rows import (
    EntityRows,
    Located,
    Mask,
    locate,
    pieces,
    read_image,
    same_states,
)
from omnigraph.schema.catalog import Entity, Property
from omnigraph.schema.property_types import EnumType
from omnigraph.storage.lance.dataset import Dataset, Texts
from omnigraph.storage.lance.read import every_id
from omnigraph.storage.location import Location


class SchemaDiffError(RefusedError):
    """Two states whose schemas differ in a way that cannot be told as changes of entities."""


class ChangeKind(StrEnum):
    """What happened to an entity."""

    INSERTED = "inserted"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, eq=False)
class ChangeBatch:
    """Some entities of one type that differ, ordered by id within their table; the images are aligned with the ids."""

    entity: Entity
    ids: Texts
    before: EntityRows
    after: EntityRows

    @property
    def table_id(self) -> TableId:
        """Which type it is: in the course of time two may have one name, and one two names."""
        return table_id(self.entity.id, self.entity.incarnation)

    def kinds(self) -> list[ChangeKind]:
        """What happened to each."""
        pairs = zip(self.before.present, self.after.present, strict=True)
        return [
            (ChangeKind.UPDATED if there else ChangeKind.INSERTED) if now else ChangeKind.DELETED
            for there, now in pairs
        ]


def diff_snapshots(before: Snapshot, after: Snapshot) -> Iterator[ChangeBatch]:
    """Every entity that differs: types that the newer schema dropped, then the others in its order."""
    refuse_lost_values(before, after)
    old, new = _by_id(before), _by_id(after)
    for table in [*(one for one in old if one not in new), *new]:
        pair = (old.get(table), new.get(table))
        yield from _diff_table(before, pair)


def refuse_lost_values(before: Snapshot, after: Snapshot) -> None:
    """Raise `SchemaDiffError` when a property goes that has values. Only columns of such properties are read."""
    old = _by_id(before)
    for table, (entity, record) in _by_id(after).items():
        if table not in old or old[table][1].pin == record.pin:
            continue
        was, pinned = old[table]
        gone = [found.name for found in was.properties if not _has(entity, found)]
        lost = _with_values(before.root.child(pinned.path), pinned, gone) if gone else []
        if lost:
            raise SchemaDiffError(
                f"{entity.alias} lost {', '.join(lost)} with its values, which no change of a row says",
                code="diff_schema_changed",
                hint="compare commits on one side of the schema change, or export both; "
                "`schema show --commit` shows each",
                facts={
                    "change_diff_refusal": {
                        "reason": "schema_boundary",
                        "graph_commit_id": after.head,
                        "type_name": entity.alias.partition(":")[2],
                    },
                    "properties": list(lost),
                },
            )


def _has(entity: Entity, wanted: Property) -> bool:
    """Whether a type has a property. An enum is text whatever its values, so it counts as one type."""
    found = entity.property_with_id(wanted.id)
    enums = found is not None and isinstance(found.type, EnumType) and isinstance(wanted.type, EnumType)
    return found is not None and (enums or found.type == wanted.type)


def _with_values(place: Location, table: TableRecord, names: list[str]) -> list[str]:
    """The columns in which any row has a value."""
    dataset = open_pin(place, table.pin)
    found: set[str] = set()
    for batch in dataset.read_batches(names) if table.row_count else ():
        found |= {name for name in names if batch.column(name).null_count < batch.num_rows}
    return [name for name in names if name in found]


def _by_id(snapshot: Snapshot) -> dict[TableId, tuple[Entity, TableRecord]]:
    tables = {table.alias: table for table in snapshot.tables.values()}
    found = ((entity, tables[entity.alias]) for entity in snapshot.schema.catalog.types)
    return {table.id: (entity, table) for entity, table in found}


_Found = tuple[Entity, TableRecord] | None


def _diff_table(snapshot: Snapshot, pair: tuple[_Found, _Found]) -> Iterator[ChangeBatch]:
    old, new = pair
    known = new or old
    assert known is not None, "one side has it"
    entity, table = known
    if old is not None and new is not None and old[1].pin == new[1].pin:
        return
    ids, left, right = _candidates(snapshot.root.child(table.path), pair)
    plain = _without_fills(entity)
    for start, rows in pieces(entity, len(ids)):
        images = [read_image(side.dataset, plain, side.located.slice(start, rows)) for side in (left, right)]
        differs: Mask = ~same_states(images[0], images[1])
        if differs.any():
            mask: Any = pa.array(differs)
            some: Texts = ids.slice(start, rows).filter(mask)
            yield ChangeBatch(entity, some, _only(images[0], differs), _only(images[1], differs))


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Where the rows that may differ lie on one side; nowhere when it has no such table."""

    dataset: Dataset | None
    located: Located


def _candidates(place: Location, pair: tuple[_Found, _Found]) -> tuple[Texts, _Side, _Side]:
    """The ids that may differ, in their order, and both sides of them."""
    old, new = pair
    if old is not None and new is not None:
        compared = compare_pins(place, old[1].pin, new[1].pin, whole=_gets_filled(old[0], new[0]))
        ids = _ordered(compared.ids())
        left, right = compared.locate_left(ids), compared.locate_right(ids)
        return ids, _Side(compared.left, left), _Side(compared.right, right)
    entity, table = new or old or (None, None)
    assert table is not None, "one side has it"
    only = open_pin(place, table.pin)
    ids = _ordered(every_id(only))
    there, nowhere = _Side(only, locate(only, entity, ids)), _Side(None, locate(None, entity, ids))
    return (ids, there, nowhere) if new is None else (ids, nowhere, there)


def _gets_filled(old: Entity, new: Entity) -> bool:
    """Whether rows got a default without being written: for a new property, or for null in one that became required."""
    pairs = ((old.property_with_id(found.id), found) for found in new.properties)
    return any(
        before.null_fills != after.null_fills
        if before is not None and _has(old, after)
        else after.fill is not None
        for before, after in pairs
    )


def _without_fills(entity: Entity) -> Entity:
    """The type whose properties are null where a side lacks them or has null: that is what the rows were there."""
    bare = tuple(replace(found, default=None, filled=None, null_fills=()) for found in entity.properties)
    return replace(entity, properties=bare)


def _ordered(ids: Texts) -> Texts:
    order: Any = pc.sort_indices(ids)
    return ids.take(order)


def _only(image: EntityRows, which: Mask) -> EntityRows:
    mask: Any = pa.array(which)
    return EntityRows(image.rows.filter(mask), image.present[which], np.zeros(int(which.sum()), np.bool_))
