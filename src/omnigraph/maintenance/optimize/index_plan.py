"""Which indexes of which tables have to be built over which fragments. Pure.

In: per table its fragments, its indexes and the declared ones. Out: one `IndexWork` per declared index, with the
fragments to index or the reason why there are none, and the work cut into segments of bounded rows. A missing index is
built, one that does not cover all fragments is extended, and one with too many segments, with many deleted rows or with
other parameters is rebuilt, since every query reads all segments. Small tables get their indexes too: a declared index
is built as soon as the table has a row, but a vector index only above the size up to which queries read all vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from omnigraph.base import limits
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance import indexes
from omnigraph.storage.lance.fragments import Fragment, group_fragments


class IndexStatus(StrEnum):
    """What happened to a declared index."""

    BUILT = "built"
    """It is new."""
    EXTENDED = "extended"
    """It was extended over rows that it did not cover."""
    REBUILT = "rebuilt"
    """It was built again over every row and replaces the old one."""
    COMPLETE = "complete"
    """It covers every row already."""
    SKIPPED = "skipped"
    """It could not be built; `reason` says why."""


@dataclass(frozen=True, slots=True)
class DeclaredIndex:
    """An index that the schema declares. `row_bytes` is the size of a value if that is large and fixed, else 0."""

    spec: indexes.IndexSpec
    row_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TableIndexes:
    """A table for the planner. `rows` are the live rows of each fragment by its number; `updated` are the fragments
    with rows that an update moved there.
    """

    rows: Mapping[int, int]
    declared: tuple[DeclaredIndex, ...]
    present: tuple[indexes.IndexDescription, ...]
    updated: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWork:
    """The work for one declared index. `fragment_ids` are the fragments to index; empty: there is nothing to build.

    `reason`: why the index cannot be built or is not needed.
    """

    declared: DeclaredIndex
    status: IndexStatus
    fragment_ids: tuple[int, ...] = ()
    reason: str = ""

    @property
    def spec(self) -> indexes.IndexSpec:
        return self.declared.spec


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """One segment: how to build it, its fragments, and their number of rows."""

    plan: indexes.IndexPlan
    fragment_ids: tuple[int, ...]
    rows: int


def plan_indexes(table: TableIndexes, rows_per_task: int) -> tuple[IndexWork, ...]:
    """Return one entry per declared index, in their order."""
    return tuple(_plan_index(table, declared, rows_per_task) for declared in table.declared)


def rebuild(work: IndexWork, rows: Mapping[int, int]) -> IndexWork:
    """Return the same index over every fragment; it replaces the existing one."""
    return replace(work, status=IndexStatus.REBUILT, fragment_ids=tuple(sorted(rows)))


def cut_segments(
    work: IndexWork, plan: indexes.IndexPlan, rows: Mapping[int, int], rows_per_task: int
) -> tuple[SegmentPlan, ...]:
    """Return the plan's fragments in groups of bounded rows; a larger fragment is a group by itself."""
    planned_rows = {number: rows[number] for number in plan.fragment_ids}
    groups = group_fragments(planned_rows, _rows_max(work.declared, rows_per_task))
    return tuple(SegmentPlan(plan, group, sum(rows[number] for number in group)) for group in groups)


def group_segments(segments: Sequence[SegmentPlan]) -> tuple[tuple[SegmentPlan, ...], ...]:
    """Return the segments of one table in their order, small ones together, so that a small table is one task."""
    groups: list[list[SegmentPlan]] = []
    group_rows = 0
    for segment in segments:
        if not groups or group_rows + segment.rows > limits.INDEX_SMALL_SEGMENT_ROWS:
            groups.append([])
            group_rows = 0
        groups[-1].append(segment)
        group_rows += segment.rows
    return tuple(tuple(group) for group in groups)


