"""Which indexes are built over which fragments: the pure decisions as a table of cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from omnigraph.base import limits
from omnigraph.maintenance.optimize.index_plan import (
    DeclaredIndex,
    IndexStatus,
    IndexWork,
    SegmentPlan,
    TableIndexes,
    cut_segments,
    group_segments,
    plan_indexes,
    rebuild,
    still_fits,
)
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.fragments import Fragment
from omnigraph.storage.lance.indexes import NO_ROWS, IndexDescription, IndexPlan, IndexSpec

SPEC = IndexSpec("id", IndexKind.BTREE)
DECLARED = DeclaredIndex(SPEC)
ROWS = {0: 10, 1: 20, 4: 30}


def _present(*fragments: int, segments: int = 1, **other: str | IndexKind | None) -> IndexDescription:
    name, column = str(other.get("name", SPEC.name)), str(other.get("column", "id"))
    kind = other.get("kind", IndexKind.BTREE)
    assert not isinstance(kind, str)
    return IndexDescription(
        name=name,
        column=column,
        kind=kind,
        lance_type="BTree",
        segments=segments,
        fragment_ids=frozenset(fragments),
        size_bytes=0,
    )


def _work(status: IndexStatus, *fragments: int, reason: str = "") -> IndexWork:
    return IndexWork(declared=DECLARED, status=status, fragment_ids=fragments, reason=reason)


def _built(*fragments: int) -> IndexWork:
    return _work(IndexStatus.BUILT, *fragments)


def _more(status: IndexStatus, *fragments: int) -> IndexWork:
    return _work(status, *fragments)


COMPLETE = _work(IndexStatus.COMPLETE)
TAKEN = _work(IndexStatus.SKIPPED, reason="the index name 'id_btree' is used by the column 'age'")
CASES: dict[str, tuple[Mapping[int, int], tuple[IndexDescription, ...], IndexWork]] = {
    "missing": (ROWS, (), _built(0, 1, 4)),
    "one row is enough": ({7: 1}, (), _built(7)),
    "complete": (ROWS, (_present(0, 1, 4),), COMPLETE),
    "complete, with a fragment that no longer exists": (ROWS, (_present(0, 1, 2, 4),), COMPLETE),
    "complete under another name": (ROWS, (_present(0, 1, 4, name="external"),), COMPLETE),
    "partial": (ROWS, (_present(0),), _more(IndexStatus.EXTENDED, 1, 4)),
    "partial under another name": (ROWS, (_present(0, name="external"),), _built(0, 1, 4)),
    "another kind of the same column": (
        ROWS,
        (_present(0, 1, 4, name="id_inverted", kind=IndexKind.INVERTED),),
        _built(0, 1, 4),
    ),
    "the name is another column's": (ROWS, (_present(0, 1, 4, column="age"),), TAKEN),
    "no rows": ({}, (), _work(IndexStatus.SKIPPED, reason=NO_ROWS)),
    "no rows any more": ({}, (_present(0),), COMPLETE),
    "segments just few enough": (
        ROWS,
        (_present(0, segments=limits.INDEX_SEGMENTS_MAX - 1),),
        _more(IndexStatus.EXTENDED, 1, 4),
    ),
    "too many segments": (
        ROWS,
        (_present(0, segments=limits.INDEX_SEGMENTS_MAX),),
        _more(IndexStatus.REBUILT, 0, 1, 4),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_decision(name: str) -> None:
    rows, present, expected = CASES[name]
    assert plan_indexes(TableIndexes(rows, (DECLARED,), present), 1_000) == (expected,)


def test_large_table_with_necessary_segments_is_not_rebuilt() -> None:
    rows = dict.fromkeys(range(limits.INDEX_SEGMENTS_MAX + 5), 10)
    covered = _present(*range(limits.INDEX_SEGMENTS_MAX + 4), segments=limits.INDEX_SEGMENTS_MAX + 4)
    table = TableIndexes(rows, (DECLARED,), (covered,))
    assert plan_indexes(table, 10) == (_more(IndexStatus.EXTENDED, limits.INDEX_SEGMENTS_MAX + 4),)


@pytest.mark.parametrize(
    ("kind", "updated", "status"),
    [
        (IndexKind.INVERTED, {4}, IndexStatus.REBUILT),
        (IndexKind.VECTOR, {4}, IndexStatus.EXTENDED),
        (IndexKind.INVERTED, {1}, IndexStatus.EXTENDED),
        (IndexKind.BTREE, {4}, IndexStatus.EXTENDED),
    ],
)
def test_text_indexes_are_rebuilt_over_updated_rows(kind: IndexKind, updated: set[int], status: IndexStatus) -> None:
    spec = IndexSpec("name", kind)
    covered = _present(0, 1, name=spec.name, column="name", kind=kind)
    table = TableIndexes(ROWS, (DeclaredIndex(spec, 32),), (covered,), frozenset(updated))
    assert [entry.status for entry in plan_indexes(table, 1_000)] == [status]


@pytest.mark.parametrize("kind", [IndexKind.INVERTED, IndexKind.VECTOR])
@pytest.mark.parametrize(
    ("fragments", "entries", "status"),
    [
        ((0, 1, 4), 0, IndexStatus.COMPLETE),  # not counted
        ((0, 1, 4), 30, IndexStatus.COMPLETE),  # half of the rows have a value
        ((0, 1, 4), 60, IndexStatus.COMPLETE),
        ((0, 1, 4), 85, IndexStatus.COMPLETE),  # 29 %
        ((0, 1, 4), 86, IndexStatus.REBUILT),
        ((0, 1), 42, IndexStatus.EXTENDED),  # uncovered rows are not in the index
        ((0, 1), 43, IndexStatus.REBUILT),
        ((0, 1, 2, 4), 86, IndexStatus.REBUILT),  # with a fragment that no longer exists
    ],
)
def test_indexes_with_many_deleted_rows_are_rebuilt(
    kind: IndexKind, fragments: tuple[int, ...], entries: int, status: IndexStatus
) -> None:
    spec = IndexSpec("name", kind)
    present = replace(_present(*fragments, name=spec.name, column="name", kind=kind), entries=entries)
    table = TableIndexes(ROWS, (DeclaredIndex(spec, 32),), (present,))
    assert [entry.status for entry in plan_indexes(table, limits.INDEX_ROWS_PER_TASK)] == [status]


def test_one_entry_per_declared_index_in_order() -> None:
    specs = [SPEC, IndexSpec("name", IndexKind.INVERTED), IndexSpec("name", IndexKind.BTREE)]
    table = TableIndexes(ROWS, tuple(map(DeclaredIndex, specs)), (_present(0, 1, 4),))
    planned = plan_indexes(table, 1_000)
    assert [entry.spec for entry in planned] == specs
    assert [entry.status for entry in planned] == [IndexStatus.COMPLETE, IndexStatus.BUILT, IndexStatus.BUILT]


@pytest.mark.parametrize(
    ("rows_per_task", "groups"),
    [
        (1_000, [((0, 1, 4), 60)]),
        (60, [((0, 1, 4), 60)]),
        (59, [((0, 1), 30), ((4,), 30)]),
        (25, [((0,), 10), ((1,), 20), ((4,), 30)]),
        (1, [((0,), 10), ((1,), 20), ((4,), 30)]),
    ],
)
def test_segments_have_bounded_rows(rows_per_task: int, groups: list[tuple[tuple[int, ...], int]]) -> None:
    work = _built(0, 1, 4)
    plan = IndexPlan(SPEC, work.fragment_ids, "BTREE", {})
    cut = cut_segments(work, plan, ROWS, rows_per_task)
    assert [(part.fragment_ids, part.rows) for part in cut] == groups


def test_vectors_are_bounded_by_bytes() -> None:
    spec = IndexSpec("face", IndexKind.VECTOR)
    declared = DeclaredIndex(spec, limits.INDEX_BYTES_PER_TASK // 30)
    work = IndexWork(declared=declared, status=IndexStatus.BUILT, fragment_ids=(0, 1, 4))
    cut = cut_segments(work, IndexPlan(spec, work.fragment_ids, "IVF_RQ", {}), ROWS, 1_000)
    assert [part.fragment_ids for part in cut] == [(0, 1), (4,)]


def test_rebuild_covers_every_fragment() -> None:
    assert rebuild(_more(IndexStatus.EXTENDED, 4), ROWS) == _more(IndexStatus.REBUILT, 0, 1, 4)


A, B, C = (Fragment(rows=10, files=((f"{name}.lance", (0, 1)),), deleted_rows=0, size_bytes=1) for name in "abc")
FITS: dict[str, tuple[IndexStatus, Mapping[int, Fragment], tuple[IndexDescription, ...], bool]] = {
    "nothing happened": (IndexStatus.BUILT, {0: A, 1: B}, (), True),
    "an append": (IndexStatus.BUILT, {0: A, 1: B, 2: C}, (), True),
    "a delete": (IndexStatus.BUILT, {0: Fragment(rows=3, files=A.files, deleted_rows=7, size_bytes=1), 1: B}, (), True),
    "a fragment no longer exists": (IndexStatus.BUILT, {0: A, 2: C}, (), False),
    "a fragment was replaced": (IndexStatus.BUILT, {0: A, 1: C}, (), False),
    "a column was rewritten": (
        IndexStatus.BUILT,
        {0: A, 1: Fragment(rows=10, files=(("b.lance", (0, -2)), ("c.lance", (1,))), deleted_rows=0, size_bytes=1)},
        (),
        False,
    ),
    "extended next to an existing segment": (IndexStatus.EXTENDED, {0: A, 1: B, 2: C}, (_present(2),), True),
    "another writer built the same": (IndexStatus.BUILT, {0: A, 1: B}, (_present(0, 1),), False),
    "another writer extended over a part": (IndexStatus.EXTENDED, {0: A, 1: B}, (_present(1),), False),
    "only fragments that no longer exist": (IndexStatus.EXTENDED, {0: A, 1: B}, (_present(7),), True),
    "another index": (IndexStatus.BUILT, {0: A, 1: B}, (_present(0, 1, name="external"),), True),
    "a rebuild replaces": (IndexStatus.REBUILT, {0: A, 1: B}, (_present(0, segments=9),), True),
    "a rebuild would replace too little": (
        IndexStatus.REBUILT,
        {0: A, 1: B, 2: C},
        (_present(0, 2, segments=9),),
        False,
    ),
}


@pytest.mark.parametrize(("emptied", "expected"), [((), False), ((1,), True), ((1, 2), True), ((0,), False)])
def test_index_may_name_emptied_fragments(emptied: tuple[int, ...], expected: bool) -> None:
    work = _work(IndexStatus.EXTENDED, 0, 1)
    assert still_fits(work, {0: A, 1: B}, {0: A, 7: C}, (), emptied) is expected


@pytest.mark.parametrize("name", FITS)
def test_built_index_is_committed_only_if_it_fits(name: str) -> None:
    status, now, present, expected = FITS[name]
    work = _work(status, 0, 1)
    assert still_fits(work, {0: A, 1: B}, now, present) is expected


def test_small_segments_share_a_task_and_large_ones_do_not() -> None:
    plan = IndexPlan(SPEC, (), "BTREE", {})
    small = limits.INDEX_SMALL_SEGMENT_ROWS
    rows = [1, 2, small, 3, small - 3, 1, small * 9]
    groups = group_segments([SegmentPlan(plan, (), count) for count in rows])
    assert [[part.rows for part in group] for group in groups] == [[1, 2], [small], [3, small - 3], [1], [small * 9]]
    assert group_segments([]) == ()
