"""Grouping of fragments for tasks."""

from __future__ import annotations

from omnigraph.storage.lance.fragments import group_fragments


def test_fragments_are_grouped_until_a_task_has_enough_rows() -> None:
    full = 10
    assert group_fragments({}, full) == []
    assert group_fragments({3: 1, 4: 1, 9: full - 2, 10: 1}, full) == [(3, 4, 9), (10,)]
    assert group_fragments({0: 0, 1: 2 * full, 2: 1, 3: 0}, full) == [(0,), (1,), (2, 3)]
