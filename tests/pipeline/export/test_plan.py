from __future__ import annotations

from omnigraph.base import limits
from omnigraph.pipeline.export.plan import (
    IdRange,
    Sample,
    Zone,
    cut_distance,
    group_slices,
    is_one_part,
    plan_table,
    plan_whole,
)
from omnigraph.storage.lance.read import RowSlice

PIECES = [RowSlice(0, 0, 10, 0), RowSlice(0, 10, 10, 10), RowSlice(1, 0, 10, 20)]
ORDERED = [Zone(PIECES[0], "a", "f"), Zone(PIECES[1], "g", "m"), Zone(PIECES[2], "n", "z")]
MIXED = [Zone(piece, "a", "z") for piece in PIECES]


def test_a_table_of_the_bound_is_one_part() -> None:
    assert is_one_part(limits.EXPORT_WHOLE_ROWS_MAX)
    assert not is_one_part(limits.EXPORT_WHOLE_ROWS_MAX + 1)
    assert plan_whole(PIECES).ranges == (IdRange(),)
    assert plan_whole(PIECES).reads == (tuple(PIECES),)


def test_id_starts_a_part_after_enough_rows() -> None:
    """With rows of one byte and a cut for each, a part of two bytes has two cuts."""
    plan = plan_table(30, [_sample(ORDERED, ("g",)), _sample([], ("t", "n"))], 2 * cut_distance(30))
    assert plan.ranges == (IdRange(None, "t"), IdRange("t", None))
    assert plan.bounds == ("t",)


def test_parts_read_the_zones_that_overlap_them() -> None:
    plan = plan_table(30, [_sample(ORDERED, ("a", "g", "n"))], cut_distance(30))
    assert plan.bounds == ("g", "n")
    assert plan.reads == ((PIECES[0],), (PIECES[1],), (PIECES[2],))
    across = plan_table(30, [_sample(ORDERED, ("a", "h"))], cut_distance(30))
    assert across.reads == ((RowSlice(0, 0, 20, 0),), (PIECES[1], PIECES[2]))


def test_unordered_rows_are_sorted_first() -> None:
    """Two parts may read every zone twice; three parts would read them too often."""
    twice = plan_table(30, [_sample(MIXED, ("a", "g"))], cut_distance(30))
    assert twice.reads == ((RowSlice(0, 0, 20, 0), PIECES[2]),) * 2
    thrice = plan_table(30, [_sample(MIXED, ("a", "g", "n"))], cut_distance(30))
    assert thrice.reads is None
    assert thrice.runs == ((RowSlice(0, 0, 20, 0), PIECES[2]),)


def test_slices_are_grouped_and_divided() -> None:
    assert list(group_slices(PIECES, 20)) == [(RowSlice(0, 0, 20, 0),), (PIECES[2],)]
    assert list(group_slices(PIECES[1:2], 4)) == [
        (RowSlice(0, 10, 4, 10),),
        (RowSlice(0, 14, 4, 14),),
        (RowSlice(0, 18, 2, 18),),
    ]


def _sample(zones: list[Zone], cuts: tuple[str, ...]) -> Sample:
    return Sample(tuple(zones), cuts, measured_rows=1, measured_bytes=1)
