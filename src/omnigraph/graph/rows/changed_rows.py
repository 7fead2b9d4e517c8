"""Find the rows of a table that may differ between two pins, and their locations, at the cost of the change.

In: a table and two pins of it, on any Lance branches. Out: a `VersionComparison`: ids that include every row that
differs, and the locations of rows on both sides. Tables are not scanned: a row that a side did not change is where it
was in the version that both sides come from. If that version was deleted, every id is a candidate and rows are
located by id. For merge, diff, the feed and revert. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.manifest.records import Pin
from omnigraph.graph.manifest.snapshot import open_pin
from omnigraph.graph.rows.entity_rows import Mask, RowLocations, locate
from omnigraph.storage.lance.dataset import ADDRESS, IDENTITY, BranchVersion, Dataset, Texts
from omnigraph.storage.lance.read import NO_TEXTS, Numbers, locate_rows, read_all_ids
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


def is_near(location: Location, left: Pin, right: Pin, rows: int) -> bool:
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
    parting = find_common_ancestor(
        location, BranchVersion(left.branch, left.version), BranchVersion(right.branch, right.version)
    )
    return None if parting is None else open_if_exists(location, parting)


@dataclass(frozen=True, slots=True, eq=False)
class _ChangedSide:
    """One side, and the changes between the version that both sides come from and this one."""

    dataset: Dataset
    changes: RowChanges


def _locate_rows(here: _ChangedSide, other: RowChanges, ids: Texts, on_other: RowLocations | None) -> RowLocations:
    """Return the locations of rows on this side. `on_other` has their locations on the other side.

    `on_other` is needed for rows that neither side changed. A row that was written here is where it was written, and a
    row that was removed here has no location. Any other row is where it was in the common version: where the other side
    replaced or deleted it, or where the other side still has it.
    """
    locations = _LocationBuilder.empty(len(ids))
    written, removed = _indexes_in(ids, here.changes.written), _indexes_in(ids, here.changes.removed)
    before = _indexes_in(ids, other.removed)
    locations.put(written, here.changes.written)
    unchanged = ~(written >= 0) & ~(removed >= 0)
    locations.put(np.where(unchanged, before, -1), other.removed)
    moved = unchanged & (before >= 0) & ~here.changes.is_in_place(locations.addresses)
    if on_other is not None:
        same = unchanged & (before < 0) & (_indexes_in(ids, other.written) < 0) & on_other.present
        locations.copy(same, on_other)
        unmoved = here.changes.is_in_place(locations.addresses) & other.is_in_place(locations.addresses)
        moved |= same & ~unmoved
    if moved.any():
        # A row that moved here is in a new fragment; one that moved there was in a fragment that was rewritten there.
        fragments = (*here.changes.fresh, *sorted(here.changes.same - other.same))
        locations.look_up(here.dataset, ids, moved, fragments)
    return RowLocations(ids, locations.present, locations.identities, locations.addresses)


@dataclass(slots=True)
class _LocationBuilder:
    """Row locations while they are collected."""

    present: Mask
    identities: Numbers
    addresses: Numbers

    @classmethod
    def empty(cls, size: int) -> _LocationBuilder:
        return cls(np.zeros(size, np.bool_), np.zeros(size, np.uint64), np.zeros(size, np.uint64))

    def put(self, indexes: np.ndarray[Any, np.dtype[np.int64]], rows: pa.Table) -> None:
        """Set the locations of `rows`; `indexes` has the row number for each id, or -1."""
        which = indexes >= 0
        self.present |= which
        self.identities[which] = rows.column(IDENTITY).to_numpy()[indexes[which]]
        self.addresses[which] = rows.column(ADDRESS).to_numpy()[indexes[which]]

    def copy(self, which: Mask, other: RowLocations) -> None:
        self.present |= which
        self.identities[which] = other.identities[which]
        self.addresses[which] = other.addresses[which]

    def look_up(self, dataset: Dataset, ids: Texts, which: Mask, fragments: Sequence[int]) -> None:
        """Locate rows that only moved, as in a compaction: by id, in the fragments where they can be."""
        moved_ids: Any = ids.filter(pa.array(which))
        rows = locate_rows(dataset, moved_ids, fragments)
        assert rows.num_rows == len(moved_ids), "a row that neither side changed still exists"
        self.put(np.where(which, _indexes_in(ids, rows), -1), rows)


def _indexes_in(ids: Texts, rows: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return for each id the number of its row, or -1."""
    indexes: Any = pc.index_in(ids, value_set=rows.column("id").combine_chunks())
    answer: np.ndarray[Any, np.dtype[np.int64]] = indexes.fill_null(-1).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return answer
