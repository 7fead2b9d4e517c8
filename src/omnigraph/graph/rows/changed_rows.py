"""Which rows of a table may differ between two pins, and where they lie, at the cost of the change.

In: a table and two pins of it, on any Lance branches. Out: a `VersionComparison`: ids that contain every row that
differs, and the places of rows on both sides, found without looking through the table: a row that a side did not
touch is where it was when the sides parted. When the version at which two Lance branches parted is gone, every id is
a candidate and places are looked up by id. For merge, diff, the feed and revert. Nothing here writes.
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
from omnigraph.graph.rows.entity_rows import Located, Mask, locate
from omnigraph.storage.lance.dataset import ADDRESS, IDENTITY, Dataset, Texts
from omnigraph.storage.lance.read import NO_TEXTS, Numbers, locate_rows, read_all_ids
from omnigraph.storage.lance.row_changes import (
    BranchVersion,
    RowChanges,
    find_common_ancestor,
    open_if_exists,
    row_changes,
    written_rows_max,
)
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True, eq=False)
class VersionComparison:
    """Two versions of a table. Without changes the version at which they parted is gone, or does not matter."""

    left: Dataset
    right: Dataset
    changes: tuple[RowChanges, RowChanges] | None

    def ids(self) -> Texts:
        """Every row that may differ, once."""
        if self.changes is None:
            return union(read_all_ids(self.left), read_all_ids(self.right))
        return union(*(side.ids() for side in self.changes))

    def locate_left(self, ids: Texts) -> Located:
        """Where rows out of `ids()` lie on the left."""
        if self.changes is None:
            return locate(self.left, None, ids)
        left, right = self.changes
        return _place(_Line(self.left, left), right, ids, None)

    def locate_right(self, ids: Texts, on_left: Located | None = None) -> Located:
        """Where rows lie on the right: those out of `ids()`, or any if it is known where they lie on the left."""
        if self.changes is None:
            return locate(self.right, None, ids)
        left, right = self.changes
        return _place(_Line(self.right, right), left, ids, on_left)


def compare_pins(location: Location, left: Pin, right: Pin, *, whole: bool = False) -> VersionComparison:
    """What differs between two pins of the table at `location`. `whole`: any row may, whatever was written."""
    ancestor = None if whole else _parting(location, left, right)
    sides = [open_pin(location, pin) for pin in (left, right)]
    if ancestor is None:
        return VersionComparison(sides[0], sides[1], None)
    return VersionComparison(
        sides[0], sides[1], (row_changes(ancestor, sides[0]), row_changes(ancestor, sides[1]))
    )


def is_near(location: Location, left: Pin, right: Pin, rows: int) -> bool:
    """Whether comparing two pins reads fewer rows than that, by metadata alone."""
    ancestor = _parting(location, left, right)
    if ancestor is None:
        return False
    sides = (open_pin(location, pin) for pin in (left, right))
    return sum(written_rows_max(ancestor, side) for side in sides) < rows


def union(*columns: Texts) -> Texts:
    """Every text once."""
    joined: Texts = pa.concat_arrays([NO_TEXTS, *columns])
    distinct: Texts = pc.unique(joined)
    return distinct


def _parting(location: Location, left: Pin, right: Pin) -> Dataset | None:
    parting = find_common_ancestor(
        location, BranchVersion(left.branch, left.version), BranchVersion(right.branch, right.version)
    )
    return None if parting is None else open_if_exists(location, parting)


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """One side, and what was done on the way to it since the sides parted."""

    dataset: Dataset
    changes: RowChanges


def _place(here: _Line, other: RowChanges, ids: Texts, there: Located | None) -> Located:
    """Where rows lie here. `there` is where they lie on the other side, needed for those that neither side touched.

    What was written here lies where it was written, and what else is gone here is nowhere. The rest is as it was at the
    parting: where the other side replaced or deleted it, or where the other side still has it.
    """
    found = _Places.nowhere(len(ids))
    written, gone = _places_in(ids, here.changes.written), _places_in(ids, here.changes.removed)
    before = _places_in(ids, other.removed)
    found.put(written, here.changes.written)
    left_alone = ~(written >= 0) & ~(gone >= 0)
    found.put(np.where(left_alone, before, -1), other.removed)
    moved = left_alone & (before >= 0) & ~here.changes.is_in_place(found.addresses)
    if there is not None:
        same = left_alone & (before < 0) & (_places_in(ids, other.written) < 0) & there.present
        found.copy(same, there)
        stays = here.changes.is_in_place(found.addresses) & other.is_in_place(found.addresses)
        moved |= same & ~stays
    if moved.any():
        # Moved here, it lies in a fresh fragment; moved there, in one that was rewritten there.
        fragments = (*here.changes.fresh, *sorted(here.changes.same - other.same))
        found.look_up(here.dataset, ids, moved, fragments)
    return Located(ids, found.present, found.identities, found.addresses)


@dataclass(slots=True)
class _Places:
    """Places while they are found."""

    present: Mask
    identities: Numbers
    addresses: Numbers

    @classmethod
    def nowhere(cls, size: int) -> _Places:
        return cls(np.zeros(size, np.bool_), np.zeros(size, np.uint64), np.zeros(size, np.uint64))

    def put(self, at: np.ndarray[Any, np.dtype[np.int64]], rows: pa.Table) -> None:
        """The places of `rows`, where `at` has the number of one."""
        which = at >= 0
        self.present |= which
        self.identities[which] = rows.column(IDENTITY).to_numpy()[at[which]]
        self.addresses[which] = rows.column(ADDRESS).to_numpy()[at[which]]

    def copy(self, which: Mask, other: Located) -> None:
        self.present |= which
        self.identities[which] = other.identities[which]
        self.addresses[which] = other.addresses[which]

    def look_up(self, dataset: Dataset, ids: Texts, which: Mask, fragments: Sequence[int]) -> None:
        """Rows that only moved, as in a compaction: by id, in the fragments where they can be."""
        wanted: Any = ids.filter(pa.array(which))
        rows = locate_rows(dataset, wanted, fragments)
        assert rows.num_rows == len(wanted), "a row that was left alone is still there"
        self.put(np.where(which, _places_in(ids, rows), -1), rows)


def _places_in(ids: Texts, rows: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each id the number of its row, or -1."""
    at: Any = pc.index_in(ids, value_set=rows.column("id").combine_chunks())
    answer: np.ndarray[Any, np.dtype[np.int64]] = (
        at.fill_null(-1).cast(pa.int64()).to_numpy(zero_copy_only=False)
    )
    return answer
