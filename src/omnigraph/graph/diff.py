"""What differs between two snapshots, entity by entity, with both images; the change feed is made of such differences.

In: two snapshots of one graph, on any branches. Out: batches of changes, made while they are taken, so that a large
difference needs no more memory than a small one. It costs by what changed. A commit that only moved files is empty.
Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.changes import changed_between
from omnigraph.graph.equality import same_states
from omnigraph.graph.images import Entity, Image, Mask, locate, pieces, read_image
from omnigraph.graph.records import TableId, TableRecord
from omnigraph.graph.snapshot import Snapshot
from omnigraph.storage.dataset import Dataset, open_dataset
from omnigraph.storage.row_changes import Texts, every_id


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
    before: Image
    after: Image

    def kinds(self) -> list[ChangeKind]:
        """What happened to each."""
        pairs = zip(self.before.present, self.after.present, strict=True)
        return [
            (ChangeKind.UPDATED if there else ChangeKind.INSERTED) if now else ChangeKind.DELETED
            for there, now in pairs
        ]


def diff_snapshots(before: Snapshot, after: Snapshot) -> Iterator[ChangeBatch]:
    """Every entity that differs; types in the order of the newer schema, those that it dropped last."""
    old, new = _by_id(before), _by_id(after)
    for table in [*new, *(one for one in old if one not in new)]:
        pair = (old.get(table), new.get(table))
        yield from _diff_table(before, pair)


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
    place = snapshot.root.child(table.path)

    def at(side: _Found) -> Dataset | None:
        if side is None:
            return None
        pin = side[1].pin
        return open_dataset(place, branch=pin.branch, version=pin.version)

    if old is not None and new is not None and old[1].pin == new[1].pin:
        return
    left, right = at(old), at(new)
    if old is not None and new is not None:
        ids = changed_between(place, old[1].pin, new[1].pin)
    else:
        only = left or right
        assert only is not None
        ids = every_id(only)
    ordered: Any = pc.sort_indices(ids)
    ids = ids.take(ordered)
    places = locate(left, entity, ids), locate(right, entity, ids)
    for start, rows in pieces(entity, len(ids)):
        images = [
            read_image(side, entity, where.slice(start, rows))
            for side, where in zip((left, right), places, strict=True)
        ]
        differs: Mask = ~same_states(images[0], images[1])
        if differs.any():
            mask: Any = pa.array(differs)
            some: Texts = ids.slice(start, rows).filter(mask)
            yield ChangeBatch(entity, some, _only(images[0], differs), _only(images[1], differs))


def _only(image: Image, which: Mask) -> Image:
    mask: Any = pa.array(which)
    return Image(image.rows.filter(mask), image.present[which], np.zeros(int(which.sum()), np.bool_))
