"""What was done for one table and is not committed yet, and whether it still fits the table. Pure but for the names.

In: rewritten groups, built index segments, and the table as it is now. Out: what of it was lost because somebody else
changed a fragment meanwhile. A rewritten group is lost by any change of one of its fragments, so that no deleted row
comes back; an index only when the values under it moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph.graph.stage import WritableTable
from omnigraph.maintenance.index_outcome import IndexRow
from omnigraph.maintenance.index_plan import IndexWork, still_fits
from omnigraph.maintenance.rewrite_plan import Replaced, indexes_after, split_segments
from omnigraph.storage.compaction import Rewritten
from omnigraph.storage.coverage import IndexDescription
from omnigraph.storage.fragments import Fragment, data_files
from omnigraph.storage.indexes import IndexSegment, IndexSpec


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """One index that is built and not yet committed, and the fragments as they were then."""

    work: IndexWork
    segments: tuple[IndexSegment, ...]
    fragments: Mapping[int, Fragment]
    row: IndexRow

    @property
    def uuids(self) -> frozenset[str]:
        """What Lance knows its segments by."""
        return frozenset(str(segment.native.uuid) for segment in self.segments)


@dataclass(slots=True)
class TableWork:
    """The work on one table, kept over attempts as long as it fits. `dropped` are segments that go before a rewrite."""

    target: WritableTable
    strip: bool = False
    groups: tuple[Rewritten, ...] = ()
    dropped: frozenset[str] = frozenset()
    built: dict[IndexSpec, BuiltIndex] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.strip or self.groups or self.built)

    def keep_fitting(
        self, fragments: Mapping[int, Fragment], present: Sequence[IndexDescription]
    ) -> tuple[int, list[IndexSpec]]:
        """Forget what does not fit the table as it is now; how many groups, and which indexes, that were."""
        groups = tuple(group for group in self.groups if is_unchanged(group, fragments))
        lost = len(self.groups) - len(groups)
        split = split_segments(present, tuple(group.old_ids for group in groups))
        if not split <= self.dropped:  # an index was built over a part of a group meanwhile
            lost, groups = lost + len(groups), ()
        self.groups = groups
        self.dropped = split
        replaced = replaced_by(groups)
        after, indexes = fragments_after(fragments, groups), indexes_after(present, replaced, split)
        unfit = [
            spec
            for spec, one in self.built.items()
            if not still_fits(one.work, one.fragments, after, indexes)
        ]
        for spec in unfit:
            del self.built[spec]
        return lost, unfit


def is_unchanged(group: Rewritten, now: Mapping[int, Fragment]) -> bool:
    """Whether every fragment of a group is as it was, and the numbers of the new ones are still free."""
    same = all(old.id in now and now[old.id].native == old for old in group.old)
    return same and all(number > max(now) for number in group.new_ids)


def is_in_place(group: Rewritten, now: Mapping[int, Fragment]) -> bool:
    """Whether a group has taken the place of its fragments."""
    there = all(new.id in now and now[new.id].files == data_files(new) for new in group.new)
    return there and now.keys().isdisjoint(group.old_ids)


def replaced_by(groups: Sequence[Rewritten]) -> tuple[Replaced, ...]:
    """The numbers alone."""
    return tuple(Replaced(group.old_ids, group.new_ids) for group in groups)


def fragments_after(now: Mapping[int, Fragment], groups: Sequence[Rewritten]) -> Mapping[int, Fragment]:
    """The fragments when the groups are in place."""
    gone = {number for group in groups for number in group.old_ids}
    after = {number: fragment for number, fragment in now.items() if number not in gone}
    for group in groups:
        for new in group.new:
            size = sum(file.file_size_bytes or 0 for file in new.files)
            after[new.id] = Fragment(new.num_rows, data_files(new), 0, size, native=new)
    return after
