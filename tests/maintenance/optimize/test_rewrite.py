"""Which fragments are rewritten together, as cases."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.base import limits
from omnigraph.maintenance.optimize.rewrite import (
    RewriteBounds,
    indexes_after,
    plan_groups,
    plan_rewrite_under_lease,
    split_segments,
)
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.fragments import Fragment
from omnigraph.storage.lance.indexes import CommittedSegment, IndexDescription

BOUNDS = RewriteBounds(rows=100, size_bytes=1_000)


def fragments(*rows: int, deleted: int = 0, size_bytes: int = 0) -> dict[int, Fragment]:
    return {
        number: Fragment(rows=count, files=(), deleted_rows=deleted, size_bytes=size_bytes)
        for number, count in enumerate(rows)
    }


def index(name: str, kind: IndexKind, *parts: set[int]) -> IndexDescription:
    index_parts = tuple(CommittedSegment(f"{name}-{position}", frozenset(part)) for position, part in enumerate(parts))
    covered = frozenset[int]().union(*parts)
    return IndexDescription(
        name=name,
        column="column",
        kind=kind,
        lance_type=kind.name,
        segments=len(parts),
        fragment_ids=covered,
        size_bytes=0,
        parts=index_parts,
    )


def test_small_fragments_are_grouped_up_to_the_bound() -> None:
    assert plan_groups(fragments(40, 40, 40), (), (), BOUNDS) == ((0, 1),)
    assert plan_groups(fragments(40, 40, 20), (), (), BOUNDS) == ((0, 1, 2),)
    assert plan_groups(fragments(40, 100, 40), (), (), BOUNDS) == ((0, 2),)


def test_full_and_single_fragments_are_kept() -> None:
    assert plan_groups(fragments(100, 200), (), (), BOUNDS) == ()
    assert plan_groups(fragments(40), (), (), BOUNDS) == ()
    assert plan_groups({}, (), (), BOUNDS) == ()


def test_fragment_with_many_deleted_rows_is_rewritten() -> None:
    assert plan_groups(fragments(100, deleted=20), (), (), BOUNDS) == ((0,),)
    assert plan_groups(fragments(100, deleted=5), (), (), BOUNDS) == ()


def test_last_attempt_merges_the_smallest_within_its_limits() -> None:
    rows_max, bytes_max = limits.MAINTENANCE_LEASE_ROWS_MAX, limits.MAINTENANCE_LEASE_BYTES_MAX
    wide = RewriteBounds()
    assert set(plan_rewrite_under_lease(fragments(rows_max // 2 + 1, 7, 5, 9), (), wide)) == {0, 1, 2, 3}
    assert set(plan_rewrite_under_lease(fragments(rows_max - 10, 7, 5, 9), (), wide)) == {1, 2, 3}
    assert plan_rewrite_under_lease(fragments(rows_max // 2 + 1, rows_max // 2), (), wide) == ()
    assert plan_rewrite_under_lease(fragments(5, 5, size_bytes=bytes_max // 2 + 1), (), wide) == ()
    assert plan_rewrite_under_lease(fragments(rows_max * 2, deleted=rows_max), (), wide) == ()
    assert set(plan_rewrite_under_lease(fragments(40, 40, 40), (), BOUNDS)) == {0, 1}


def test_last_attempt_splits_no_segment() -> None:
    words = index("words", IndexKind.INVERTED, {0, 1, 2})
    part = plan_rewrite_under_lease(fragments(9, 9, 9, 5, 5), (words,), RewriteBounds())
    assert set(part) == {0, 1, 2}
    assert split_segments((words,), (part,)) == frozenset()


def test_group_is_bounded_by_bytes() -> None:
    assert plan_groups(fragments(1, 1, 1, size_bytes=400), (), (), BOUNDS) == ((0, 1),)
    assert plan_groups(fragments(1, 1, size_bytes=600), (), (), BOUNDS) == ()


def test_small_segment_is_dropped_if_a_group_splits_it() -> None:
    words = index("words", IndexKind.INVERTED, {0, 1})
    groups = plan_groups(fragments(10, 10, 10), (words,), {"words"}, BOUNDS)
    assert groups == ((0, 1, 2),)
    assert split_segments((words,), groups) == {"words-0"}
    assert split_segments((words,), ((0, 1),)) == frozenset()


def test_large_and_undeclared_segments_are_kept_whole() -> None:
    wide = RewriteBounds(rows=10 * limits.INDEX_SMALL_SEGMENT_ROWS)
    large = fragments(limits.INDEX_SMALL_SEGMENT_ROWS, 10, 10, 10)
    words = index("words", IndexKind.INVERTED, {0, 1})
    assert plan_groups(large, (words,), {"words"}, wide) == ((0, 1), (2, 3))
    assert plan_groups(fragments(10, 10, 10, 10), (words,), (), wide) == ((0, 1), (2, 3))


def test_btree_does_not_limit_groups() -> None:
    ids = index("ids", IndexKind.BTREE, {0})
    assert plan_groups(fragments(10, 10), (ids,), (), BOUNDS) == ((0, 1),)
    assert split_segments((ids,), ((0, 1),)) == frozenset()


def test_index_coverage_afterwards() -> None:
    ids, words = index("ids", IndexKind.BTREE, {0, 1, 2}), index("words", IndexKind.INVERTED, {0, 1, 2}, {3})
    after = indexes_after((ids, words), {(0, 1): (9,)}, {"words-1"})
    assert [description.fragment_ids for description in after] == [{2}, {2, 9}]
    assert [description.segments for description in after] == [1, 1]
    assert indexes_after((words,), {}, {"words-0", "words-1"}) == ()


@given(st.lists(st.integers(1, 120), max_size=30))
def test_second_run_plans_no_group(rows: list[int]) -> None:
    table = fragments(*rows)
    groups = plan_groups(table, (), (), BOUNDS)
    assert all(sum(table[number].rows for number in group) <= BOUNDS.rows for group in groups)
    rewritten = {number for group in groups for number in group}
    left = [table[number].rows for number in table if number not in rewritten]
    merged = [sum(table[number].rows for number in group) for group in groups]
    assert plan_groups(fragments(*left, *merged), (), (), BOUNDS) == ()
