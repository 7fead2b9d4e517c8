"""Which fragments of a table are rewritten together, and what that does to its indexes. Pure.

In: fragments, indexes and bounds. Out: groups of fragments, each small enough for one task; the segments of indexes
that have to go before a group can be rewritten; and the indexes as Lance describes them afterwards. Lance drops
rewritten fragments from a BTREE; other kinds know rows by identity, so a segment that covered a whole group covers what
takes its place, and Lance refuses a group that a segment covers in part. Such a segment is dropped when it is small and
cheap to build again; one that is large keeps its fragments apart from the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.base import limits
from omnigraph.maintenance.optimize.task_result import TaskOutcome, isolated
from omnigraph.pipeline.runner import TaskSize, task
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.compaction import FragmentRewrite, rewrite_fragments
from omnigraph.storage.lance.dataset import DatasetVersion
from omnigraph.storage.lance.fragments import Fragment
from omnigraph.storage.lance.indexes import IndexDescription, IndexPart

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class RewriteBounds:
    """How large a rewritten fragment gets, which is what one task takes on."""

    rows: int = limits.COMPACTION_ROWS
    size_bytes: int = limits.COMPACTION_FRAGMENT_BYTES


@dataclass(frozen=True, slots=True)
class Replaced:
    """The numbers of some fragments and of those that take their place."""

    old_ids: tuple[int, ...]
    new_ids: tuple[int, ...]


def plan_groups(
    fragments: Mapping[int, Fragment],
    present: Sequence[IndexDescription],
    declared: Collection[str],
    bounds: RewriteBounds,
) -> Groups:
    """Fragments that are worth rewriting as one. No two groups fit into one, so a run over the result finds none.

    `declared` are the names of the indexes that would be built again.
    """
    heavy = _heavy_segments(fragments, present, declared)
    groups: dict[frozenset[str], list[_Group]] = {}
    for number, fragment in fragments.items():
        if not _is_candidate(fragment, bounds):
            continue
        alike = groups.setdefault(heavy.get(number, frozenset()), [])
        group = next((group for group in alike if group.takes(fragment, bounds)), None)
        if group is None:
            group = _Group()
            alike.append(group)
        group.add(number, fragment)
    found = (group for alike in groups.values() for group in alike if group.is_worth_it())
    return tuple(sorted(tuple(group.numbers) for group in found))


def plan_lease_part(
    fragments: Mapping[int, Fragment], present: Sequence[IndexDescription], bounds: RewriteBounds
) -> tuple[int, ...]:
    """Return the fragments that the last attempt merges while it holds the lease, smallest first; empty: none.

    It drops no segment of an index, because none is built in its place.
    """
    small = RewriteBounds(
        min(bounds.rows, limits.MAINTENANCE_LEASE_ROWS_MAX),
        min(bounds.size_bytes, limits.MAINTENANCE_LEASE_BYTES_MAX),
    )
    by_size = sorted(fragments.items(), key=lambda item: (item[1].rows, item[0]))
    groups = plan_groups(dict(by_size), present, (), small)
    return max((group for group in groups if len(group) > 1), key=len, default=())


def indexed_numbers(present: Sequence[IndexDescription]) -> frozenset[int]:
    """Return the numbers that indexes cover. They include fragments that do not exist any more: never reuse them."""
    return frozenset[int]().union(*(index.fragment_ids for index in present))


def split_segments(present: Sequence[IndexDescription], groups: Groups) -> frozenset[str]:
    """The segments that cover some fragments of a group and not others, of the kinds for which Lance refuses that."""
    return frozenset(
        part.uuid
        for index in present
        if index.kind is not IndexKind.BTREE
        for part in index.parts
        for group in groups
        if 0 < len(part.fragment_ids.intersection(group)) < len(group)
    )


def indexes_after(
    present: Sequence[IndexDescription], replaced: Sequence[Replaced], dropped: Collection[str]
) -> tuple[IndexDescription, ...]:
    """The indexes when the segments are dropped and the groups are in place."""
    after = []
    for index in present:
        parts = tuple(
            IndexPart(part.uuid, _covered_after(part, replaced, index.kind))
            for part in index.parts
            if part.uuid not in dropped
        )
        covered = frozenset[int]().union(*(part.fragment_ids for part in parts))
        if parts:
            after.append(replace(index, parts=parts, segments=len(parts), fragment_ids=covered))
    return tuple(after)


def _covered_after(part: IndexPart, replaced: Sequence[Replaced], kind: IndexKind | None) -> frozenset[int]:
    covered = part.fragment_ids
    for group in replaced:
        whole = kind is not IndexKind.BTREE and covered.issuperset(group.old_ids)
        covered = covered.difference(group.old_ids) | frozenset(group.new_ids if whole else ())
    return covered


def _heavy_segments(
    fragments: Mapping[int, Fragment], present: Sequence[IndexDescription], declared: Collection[str]
) -> Mapping[int, frozenset[str]]:
    """Per fragment, the segments that must stay whole: the large ones, and those that nobody would build again."""
    found: dict[int, frozenset[str]] = {}
    for index in present:
        for part in index.parts if index.kind is not IndexKind.BTREE else ():
            covered = part.fragment_ids & fragments.keys()
            rows = sum(fragments[number].rows for number in covered)
            if rows > limits.INDEX_PACKED_ROWS or index.name not in declared:
                for number in covered:
                    found[number] = found.get(number, frozenset()) | {part.uuid}
    return found


def _is_candidate(fragment: Fragment, bounds: RewriteBounds) -> bool:
    small = fragment.rows < bounds.rows and fragment.size_bytes < bounds.size_bytes / 2
    return small or _deleted_share(fragment) > limits.COMPACTION_DELETED_SHARE


def _deleted_share(fragment: Fragment) -> float:
    return fragment.deleted_rows / max(1, fragment.rows + fragment.deleted_rows)


@dataclass(slots=True)
class _Group:
    """Fragments so far."""

    numbers: list[int] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0
    deleted_share: float = 0.0

    def takes(self, fragment: Fragment, bounds: RewriteBounds) -> bool:
        rows, size_bytes = self.rows + fragment.rows, self.size_bytes + fragment.size_bytes
        return rows <= bounds.rows and size_bytes <= bounds.size_bytes

    def add(self, number: int, fragment: Fragment) -> None:
        self.numbers.append(number)
        self.rows += fragment.rows
        self.size_bytes += fragment.size_bytes
        self.deleted_share = max(self.deleted_share, _deleted_share(fragment))

    def is_worth_it(self) -> bool:
        return len(self.numbers) > 1 or self.deleted_share > limits.COMPACTION_DELETED_SHARE


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """One group of one table, and how many rows it has."""

    table: DatasetVersion
    fragment_ids: tuple[int, ...]
    rows: int
    rows_per_fragment: int


def rewritten_size(rewritten: TaskOutcome[FragmentRewrite]) -> TaskSize:
    """Return what a finished rewrite adds to the progress."""
    new = rewritten.result.new if isinstance(rewritten.result, FragmentRewrite) else ()
    return TaskSize(rows=sum(fragment.num_rows for fragment in new))


@task("rewrite fragments", rewritten_size)
def rewrite_group(task: RewriteTask) -> TaskOutcome[FragmentRewrite]:
    """Write the rows of the group anew."""
    return isolated(lambda: rewrite_fragments(task.table.open(), task.fragment_ids, task.rows_per_fragment))
