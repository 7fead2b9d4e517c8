"""Find the rows of a table that a merge must compare, and their locations on each side.

In: a table on our side, the pins of theirs and of the base. Out: `Candidates`: the ids of rows that may differ
between the base and theirs (rows that they did not change cannot change ours), and these rows on any side. The
locations come from what changed between the pins, so that no table is scanned. Only if that would read more, or if a
base has several commits, rows are located by id. Nothing here writes.
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
from omnigraph.graph.rows.changed_rows import VersionComparison, compare_pins, distinct_texts, is_cheap_to_compare
from omnigraph.graph.rows.entity_rows import EntityRows, RowLocations, locate, read_entity_rows, with_rows
from omnigraph.schema.catalog import Entity
from omnigraph.storage.lance.dataset import Dataset, Texts
from omnigraph.storage.lance.read import NO_TEXTS, read_all_ids
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TableSides:
    """One table and its sides. `choices` are the chosen sides of its rows, by id.

    `extra_ids` are further rows to compare.
    """

    root: Location
    entity: Entity
    table: TableRecord
    theirs: Pin
    base: Base
    choices: Mapping[str, Side] = field(default_factory=dict)
    extra_ids: Texts = field(default_factory=lambda: NO_TEXTS)

    @property
    def location(self) -> Location:
        return self.root.child(self.table.path)

    def base_pins(self) -> list[Pin | None]:
        return [commit.pins.get(self.table.id) for commit in base_commits(self.base)]

    def open(self, pin: Pin) -> Dataset:
        return open_pin(self.location, pin)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Some rows of a table by their ids, on all of its sides. A side is read when it is needed first."""

    sides: TableSides
    ids: Texts
    opened: dict[Pin, tuple[Dataset, RowLocations]] = field(default_factory=dict)

    def rows_at(self, pin: Pin | None, start: int, rows: int) -> EntityRows:
        """Return a range of the rows at a pin; without a pin the table does not exist there."""
        if pin is None:
            return read_entity_rows(None, self.sides.entity, RowLocations.absent(self.ids.slice(start, rows)))
        located = self.locate(pin)
        return read_entity_rows(self.opened[pin][0], self.sides.entity, located.slice(start, rows))

    def base_rows(self, start: int, rows: int) -> EntityRows:
        """Return a range of the rows in the base."""
        return self._join_rows(self.sides.base, start, rows)

    def locate(self, pin: Pin) -> RowLocations:
        """Return the locations of the rows at a pin."""
        if pin not in self.opened:
            dataset = self.sides.open(pin)
            self.opened[pin] = dataset, locate(dataset, self.sides.entity, self.ids)
        return self.opened[pin][1]

    def set_location(self, pin: Pin, dataset: Dataset, located: RowLocations) -> None:
        """Set the locations of the rows at a pin."""
        self.opened[pin] = dataset, with_rows(dataset, self.sides.entity, located)

    def _join_rows(self, base: Base, start: int, rows: int) -> EntityRows:
        match base:
            case CommitBase(pins=pins):
                return self.rows_at(pins.get(self.sides.table.id), start, rows)
            case JoinedBase(common, left, right):
                parts = (self._join_rows(part, start, rows) for part in (common, left, right))
                return join_bases(*parts)
            case _:
                assert_never(base)


def find_candidates(sides: TableSides) -> Candidates:
    """Return every row that they may have changed, and the rows for which a side was chosen."""
    chosen = distinct_texts(pa.array(sorted(sides.choices), pa.utf8()), sides.extra_ids)
    compared: list[VersionComparison] = []
    ids: list[Texts] = [chosen]
    for pin in sides.base_pins():
        if pin is None:
            ids.append(read_all_ids(sides.open(sides.theirs)))
        elif pin != sides.theirs:
            compared.append(compare_pins(sides.location, pin, sides.theirs))
            ids.append(compared[-1].ids())
    candidates = Candidates(sides, distinct_texts(*ids))
    (base, *others) = sides.base_pins()
    is_within = len(compared) == 1 and pc.all(pc.is_in(chosen, value_set=ids[-1]), min_count=0).as_py()
    if base is not None and not others and is_within:
        _locate_all(candidates, base, compared[0])
    return candidates


def _locate_all(candidates: Candidates, base: Pin, compared: VersionComparison) -> None:
    """Set the locations on all three sides, from the changes from the base to theirs and from the base to ours."""
    sides, ids = candidates.sides, candidates.ids
    on_base = compared.locate_left(ids)
    candidates.set_location(base, compared.left, on_base)
    candidates.set_location(sides.theirs, compared.right, compared.locate_right(ids))
    ours = sides.table.pin
    rows = max(sides.table.row_count // 2, limits.LOOKUP_FILTER_VALUES_MAX)
    if ours not in candidates.opened and is_cheap_to_compare(sides.location, base, ours, rows):
        side = compare_pins(sides.location, base, ours)
        candidates.set_location(ours, side.right, side.locate_right(ids, on_base))
