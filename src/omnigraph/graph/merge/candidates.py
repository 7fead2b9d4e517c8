"""The rows of a table that a merge has to look at, and where they lie on each side.

In: a table on our side, the pins of theirs and of the base. Out: `Candidates`: the ids of rows that may differ between
the base and theirs, since what they did not change cannot change ours; and images of them on any side. The places of
rows come from what changed between the pins, so that no table is looked through; only where that would read more, or
where a base is made of several, rows are looked up by id. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.graph.manifest.records import Pin, TableRecord
from omnigraph.graph.manifest.snapshot import open_pin
from omnigraph.graph.merge.bases import Base, CommitBase, JoinedBase, base_commits
from omnigraph.graph.merge.conflicts import Side
from omnigraph.graph.merge.decide import join_bases
from omnigraph.graph.rows.changed_rows import VersionComparison, compare_pins, is_near, union
from omnigraph.graph.rows.entity_rows import EntityRows, Located, filled, locate, read_image
from omnigraph.schema.catalog import Entity
from omnigraph.storage.lance.dataset import Dataset, Texts
from omnigraph.storage.lance.read import NO_TEXTS, read_all_ids
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True, eq=False)
class TableSides:
    """One table and where its sides are. `choices` are those for this table, by id; `also` are more rows to look at."""

    root: Location
    entity: Entity
    table: TableRecord
    theirs: Pin
    base: Base
    choices: Mapping[str, Side] = field(default_factory=dict)
    also: Texts = field(default_factory=lambda: NO_TEXTS)

    @property
    def location(self) -> Location:
        return self.root.child(self.table.path)

    def base_pins(self) -> list[Pin | None]:
        return [one.pins.get(self.table.id) for one in base_commits(self.base)]

    def open(self, pin: Pin) -> Dataset:
        return open_pin(self.location, pin)


@dataclass(slots=True, eq=False)
class Candidates:
    """Some rows of a table by their ids, on all of its sides. A side is looked at when somebody first asks."""

    sides: TableSides
    ids: Texts
    opened: dict[Pin, tuple[Dataset, Located]] = field(default_factory=dict)

    def image(self, pin: Pin | None, start: int, rows: int) -> EntityRows:
        """What a slice of the rows is at a pin; without one the table is not there."""
        if pin is None:
            nowhere = locate(None, self.sides.entity, self.ids.slice(start, rows))
            return read_image(None, self.sides.entity, nowhere)
        located = self.located(pin)
        return read_image(self.opened[pin][0], self.sides.entity, located.slice(start, rows))

    def base_image(self, start: int, rows: int) -> EntityRows:
        """What a slice of the rows is in the base."""
        return self._joined(self.sides.base, start, rows)

    def located(self, pin: Pin) -> Located:
        """Where the rows lie at a pin."""
        if pin not in self.opened:
            dataset = self.sides.open(pin)
            self.opened[pin] = dataset, locate(dataset, self.sides.entity, self.ids)
        return self.opened[pin][1]

    def put(self, pin: Pin, dataset: Dataset, located: Located) -> None:
        self.opened[pin] = dataset, filled(dataset, self.sides.entity, located)

    def _joined(self, base: Base, start: int, rows: int) -> EntityRows:
        match base:
            case CommitBase(pins=pins):
                return self.image(pins.get(self.sides.table.id), start, rows)
            case JoinedBase(below, left, right):
                images = (self._joined(one, start, rows) for one in (below, left, right))
                return join_bases(*images)
            case _:
                assert_never(base)


def find_candidates(sides: TableSides) -> Candidates:
    """Every row that they may have changed, and those that somebody chose a side for."""
    chosen = union(pa.array(sorted(sides.choices), pa.utf8()), sides.also)
    compared: list[VersionComparison] = []
    ids: list[Texts] = [chosen]
    for pin in sides.base_pins():
        if pin is None:
            ids.append(read_all_ids(sides.open(sides.theirs)))
        elif pin != sides.theirs:
            compared.append(compare_pins(sides.location, pin, sides.theirs))
            ids.append(compared[-1].ids())
    found = Candidates(sides, union(*ids))
    (base, *others) = sides.base_pins()
    is_within = len(compared) == 1 and pc.all(pc.is_in(chosen, value_set=ids[-1]), min_count=0).as_py()
    if base is not None and not others and is_within:
        _place(found, base, compared[0])
    return found


def _place(found: Candidates, base: Pin, compared: VersionComparison) -> None:
    """The places on all three sides, from what lies between the base and theirs and between the base and ours."""
    sides, ids = found.sides, found.ids
    on_base = compared.locate_left(ids)
    found.put(base, compared.left, on_base)
    found.put(sides.theirs, compared.right, compared.locate_right(ids))
    ours = sides.table.pin
    rows = max(sides.table.row_count // 2, limits.LOOKUP_FILTER_VALUES_MAX)
    if ours not in found.opened and is_near(sides.location, base, ours, rows):
        side = compare_pins(sides.location, base, ours)
        found.put(ours, side.right, side.locate_right(ids, on_base))
