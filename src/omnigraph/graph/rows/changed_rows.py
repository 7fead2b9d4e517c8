"""Find the rows of a table that may differ between two pins, and their locations, at the cost of the change.

In: a table and two pins of it, on any Lance branches. Out: a `VersionComparison`: ids that include every row that
differs, and the locations of rows on both sides. Tables are not scanned: a row that a side did not change is where it
was in the version that both sides come from. If that version was deleted, every id is a candidate and rows are
located by id. For merge, diff, the feed and revert. Nothing here writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.manifest.records import Pin
from omnigraph.graph.manifest.snapshot import open_pin
from omnigraph.graph.rows.entity_rows import RowLocations, indexes_in, locate
from omnigraph.storage.lance.dataset import BranchVersion, Dataset, Texts
from omnigraph.storage.lance.read import NO_TEXTS, locate_rows, read_all_ids
from omnigraph.storage.lance.row_changes import (
    RowChanges,
    find_common_ancestor,
    open_if_exists,
    row_changes,
    written_rows_max,
)
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True, eq=False)
class VersionComparison:
    """Two versions of a table.

    `changes` is None if the version that both come from was deleted, or if any row may differ.
    """

    left: Dataset
    right: Dataset
    changes: tuple[RowChanges, RowChanges] | None

    def ids(self) -> Texts:
        """Return every row that may differ, once."""
        if self.changes is None:
            return distinct_texts(read_all_ids(self.left), read_all_ids(self.right))
        return distinct_texts(*(side.ids() for side in self.changes))

    def locate_left(self, ids: Texts) -> RowLocations:
        """Return the locations on the left of rows of `ids()`."""
        if self.changes is None:
            return locate(self.left, None, ids)
        left, right = self.changes
        return _locate_rows(_ChangedSide(self.left, left), right, ids, None)

    def locate_right(self, ids: Texts, on_left: RowLocations | None = None) -> RowLocations:
        """Return the locations on the right of rows of `ids()`, or of any rows with known locations on the left."""
        if self.changes is None:
            return locate(self.right, None, ids)
        left, right = self.changes
        return _locate_rows(_ChangedSide(self.right, right), left, ids, on_left)


def compare_pins(location: Location, left: Pin, right: Pin, *, whole: bool = False) -> VersionComparison:
    """Compare two pins of the table at `location`. `whole`: any row may differ, whatever was written."""
    ancestor = None if whole else _open_common_version(location, left, right)
    sides = [open_pin(location, pin) for pin in (left, right)]
    if ancestor is None:
        return VersionComparison(sides[0], sides[1], None)
    return VersionComparison(sides[0], sides[1], (row_changes(ancestor, sides[0]), row_changes(ancestor, sides[1])))


def is_cheap_to_compare(location: Location, left: Pin, right: Pin, rows: int) -> bool:
    """Return whether comparing two pins reads fewer rows than `rows`, by metadata alone."""
    ancestor = _open_common_version(location, left, right)
    if ancestor is None:
        return False
    sides = (open_pin(location, pin) for pin in (left, right))
    return sum(written_rows_max(ancestor, side) for side in sides) < rows


def distinct_texts(*columns: Texts) -> Texts:
    """Return every text once."""
    joined: Texts = pa.concat_arrays([NO_TEXTS, *columns])
    distinct: Texts = pc.unique(joined)
    return distinct


def _open_common_version(location: Location, left: Pin, right: Pin) -> Dataset | None:
    ancestor = find_common_ancestor(
        location, BranchVersion(left.branch, left.version), BranchVersion(right.branch, right.version)
    )
    return None if ancestor is None else open_if_exists(location, ancestor)


@dataclass(frozen=True, slots=True, eq=False)
class _ChangedSide:
    """One side, and the changes between the version that both sides come from and this one."""

    dataset: Dataset
    changes: RowChanges


def _locate_rows(side: _ChangedSide, other: RowChanges, ids: Texts, on_other: RowLocations | None) -> RowLocations:
    """Return the locations of rows on this side. `on_other` has their locations on the other side.

    `on_other` is needed for rows that neither side changed. A row that was written here is where it was written, and a
    row that was removed here has no location. Any other row is where it was in the common version: where the other side
    replaced or deleted it, or where the other side still has it.
    """
    locations = RowLocations.absent(ids)
    written, removed = indexes_in(ids, side.changes.written), indexes_in(ids, side.changes.removed)
    before = indexes_in(ids, other.removed)
    locations.put(written, side.changes.written)
    unchanged = (written < 0) & (removed < 0)
    locations.put(np.where(unchanged, before, -1), other.removed)
    moved = unchanged & (before >= 0) & ~side.changes.is_in_place(locations.addresses)
    if on_other is not None:
        same = unchanged & (before < 0) & (indexes_in(ids, other.written) < 0) & on_other.present
        locations.present[same] = True
        locations.identities[same] = on_other.identities[same]
        locations.addresses[same] = on_other.addresses[same]
        unmoved = side.changes.is_in_place(locations.addresses) & other.is_in_place(locations.addresses)
        moved |= same & ~unmoved
    if moved.any():
        # Rows that only moved, as in a compaction, are located by id, in the fragments where they can be. A row that
        # moved here is in a new fragment; one that moved there was in a fragment that was rewritten there.
        fragments = (*side.changes.new_fragments, *sorted(side.changes.same_fragments - other.same_fragments))
        moved_ids: Any = ids.filter(pa.array(moved))
        rows = locate_rows(side.dataset, moved_ids, fragments)
        assert rows.num_rows == len(moved_ids), "a row that neither side changed still exists"
        locations.put(np.where(moved, indexes_in(ids, rows), -1), rows)
    return locations
