"""Compare two snapshots, entity by entity, with the rows before and after. The change feed uses it too.

In: two snapshots of one graph, on any branches. Out: batches of changes, produced while they are read, so that a
large difference needs no more memory than a small one. The cost grows with what changed; a commit that only moved
files has no changes. Types and properties are matched by id, and a property that one side lacks is null there. So a
new property shows as changes of the rows that got a value (all rows if it has a default), and a property that became
required with a default as changes of the rows that had null. Deletions of dropped types come first, because another
type may have their name and their ids of rows. A property that was dropped with its values raises an error. Nothing
here writes.
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
from omnigraph.base.hints import Placeholder, action, hint
from omnigraph.graph.manifest.records import TableId, TableRecord, table_id
from omnigraph.graph.manifest.snapshot import Snapshot, open_pin
from omnigraph.graph.rows.changed_rows import compare_pins
from omnigraph.graph.rows.entity_rows import (
    EntityRows,
    Mask,
    RowLocations,
    locate,
    read_entity_rows,
    row_ranges,
    same_states,
)
from omnigraph.schema.catalog import Entity, Property
from omnigraph.schema.property_types import EnumType
from omnigraph.storage.lance.dataset import Dataset, Texts
from omnigraph.storage.lance.read import read_all_ids
from omnigraph.storage.location import Location


class SchemaDiffError(RefusedError):
    """The schemas of two states differ in a way that changes of entities cannot show."""


class ChangeKind(StrEnum):
    """What happened to an entity."""

    INSERTED = "inserted"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, eq=False)
class ChangeBatch:
    """Some entities of one type that differ, ordered by id within their table. The rows are aligned with the ids."""

    entity: Entity
    ids: Texts
    before: EntityRows
    after: EntityRows

    @property
    def table_id(self) -> TableId:
        """The identity of the type. Over time two types may have one name, and one type two names."""
        return table_id(self.entity.id, self.entity.incarnation)

    def kinds(self) -> list[ChangeKind]:
        """Return what happened to each entity."""
        pairs = zip(self.before.present, self.after.present, strict=True)
        return [
            (ChangeKind.UPDATED if was_present else ChangeKind.INSERTED) if is_present else ChangeKind.DELETED
            for was_present, is_present in pairs
        ]


def diff_snapshots(before: Snapshot, after: Snapshot) -> Iterator[ChangeBatch]:
    """Yield every entity that differs: types that the newer schema dropped, then the others in its order."""
    require_no_lost_values(before, after)
    old, new = _by_id(before), _by_id(after)
    for table in [*(key for key in old if key not in new), *new]:
        pair = (old.get(table), new.get(table))
        yield from _diff_table(before, pair)


def require_no_lost_values(before: Snapshot, after: Snapshot) -> None:
    """Raise `SchemaDiffError` if a property with values was dropped. Only such columns are read."""
    old = _by_id(before)
    for table, (entity, record) in _by_id(after).items():
        if table not in old or old[table][1].pin == record.pin:
            continue
        old_entity, pinned = old[table]
        dropped_names = [property_.name for property_ in old_entity.properties if not _has_property(entity, property_)]
        lost_names = _names_with_values(before.root.child(pinned.path), pinned, dropped_names) if dropped_names else []
        if lost_names:
            raise SchemaDiffError(
                f"cannot show the difference as changes of rows: {entity.alias} lost the property "
                f"{', '.join(lost_names)} with its values",
                code="diff_schema_changed",
                hint=hint(
                    "Compare commits on one side of the schema change, or export both. Run {} to see each schema.",
                    action("schema show", commit=Placeholder("ID")),
                ),
                facts={
                    "change_diff_refusal": {
                        "reason": "schema_boundary",
                        "graph_commit_id": after.head,
                        "type_name": entity.alias.partition(":")[2],
                    },
                    "properties": list(lost_names),
                },
            )


def _has_property(entity: Entity, sought: Property) -> bool:
    """Return whether a type has a property. All enums count as one type, because they are stored as text."""
    own = entity.property_with_id(sought.id)
    enums = own is not None and isinstance(own.type, EnumType) and isinstance(sought.type, EnumType)
    return own is not None and (enums or own.type == sought.type)


def _names_with_values(location: Location, table: TableRecord, names: list[str]) -> list[str]:
    """Return the columns in which any row has a value."""
    dataset = open_pin(location, table.pin)
    names_with_values: set[str] = set()
    for batch in dataset.read_batches(names) if table.row_count else ():
        names_with_values |= {name for name in names if batch.column(name).null_count < batch.num_rows}
    return [name for name in names if name in names_with_values]


def _by_id(snapshot: Snapshot) -> dict[TableId, tuple[Entity, TableRecord]]:
    tables = {table.alias: table for table in snapshot.tables.values()}
    pairs = ((entity, tables[entity.alias]) for entity in snapshot.schema.catalog.types)
    return {table.id: (entity, table) for entity, table in pairs}


_Table = tuple[Entity, TableRecord] | None


def _diff_table(snapshot: Snapshot, pair: tuple[_Table, _Table]) -> Iterator[ChangeBatch]:
    old, new = pair
    newest = new or old
    assert newest is not None, "at least one side has the table"
    entity, table = newest
    if old is not None and new is not None and old[1].pin == new[1].pin:
        return
    ids, left, right = _candidates(snapshot.root.child(table.path), pair)
    bare_entity = _without_fills(entity)
    for start, rows in row_ranges(entity, len(ids)):
        images = [
            read_entity_rows(side.dataset, bare_entity, side.located.slice(start, rows)) for side in (left, right)
        ]
        differs: Mask = ~same_states(images[0], images[1])
        if differs.any():
            mask: Any = pa.array(differs)
            differing_ids: Texts = ids.slice(start, rows).filter(mask)
            yield ChangeBatch(entity, differing_ids, _filter(images[0], differs), _filter(images[1], differs))


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The locations of the rows that may differ on one side; `dataset` is None if the side has no such table."""

    dataset: Dataset | None
    located: RowLocations


