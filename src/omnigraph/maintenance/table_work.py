"""What was done for one table and is not committed yet, and whether it still fits the table.

In: rewritten groups, built index segments, and the table as it is now. Out: the same work for that version, and what of
it was lost because another writer changed more than rows. Rows that were deleted or updated since are deleted from the
rewritten groups as well, so none comes back (`concurrent_changes`); an index leaves them to Lance, which masks them.
Reads the table, writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.base import limits
from omnigraph.graph.stage import Stage, WritableTable
from omnigraph.maintenance.concurrent_changes import ChangeReads, rebase_group
from omnigraph.maintenance.index_outcome import IndexRow
from omnigraph.maintenance.index_plan import IndexWork, still_fits
from omnigraph.maintenance.rewrite_plan import Replaced, indexed_numbers, indexes_after, split_segments
from omnigraph.schema.indexable import IndexKind
from omnigraph.storage.compaction import Positions, Rewritten
from omnigraph.storage.coverage import IndexDescription, read_indexes
from omnigraph.storage.dataset import Dataset
from omnigraph.storage.fragments import Fragment, data_files, read_fragment_files
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
    """The work on one table, kept over attempts as long as it fits. `dropped` are segments that go before a rewrite.

    `emptied` are fragments that no longer exist because other writers deleted or moved each of their rows.
    """

    target: WritableTable
    strip: bool = False
    groups: tuple[Rewritten, ...] = ()
    dropped: frozenset[str] = frozenset()
    built: dict[IndexSpec, BuiltIndex] = field(default_factory=dict)
    emptied: frozenset[int] = frozenset()
    reads: ChangeReads = field(default_factory=ChangeReads)

    @property
    def is_empty(self) -> bool:
        return not (self.strip or self.groups or self.built)

    def add_group(self, group: Rewritten, first_id: int) -> None:
        """Add a rewritten group; its fragments are numbered from `first_id` on, above those of the groups before."""
        assigned = [fragment.id for other in self.groups for fragment in other.written]
        self.groups = (*self.groups, group.numbered(max([first_id, *(number + 1 for number in assigned)])))

    def can_move_to(self, at: Stage, schema_hash: str) -> bool:
        """Whether files written for this table can be committed to it there: same schema, same Lance branch."""
        table = at.snapshot.tables.get(self.target.table.alias)
        return (
            table is not None
            and at.snapshot.schema.hash == schema_hash
            and self.target.forked_from is None
            and (table.owner, table.pin.branch) == (at.snapshot.branch.id, self.target.dataset.branch)
        )

    def look_ahead(self, target: WritableTable) -> None:
        """Read what `move_to` will need for a newer version, without the lease; nothing else happens."""
        replace(self, built=dict(self.built)).move_to(target)

    def move_to(self, target: WritableTable) -> tuple[int, list[IndexSpec]]:
        """Make the work fit a newer version of the table; how many groups, and which indexes, were lost."""
        dataset, after = target.dataset, self.target.dataset.version
        fragments, present = read_fragment_files(dataset), read_indexes(dataset)
        self._find_emptied(dataset, fragments, after)
        self.target = target

        def read_live(source: Any, is_now: bool) -> Positions:
            if is_now:
                return self.reads.live_offsets(fragments[source.id].native, lambda: dataset)
            return self.reads.live_offsets(source, lambda: dataset.at(read_versions[source.id]))

        read_versions = {source.id: group.read_version for group in self.groups for source in group.sources}
        highest = max((*fragments, *indexed_numbers(present)), default=-1)
        rebased = (
            rebase_group(group, fragments, self.emptied, read_live)
            for group in self.groups
            if all(fragment.id > highest for fragment in group.written)  # otherwise the numbers are taken
        )
        groups = tuple(group for group in rebased if group is not None)
        lost = len(self.groups) - len(groups)
        split = split_segments(present, tuple(group.old_ids for group in groups))
        if not split <= self.dropped:  # another writer built an index over a part of a group
            lost, groups, split = lost + len(groups), (), frozenset()
        self.groups = groups
        self.dropped = split | _still_dropped(self.dropped, present, groups)
        now, indexes = (
            fragments_after(fragments, groups),
            indexes_after(present, replaced_by(groups), self.dropped),
        )
        unfit = [
            spec
            for spec, built in self.built.items()
            if not still_fits(built.work, built.fragments, now, indexes, self.emptied)
        ]
        for spec in unfit:
            del self.built[spec]
        return lost, unfit

    def _find_emptied(self, dataset: Dataset, now: Mapping[int, Fragment], after: int) -> None:
        """Tell fragments that lost every row from those that were replaced, by what the versions in between did."""
        sources = {source.id for group in self.groups for source in group.sources}
        written = {fragment.id for group in self.groups for fragment in group.written}
        indexed = {number for built in self.built.values() for number in built.fragments}
        missing = (sources | (indexed - written)) - now.keys() - self.emptied
        if missing and self.reads.only_rows_changed(dataset, after):
            self.emptied |= missing


def _still_dropped(
    dropped: frozenset[str], present: Sequence[IndexDescription], groups: Sequence[Rewritten]
) -> frozenset[str]:
    """The segments that were to be dropped for what is left of the groups; indexes were built without them."""
    old_ids = {number for group in groups for number in group.old_ids}
    return frozenset(
        part.uuid
        for index in present
        if index.kind is not IndexKind.BTREE
        for part in index.parts
        if part.uuid in dropped and not part.fragment_ids.isdisjoint(old_ids)
    )


def number_gap(attempts_lost: int) -> int:
    """How many fragments others may add before the numbers of rewritten ones are taken: more in each attempt."""
    return int(limits.COMPACTION_NUMBER_GAP * limits.COMPACTION_NUMBER_GAP_FACTOR**attempts_lost)


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
            live = group.live_rows(new)
            after[new.id] = Fragment(live, data_files(new), new.physical_rows - live, size, native=new)
    return after
