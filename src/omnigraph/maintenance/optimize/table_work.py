"""The work on one table that is done but not committed yet, and how it follows changes of other writers.

In: rewritten groups, built index segments, and the table as it is now. Out: the same work for that version of the
table, and what was lost because another writer changed more than rows. Rows that were deleted or updated since are
deleted from the rewritten groups as well (`concurrent_changes`); in indexes Lance masks them. Reads the table. Only
`rewrite_under_lease` writes, and only data files that no version references.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.base import limits
from omnigraph.graph.manifest.records import Pin
from omnigraph.graph.write.multi_commit import TableMaintenance
from omnigraph.graph.write.stage import StagingArea, WritableTable
from omnigraph.maintenance.optimize import rewrite
from omnigraph.maintenance.optimize.concurrent_changes import ChangeReads, rebase_group
from omnigraph.maintenance.optimize.index_plan import still_fits
from omnigraph.maintenance.optimize.indexes import IndexBuild
from omnigraph.maintenance.optimize.tables import TableView, reread_view
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.commit import has_auto_cleanup
from omnigraph.storage.lance.compaction import FragmentRewrite, Positions, rewrite_fragments
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.fragments import Fragment, data_files, describe_fragments
from omnigraph.storage.lance.indexes import IndexDescription, IndexSpec, read_indexes


@dataclass(slots=True, kw_only=True)
class TableWork:
    """The work on one table. It is used again in later attempts as long as it fits the table.

    `strip`: remove settings for automatic cleanup. `dropped` are index segments to remove before the rewrite. `emptied`
    are fragments that no longer exist because other writers deleted or moved each of their rows.
    """

    target: WritableTable
    strip: bool = False
    groups: tuple[FragmentRewrite, ...] = ()
    dropped: frozenset[str] = frozenset()
    built: dict[IndexSpec, IndexBuild] = field(default_factory=dict)
    emptied: frozenset[int] = frozenset()
    reads: ChangeReads = field(default_factory=ChangeReads)

    @property
    def is_empty(self) -> bool:
        return not (self.strip or self.groups or self.built)

    @property
    def changes(self) -> TableMaintenance:
        """The work as the write path commits it."""
        segments = {spec: index.segments for spec, index in self.built.items()}
        dropped = self.dropped if self.groups else frozenset[str]()
        return TableMaintenance(self.strip, dropped, self.groups, segments)

    def add_group(self, group: FragmentRewrite, first_id: int) -> None:
        """Add a rewritten group. Its fragments get numbers from `first_id` on, above those of earlier groups."""
        assigned = [fragment.id for other in self.groups for fragment in other.written]
        self.groups = (*self.groups, group.numbered(max([first_id, *(fragment_id + 1 for fragment_id in assigned)])))

    def can_move_to(self, area: StagingArea, schema_hash: str) -> bool:
        """Whether the files can be committed to the table of that snapshot: same schema, same Lance branch."""
        table = area.snapshot.tables.get(self.target.table.alias)
        return (
            table is not None
            and area.snapshot.schema.hash == schema_hash
            and self.target.forked_from is None
            and (table.owner, table.pin.branch) == (area.snapshot.branch.id, self.target.dataset.branch)
        )

    def prefetch_changes(self, target: WritableTable) -> None:
        """Read what `move_to` will need for a newer version, without the lease. Changes nothing else."""
        replace(self, built=dict(self.built)).move_to(target)

    def move_to(self, target: WritableTable) -> tuple[int, list[IndexSpec]]:
        """Change the work so that it can be committed to a newer version of the table.

        Returns:
            How many groups were lost, and which indexes.
        """
        dataset, after = target.dataset, self.target.dataset.version
        fragments, present = describe_fragments(dataset), read_indexes(dataset)
        self._find_emptied(dataset, fragments, after)
        self.target = target

        def read_live(source: Any, is_now: bool) -> Positions:
            if is_now:
                return self.reads.live_offsets(fragments[source.id].native, lambda: dataset)
            return self.reads.live_offsets(source, lambda: dataset.at_version(read_versions[source.id]))

        read_versions = {source.id: group.read_version for group in self.groups for source in group.sources}
        highest = max((*fragments, *rewrite.indexed_fragment_ids(present)), default=-1)
        rebased = (
            rebase_group(group, fragments, self.emptied, read_live)
            for group in self.groups
            if all(fragment.id > highest for fragment in group.written)  # otherwise the numbers are in use
        )
        groups = tuple(group for group in rebased if group is not None)
        lost_groups = len(self.groups) - len(groups)
        split = rewrite.split_segments(present, tuple(group.old_ids for group in groups))
        if not split <= self.dropped:  # another writer built an index over a part of a group
            lost_groups, groups, split = lost_groups + len(groups), (), frozenset()
        self.groups = groups
        self.dropped = split | _still_dropped(self.dropped, present, groups)
        replaced = {group.old_ids: group.new_ids for group in groups}
        current, indexes = fragments_after(fragments, groups), rewrite.indexes_after(present, replaced, self.dropped)
        unusable = [
            spec
            for spec, index in self.built.items()
            if not still_fits(index.work, index.fragments, current, indexes, self.emptied)
        ]
        self._remove_indexes(unusable)
        return lost_groups, unusable

    def remove_unpublished(self, pin: Pin | None) -> list[IndexSpec] | None:
        """Remove the work that the published version lacks; without a pin nothing was published.

        Returns:
            The lost indexes, empty if only groups or the strip are lost; None if the version has everything.
        """
        if pin is None:
            lost_indexes = list(self.built)
            self.groups, self.strip, self.built = (), False, {}
            return lost_indexes
        table = self.target.dataset.at_version(pin.version)
        fragments = describe_fragments(table)
        segments = frozenset(part.uuid for index in read_indexes(table) for part in index.parts)
        has_settings = has_auto_cleanup(table)
        groups = tuple(group for group in self.groups if _is_in_place(group, fragments))
        lost_indexes = [
            spec
            for spec, index in self.built.items()
            if not segments.issuperset(str(segment.native.uuid) for segment in index.segments)
        ]
        is_whole = len(groups) == len(self.groups) and not lost_indexes and not (self.strip and has_settings)
        self.groups, self.strip = groups, self.strip and not has_settings
        self._remove_indexes(lost_indexes)
        return None if is_whole else lost_indexes

    def _remove_indexes(self, specs: Sequence[IndexSpec]) -> None:
        for spec in specs:
            del self.built[spec]

    def _find_emptied(self, dataset: Dataset, current: Mapping[int, Fragment], after: int) -> None:
        """Separate fragments that lost every row from replaced ones, by the operations of the versions since."""
        sources = {source.id for group in self.groups for source in group.sources}
        written = {fragment.id for group in self.groups for fragment in group.written}
        indexed = {fragment_id for index in self.built.values() for fragment_id in index.fragments}
        missing = (sources | (indexed - written)) - current.keys() - self.emptied
        if missing and self.reads.only_rows_changed(dataset, after):
            self.emptied |= missing


def rewrite_under_lease(
    area: StagingArea, work: TableWork | None, view: TableView, bounds: rewrite.RewriteBounds
) -> TableWork | None:
    """Return the work with one more group; unchanged if there is nothing to merge within the limits.

    A table that this branch does not own is skipped, because it would have to be forked first.
    """
    table = area.snapshot.tables.get(view.alias)
    if table is None or table.owner != area.snapshot.branch.id:
        return work
    extended = work or TableWork(target=area.open_for_write(view.alias))
    current = reread_view(view, extended.target.dataset)
    used_ids = {fragment_id for group in extended.groups for fragment_id in group.old_ids}
    used_ids.update(fragment_id for index in extended.built.values() for fragment_id in index.fragments)
    unused = {
        fragment_id: fragment for fragment_id, fragment in current.fragments.items() if fragment_id not in used_ids
    }
    group = rewrite.plan_rewrite_under_lease(unused, current.present, bounds)
    if not group:
        return work
    used_ids.update(extended.emptied, view.fragments, current.fragments, rewrite.indexed_fragment_ids(current.present))
    rewritten = rewrite_fragments(extended.target.dataset, group, bounds.rows)
    extended.add_group(rewritten, max(used_ids) + limits.COMPACTION_NUMBER_GAP)
    return extended


def fragments_after(fragments: Mapping[int, Fragment], groups: Sequence[FragmentRewrite]) -> Mapping[int, Fragment]:
    """Return the fragments that the table has once the groups are committed."""
    replaced = {fragment_id for group in groups for fragment_id in group.old_ids}
    after = {fragment_id: fragment for fragment_id, fragment in fragments.items() if fragment_id not in replaced}
    for group in groups:
        for new in group.new:
            size = sum(file.file_size_bytes or 0 for file in new.files)
            live = group.live_rows(new)
            after[new.id] = Fragment(
                rows=live, files=data_files(new), deleted_rows=new.physical_rows - live, size_bytes=size, native=new
            )
    return after


def _is_in_place(group: FragmentRewrite, fragments: Mapping[int, Fragment]) -> bool:
    """Whether the group has replaced its fragments."""
    is_present = all(new.id in fragments and fragments[new.id].files == data_files(new) for new in group.new)
    return is_present and fragments.keys().isdisjoint(group.old_ids)


def _still_dropped(
    dropped: frozenset[str], present: Sequence[IndexDescription], groups: Sequence[FragmentRewrite]
) -> frozenset[str]:
    """Return the dropped segments that cover a remaining group; indexes were built without them."""
    old_ids = {fragment_id for group in groups for fragment_id in group.old_ids}
    return frozenset(
        part.uuid
        for index in present
        if index.kind is not IndexKind.BTREE
        for part in index.parts
        if part.uuid in dropped and not part.fragment_ids.isdisjoint(old_ids)
    )