def _candidates(location: Location, pair: tuple[_Table, _Table]) -> tuple[Texts, _Side, _Side]:
    """Return the ids that may differ, in their order, and both sides of them."""
    old, new = pair
    if old is not None and new is not None:
        compared = compare_pins(location, old[1].pin, new[1].pin, whole=_gets_filled(old[0], new[0]))
        ids = _ordered(compared.ids())
        left, right = compared.locate_left(ids), compared.locate_right(ids)
        return ids, _Side(compared.left, left), _Side(compared.right, right)
    entity, table = new or old or (None, None)
    assert table is not None, "at least one side has the table"
    dataset = open_pin(location, table.pin)
    ids = _ordered(read_all_ids(dataset))
    present_side = _Side(dataset, locate(dataset, entity, ids))
    absent_side = _Side(None, locate(None, entity, ids))
    return (ids, present_side, absent_side) if new is None else (ids, absent_side, present_side)


def _gets_filled(old: Entity, new: Entity) -> bool:
    """Return whether rows got a default without being written: in a new property, or for null in a required one."""
    pairs = ((old.property_with_id(property_after.id), property_after) for property_after in new.properties)
    return any(
        before.null_fills != after.null_fills
        if before is not None and _has_property(old, after)
        else after.fill is not None
        for before, after in pairs
    )


def _without_fills(entity: Entity) -> Entity:
    """Return the type with null for properties that a side lacks: the rows had no value there."""
    bare = tuple(replace(property_, default=None, filled=None, null_fills=()) for property_ in entity.properties)
    return replace(entity, properties=bare)


def _ordered(ids: Texts) -> Texts:
    order: Any = pc.sort_indices(ids)
    return ids.take(order)


def _filter(image: EntityRows, which: Mask) -> EntityRows:
    mask: Any = pa.array(which)
    return EntityRows(image.rows.filter(mask), image.present[which], np.zeros(int(which.sum()), np.bool_))
