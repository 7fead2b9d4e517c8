"""Which fragments of a table are rewritten together, what that does to its indexes, and the task that rewrites them.

In: fragments, indexes and bounds. Out: groups of fragments, each small enough for one task; the index segments to drop
before a group can be rewritten; and the indexes afterwards. Lance removes rewritten fragments from a BTREE; other kinds
identify rows by row id, so a segment that covered a whole group covers its replacement, and Lance rejects a group that
a segment covers in part. Such a segment is dropped if it is small and can be built again; a large one keeps its
fragments apart from the others. Planning is pure; the task writes data files that no version references.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from omnigraph.base import limits
from omnigraph.maintenance.optimize.task_result import TaskOutcome, isolated
from omnigraph.pipeline.runner import TaskSize, task
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.compaction import FragmentRewrite, rewrite_fragments
from omnigraph.storage.lance.dataset import DatasetVersion
from omnigraph.storage.lance.fragments import Fragment
from omnigraph.storage.lance.indexes import CommittedSegment, IndexDescription

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class RewriteBounds:
    """The maximum size of a rewritten fragment, and so of one task."""

    rows: int = limits.COMPACTION_ROWS
    size_bytes: int = limits.COMPACTION_FRAGMENT_BYTES


def plan_groups(
    fragments: Mapping[int, Fragment],
    present: Sequence[IndexDescription],
    declared: Collection[str],
    bounds: RewriteBounds,
) -> Groups:
    """Return groups of fragments to rewrite. No two groups fit into one, so a run on the result plans no group.

    `declared` are the names of the indexes that are built again.
    """
    whole_segments = _segments_to_keep_whole(fragments, present, declared)
    groups: dict[frozenset[str], list[_Group]] = {}
    for fragment_id, fragment in fragments.items():
        if not _is_candidate(fragment, bounds):
            continue
        candidates = groups.setdefault(whole_segments.get(fragment_id, frozenset()), [])
        group = next((group for group in candidates if group.has_space(fragment, bounds)), None)
        if group is None:
            group = _Group()
            candidates.append(group)
        group.add(fragment_id, fragment)
    useful = (group for candidates in groups.values() for group in candidates if group.is_useful())
    return tuple(sorted(tuple(group.fragment_ids) for group in useful))


def plan_rewrite_under_lease(
    fragments: Mapping[int, Fragment], present: Sequence[IndexDescription], bounds: RewriteBounds
) -> tuple[int, ...]:
    """Return the fragments that the last attempt merges while it holds the lease, smallest first; empty: none.

    It drops no index segment, because it does not build a replacement.
    """
    small = RewriteBounds(
        min(bounds.rows, limits.MAINTENANCE_LEASE_ROWS_MAX), min(bounds.size_bytes, limits.MAINTENANCE_LEASE_BYTES_MAX)
    )
    by_size = sorted(fragments.items(), key=lambda item: (item[1].rows, item[0]))
    groups = plan_groups(dict(by_size), present, (), small)
    return max((group for group in groups if len(group) > 1), key=len, default=())


def indexed_fragment_ids(present: Sequence[IndexDescription]) -> frozenset[int]:
    """Return the fragments that indexes cover. Some do not exist any more, but their ids must not be used again."""
    return frozenset[int]().union(*(index.fragment_ids for index in present))


def split_segments(present: Sequence[IndexDescription], groups: Groups) -> frozenset[str]:
    """Return the segments that cover a group in part, of the kinds for which Lance rejects that."""
    return frozenset(
        part.uuid
        for index in present
        if index.kind is not IndexKind.BTREE
        for part in index.parts
        for group in groups
        if 0 < len(part.fragment_ids.intersection(group)) < len(group)
    )


def indexes_after(
    present: Sequence[IndexDescription], replaced: Mapping[tuple[int, ...], Collection[int]], dropped: Collection[str]
) -> tuple[IndexDescription, ...]:
    """Return the indexes after the segments are dropped. `replaced` has the ids of new fragments by group."""
    after = []
    for index in present:
        parts = tuple(
            CommittedSegment(part.uuid, _covered_after(part, replaced, index.kind))
            for part in index.parts
            if part.uuid not in dropped
        )
        covered = frozenset[int]().union(*(part.fragment_ids for part in parts))
        if parts:
            after.append(replace(index, parts=parts, segments=len(parts), fragment_ids=covered))
    return tuple(after)


def _covered_after(
    part: CommittedSegment, replaced: Mapping[tuple[int, ...], Collection[int]], kind: IndexKind | None
) -> frozenset[int]:
    covered = part.fragment_ids
    for old_ids, new_ids in replaced.items():
        is_whole = kind is not IndexKind.BTREE and covered.issuperset(old_ids)
        covered = covered.difference(old_ids) | frozenset(new_ids if is_whole else ())
    return covered


def _segments_to_keep_whole(
    fragments: Mapping[int, Fragment], present: Sequence[IndexDescription], declared: Collection[str]
) -> Mapping[int, frozenset[str]]:
    """Return by fragment the segments not to divide: large ones, and those of indexes that are not declared."""
    uuids: dict[int, frozenset[str]] = {}
    for index in present:
        for part in index.parts if index.kind is not IndexKind.BTREE else ():
            covered = part.fragment_ids & fragments.keys()
            rows = sum(fragments[fragment_id].rows for fragment_id in covered)
            if rows > limits.INDEX_SMALL_SEGMENT_ROWS or index.name not in declared:
                for fragment_id in covered:
                    uuids[fragment_id] = uuids.get(fragment_id, frozenset()) | {part.uuid}
    return uuids


def _is_candidate(fragment: Fragment, bounds: RewriteBounds) -> bool:
    is_small = fragment.rows < bounds.rows and fragment.size_bytes < bounds.size_bytes / 2
    return is_small or _deleted_share(fragment) > limits.COMPACTION_DELETED_SHARE


def _deleted_share(fragment: Fragment) -> float:
    return fragment.deleted_rows / max(1, fragment.rows + fragment.deleted_rows)


@dataclass(slots=True)
class _Group:
    """A group of fragments while it grows."""

    fragment_ids: list[int] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0
    deleted_share: float = 0.0

    def has_space(self, fragment: Fragment, bounds: RewriteBounds) -> bool:
        rows, size_bytes = self.rows + fragment.rows, self.size_bytes + fragment.size_bytes
        return rows <= bounds.rows and size_bytes <= bounds.size_bytes

    def add(self, fragment_id: int, fragment: Fragment) -> None:
        self.fragment_ids.append(fragment_id)
        self.rows += fragment.rows
        self.size_bytes += fragment.size_bytes
        self.deleted_share = max(self.deleted_share, _deleted_share(fragment))

    def is_useful(self) -> bool:
        return len(self.fragment_ids) > 1 or self.deleted_share > limits.COMPACTION_DELETED_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """One group of one table, its number of rows and its size."""

    table: DatasetVersion
    fragment_ids: tuple[int, ...]
    rows: int
    size_bytes: int
    rows_per_fragment: int


def rewritten_size(rewritten: TaskOutcome[FragmentRewrite]) -> TaskSize:
    """Return what a finished rewrite adds to the progress."""
    new = rewritten.result.new if isinstance(rewritten.result, FragmentRewrite) else ()
    return TaskSize(rows=sum(fragment.num_rows for fragment in new))


@task("rewrite fragments", rewritten_size, input_bytes=attrgetter("size_bytes"))
@isolated
def rewrite_group(task: RewriteTask) -> FragmentRewrite:
    """Write the rows of the group into new fragments."""
    return rewrite_fragments(task.table.open(), task.fragment_ids, task.rows_per_fragment)