def still_fits(
    work: IndexWork,
    indexed: Mapping[int, Fragment],
    current: Mapping[int, Fragment],
    present: Sequence[indexes.IndexDescription],
    emptied: Collection[int] = (),
) -> bool:
    """Whether an index over the fragments `indexed` may be committed to a table that changed since it was built.

    Each of them must have the same files in `current`; rows may have been deleted or moved to other fragments.
    `emptied` are fragments that lost every row that way; Lance never assigns their numbers again, so an index may name
    them. No other writer may have indexed the fragments, because Lance rejects segments that cover a part of an
    existing one; a rebuild covers all of it.
    """
    if any(
        number not in emptied if number not in current else current[number].files != fragment.files
        for number, fragment in indexed.items()
    ):
        return False
    same_name = (index for index in present if index.name == work.spec.name)
    covered = frozenset[int]().union(*(index.fragment_ids for index in same_name)) & current.keys()
    return covered <= indexed.keys() if work.status is IndexStatus.REBUILT else covered.isdisjoint(indexed)


def _plan_index(table: TableIndexes, declared: DeclaredIndex, rows_per_task: int) -> IndexWork:
    spec = declared.spec
    existing = next((index for index in table.present if index.name == spec.name), None)
    is_current = existing is None or existing.has_parameters(spec.text)
    if not table.rows:
        complete = isinstance(indexes.coverage_of(spec, table.present, table.rows), indexes.Indexed)
        status = IndexStatus.COMPLETE if complete else IndexStatus.SKIPPED
        return IndexWork(declared=declared, status=status, reason="" if complete else indexes.NO_ROWS)
    if spec.kind is IndexKind.VECTOR and (
        skip_reason := indexes.why_no_vector_index(sum(table.rows.values()), declared.row_bytes)
    ):
        return IndexWork(declared=declared, status=IndexStatus.SKIPPED, reason=skip_reason)
    has_deleted = existing is not None and _has_many_deleted(existing, table.rows)
    if (
        is_current
        and not has_deleted
        and isinstance(indexes.coverage_of(spec, table.present, table.rows), indexes.Indexed)
    ):
        return IndexWork(declared=declared, status=IndexStatus.COMPLETE)
    if existing is None:
        return IndexWork(declared=declared, status=IndexStatus.BUILT, fragment_ids=tuple(sorted(table.rows)))
    if (existing.column, existing.kind) != (spec.column, spec.kind):
        reason = f"the index name '{existing.name}' is used by the column '{existing.column}'"
        return IndexWork(declared=declared, status=IndexStatus.SKIPPED, reason=reason)
    uncovered = tuple(sorted(table.rows.keys() - existing.fragment_ids))
    work = IndexWork(declared=declared, status=IndexStatus.EXTENDED, fragment_ids=uncovered)
    # A text index identifies rows by row id. An updated row keeps its id, so an extended index would also return its
    # old words. Vectors are read again, so an extended vector index is correct.
    has_old_values = spec.kind is IndexKind.INVERTED and not table.updated.isdisjoint(uncovered)
    if not is_current or has_deleted or has_old_values or _is_scattered(work, existing, table, rows_per_task):
        return rebuild(work, table.rows)
    return work


def _has_many_deleted(index: indexes.IndexDescription, rows: Mapping[int, int]) -> bool:
    """Whether many entries of the index are of rows that were deleted or updated. Lance keeps them until a rebuild.

    Rows without a value have no entry, so in a column with many nulls the share must be larger.
    """
    live = sum(count for number, count in rows.items() if number in index.fragment_ids)
    return index.entries - live > limits.INDEX_DELETED_SHARE * index.entries


def _is_scattered(work: IndexWork, existing: indexes.IndexDescription, table: TableIndexes, rows_per_task: int) -> bool:
    """Whether extending would leave many more segments than a rebuild."""
    rows_max = _rows_max(work.declared, rows_per_task)
    uncovered = {number: table.rows[number] for number in work.fragment_ids}
    extended = existing.segments + len(group_fragments(uncovered, rows_max))
    rebuilt = len(group_fragments(dict(sorted(table.rows.items())), rows_max))
    return extended > max(limits.INDEX_SEGMENTS_MAX, 2 * rebuilt)


def _rows_max(declared: DeclaredIndex, rows_per_task: int) -> int:
    if declared.spec.kind is IndexKind.VECTOR and declared.row_bytes:
        return max(1, min(rows_per_task, limits.INDEX_BYTES_PER_TASK // declared.row_bytes))
    return rows_per_task
