"""What other writers did to the fragments of a rewritten group since they were read, and whether the group survives.

In: a group, the table's fragments now, and the rows that its sources had then and have now. Out: the group with the
positions of the rows that were deleted since, or None if it is lost. An update moves a row to another fragment, so for
its old fragment it is a delete. A group is lost to changes that replace fragments or their columns: another compaction,
an overwrite, a schema change. The decisions are pure; `ChangeReads` reads what they need and caches it, so that little
is left to read under the lease (decision 0018).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, assert_never

import numpy as np

from omnigraph.storage.lance.compaction import FragmentRewrite, Positions
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.fragments import Fragment, has_same_data, read_live_offsets
from omnigraph.storage.lance.transactions import Operation, TransactionRecord, read_operation

ROW_OPERATIONS: Final = frozenset(
    {
        Operation.APPEND,
        Operation.DELETE,
        Operation.UPDATE,
        Operation.CREATE_INDEX,
        Operation.UPDATE_CONFIG,
        Operation.RESERVE_FRAGMENTS,
    }
)
"""The operations that remove a fragment only if no row is left in it."""


class SourceChange(Enum):
    """How a fragment that was rewritten has changed in the table."""

    SAME = "same"
    ROWS_DELETED = "rows deleted"
    EMPTIED = "emptied"
    """It no longer exists: each of its rows was deleted, or updated and thereby moved."""
    REPLACED = "replaced"
    """It no longer exists, or has other data: what was written from it cannot be used."""


ReadLive = Callable[[Any, bool], Positions]
"""Returns the offsets of the live rows of a source: as it was read (False), or as it is now (True)."""


def classify_source(source: Any, current: Fragment | None, emptied: Collection[int]) -> SourceChange:
    """Return how one source has changed. `emptied` are the missing fragments that lost every row."""
    if current is None:
        return SourceChange.EMPTIED if source.id in emptied else SourceChange.REPLACED
    if current.native == source:
        return SourceChange.SAME
    return SourceChange.ROWS_DELETED if has_same_data(source, current.native) else SourceChange.REPLACED


def rebase_group(
    group: FragmentRewrite, current: Mapping[int, Fragment], emptied: Collection[int], read_live: ReadLive
) -> FragmentRewrite | None:
    """Return the group so that it can be committed to the current fragments of the table; None if it is lost.

    It is also lost if no source is left, and if a row that was deleted when the group was read exists again.
    """
    emptied_sources = set[int]()
    lost_rows: list[Positions] = []
    first = 0
    for source in group.sources:
        live_rows = int(source.num_rows)
        change = classify_source(source, current.get(source.id), emptied)
        match change:
            case SourceChange.REPLACED:
                return None
            case SourceChange.EMPTIED:
                emptied_sources.add(source.id)
                lost_rows.append(np.arange(first, first + live_rows, dtype=np.uint32))
            case SourceChange.ROWS_DELETED:
                positions = deleted_positions(read_live(source, False), read_live(source, True))
                if positions is None:
                    return None
                lost_rows.append(positions + np.uint32(first))
            case SourceChange.SAME:
                pass
            case _:
                assert_never(change)
        first += live_rows
    if len(emptied_sources) == len(group.sources):
        return None
    rows = [int(fragment.physical_rows) for fragment in group.written]
    parts = split_positions(np.concatenate([*lost_rows, np.empty(0, np.uint32)]).astype(np.uint32), rows)
    deleted = {fragment.id: part for fragment, part in zip(group.written, parts, strict=True) if len(part) > 0}
    # Deletion files of an earlier version may lack rows; they are written again.
    written = tuple(replace(fragment, deletion_file=None) for fragment in group.written)
    return replace(group, written=written, emptied=frozenset(emptied_sources), deleted=deleted)


def deleted_positions(before: Positions, after: Positions) -> Positions | None:
    """Return the positions, among the rows that were live before, of those that are not live after.

    Both are ascending offsets of rows in one fragment. None if a row is live after and was not live before.
    """
    is_live = np.isin(before, after, assume_unique=True)
    if int(is_live.sum()) != len(after):
        return None
    return np.flatnonzero(~is_live).astype(np.uint32)


def split_positions(positions: Positions, rows: Sequence[int]) -> tuple[Positions, ...]:
    """Return positions in a sequence of rows as positions in its consecutive parts; `rows` are their lengths."""
    starts = np.cumsum([0, *rows])
    cuts = np.searchsorted(positions, starts)
    return tuple(
        (positions[cuts[part] : cuts[part + 1]] - np.uint32(starts[part])).astype(np.uint32)
        for part in range(len(rows))
    )


@dataclass(frozen=True, slots=True)
class ChangeReads:
    """Cached reads of one table on one Lance branch. Versions and deletion files never change."""

    _live: dict[tuple[int, str], Positions] = field(default_factory=dict)
    _operations: dict[int, Operation | None] = field(default_factory=dict)

    def only_rows_changed(self, dataset: Dataset, after: int) -> bool:
        """Whether each version above `after` changed rows or added metadata; False also when one cannot be read."""
        versions = range(after + 1, dataset.version + 1)
        return all(self._operation(dataset, version) in ROW_OPERATIONS for version in versions)

    def live_offsets(self, source: Any, open_version: Callable[[], Dataset]) -> Positions:
        """Return the offsets of the live rows of a fragment, as its description says."""
        if source.deletion_file is None:
            return np.arange(int(source.physical_rows), dtype=np.uint32)
        key = (int(source.id), str(source.deletion_file.path(source.id)))
        if key not in self._live:
            self._live[key] = read_live_offsets(open_version(), int(source.id))
        return self._live[key]

    def _operation(self, dataset: Dataset, version: int) -> Operation | None:
        if version not in self._operations:
            record = read_operation(dataset, version)
            self._operations[version] = record.operation if isinstance(record, TransactionRecord) else None
        return self._operations[version]
