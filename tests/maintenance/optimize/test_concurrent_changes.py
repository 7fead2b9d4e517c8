"""Which rewritten groups survive which concurrent changes, and where deleted rows are in the new fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.fragment import DataFile, DeletionFile, FragmentMetadata

from omnigraph.maintenance.optimize.concurrent_changes import (
    ROW_OPERATIONS,
    ChangeReads,
    SourceChange,
    classify_source,
    deleted_positions,
    rebase_group,
    split_positions,
)
from omnigraph.storage.lance.commit import commit_staged
from omnigraph.storage.lance.compaction import FragmentRewrite, Positions, rewrite_fragments, stage_rewrite
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.fragments import Fragment, describe_fragments
from omnigraph.storage.lance.stage import stage_restore, stage_upsert
from omnigraph.storage.lance.transactions import Operation
from omnigraph.storage.location import Location
from tests.storage.raw_writes import stage_delete
from tests.storage.samples import make_people


def fragment(number: int, rows: int, deleted: int = 0, *, path: str = "") -> FragmentMetadata:
    """Return a fragment; its deletion file depends on the number of deleted rows."""
    file = DataFile(path or f"{number}.lance", [0, 1], [0, 1], 2, 2)
    deletions = DeletionFile(1, deleted, "array", deleted, None) if deleted else None
    return FragmentMetadata(number, [file], rows, deletions)


def as_now(*natives: FragmentMetadata) -> dict[int, Fragment]:
    return {
        native.id: Fragment(rows=native.num_rows, files=(), deleted_rows=0, size_bytes=0, native=native)
        for native in natives
    }


def offsets(*numbers: int) -> Positions:
    return np.array(numbers, np.uint32)


OVERLAID = replace(fragment(0, 5), overlays=["overlay"])  # type: ignore[list-item]
CHANGES: dict[str, tuple[FragmentMetadata | None, tuple[int, ...], SourceChange]] = {
    "nothing happened": (fragment(0, 5), (), SourceChange.SAME),
    "a row was deleted": (fragment(0, 5, 1), (), SourceChange.ROWS_DELETED),
    "every row was deleted or moved": (None, (0,), SourceChange.EMPTIED),
    "another compaction, or an overwrite": (None, (1,), SourceChange.REPLACED),
    "an overwrite that gave the number again": (fragment(0, 5, path="x.lance"), (), SourceChange.REPLACED),
    "a column was rewritten in place": (fragment(0, 5, 1, path="x.lance"), (), SourceChange.REPLACED),
    "values were overlaid": (OVERLAID, (), SourceChange.REPLACED),
    "other rows under the same number": (fragment(0, 6), (), SourceChange.REPLACED),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_of_a_source(name: str) -> None:
    native, emptied, expected = CHANGES[name]
    now = None if native is None else as_now(native)[0]
    assert classify_source(fragment(0, 5), now, emptied) is expected


@pytest.mark.parametrize("operation", Operation)
def test_operations_that_remove_only_empty_fragments(operation: Operation) -> None:
    by_rows = {"Append", "Delete", "Update", "CreateIndex", "UpdateConfig", "ReserveFragments"}
    assert (operation in ROW_OPERATIONS) is (operation.value in by_rows)


# Source 0 has five rows of which number 1 was deleted before; source 1 has three; source 2 has two.
SOURCES = (fragment(0, 5, 1), fragment(1, 3), fragment(2, 2))
LIVE_THEN = {0: offsets(0, 2, 3, 4), 1: offsets(0, 1, 2), 2: offsets(0, 1)}
GROUP = FragmentRewrite(sources=SOURCES, written=(fragment(90, 6), fragment(91, 3)), read_version=7)
Live = dict[int, Positions]
GROUPS: dict[str, tuple[dict[int, Fragment], tuple[int, ...], Live, dict[int, list[int]] | None]] = {
    "nothing": (as_now(*SOURCES), (), {}, {}),
    "rows of the first": (as_now(fragment(0, 5, 3), *SOURCES[1:]), (), {0: offsets(0, 4)}, {90: [1, 2]}),
    "rows on both sides of the cut": (
        as_now(SOURCES[0], fragment(1, 3, 2), fragment(2, 2, 1)),
        (),
        {1: offsets(0), 2: offsets(1)},
        {90: [5], 91: [0, 1]},
    ),
    "a source is emptied": (as_now(SOURCES[0], SOURCES[2]), (1,), {}, {90: [4, 5], 91: [0]}),
    "a written fragment is emptied": (as_now(SOURCES[0]), (1, 2), {}, {90: [4, 5], 91: [0, 1, 2]}),
    "appended": (as_now(*SOURCES, fragment(3, 9)), (), {}, {}),
    "a source is replaced": (as_now(SOURCES[0], SOURCES[2]), (), {}, None),
    "nothing is left": (as_now(fragment(3, 9)), (0, 1, 2), {}, None),
    "a row came back": (as_now(fragment(0, 5), *SOURCES[1:]), (), {0: offsets(0, 1, 2, 3, 4)}, None),
}


@pytest.mark.parametrize("name", GROUPS)
def test_which_groups_survive(name: str) -> None:
    now, emptied, live_now, expected = GROUPS[name]

    def read_live(source: Any, is_now: bool) -> Positions:
        return live_now[source.id] if is_now else LIVE_THEN[source.id]

    moved = rebase_group(GROUP, now, emptied, read_live)
    assert (moved is None) == (expected is None)
    if moved is None or expected is None:
        return
    assert {number: positions.tolist() for number, positions in moved.deleted.items()} == expected
    assert set(moved.old_ids) == now.keys() & {0, 1, 2}
    assert moved.new_ids == tuple(number for number, rows in ((90, 6), (91, 3)) if len(expected.get(number, [])) < rows)
    assert sum(map(moved.live_rows, moved.new)) == sum(
        len(live_now.get(number, LIVE_THEN[number])) for number in moved.old_ids
    )


@given(
    st.lists(st.integers(0, 12).flatmap(lambda rows: st.tuples(st.just(rows), st.binary(min_size=rows))), max_size=5),
    st.integers(1, 7),
)
def test_positions_are_those_of_the_deleted_rows(fragments: list[tuple[int, bytes]], rows_per_written: int) -> None:
    """Each row was deleted before, was deleted since, or is live; written rows are identified by name."""
    written_rows: list[tuple[int, int]] = []
    deleted_rows: set[tuple[int, int]] = set()
    since: list[Positions] = []
    for number, (count, fates) in enumerate(fragments):
        then = [row for row in range(count) if fates[row] % 3 > 0]
        now = [row for row in then if fates[row] % 3 > 1]
        new_positions = deleted_positions(offsets(*then), offsets(*now))
        assert new_positions is not None
        since.append(new_positions + np.uint32(len(written_rows)))
        written_rows += [(number, row) for row in then]
        deleted_rows |= {(number, row) for row in set(then) - set(now)}
    cuts = range(0, len(written_rows), rows_per_written)
    parts: Sequence[Any] = [written_rows[cut : cut + rows_per_written] for cut in cuts]
    positions = np.concatenate([*since, offsets()]).astype(np.uint32)
    split = split_positions(positions, [len(part) for part in parts])
    named = {part[place] for part, places in zip(parts, split, strict=True) for place in places}
    assert named == deleted_rows
    assert sum(map(len, split)) == len(deleted_rows)


def test_row_that_exists_again_is_detected() -> None:
    assert deleted_positions(offsets(0, 2), offsets(0, 1)) is None
    assert deleted_positions(offsets(0, 2), offsets(0, 1, 2)) is None


def test_each_deletion_file_is_read_once(local_location: Location) -> None:
    dataset = make_people(local_location, ["a", "b", "c"])
    staged = stage_delete(dataset, "id = 'b'")
    assert staged is not None
    dataset = commit_staged(dataset, staged)
    native = describe_fragments(dataset)[0].native
    reads, opened = ChangeReads(), list[int]()

    def open_version() -> Dataset:
        opened.append(dataset.version)
        return dataset

    for _ in range(2):
        assert reads.live_offsets(native, open_version).tolist() == [0, 2]
    assert reads.live_offsets(replace(native, deletion_file=None), open_version).tolist() == [0, 1, 2]
    assert opened == [dataset.version]


def test_operations_are_read_from_transactions(local_location: Location) -> None:
    dataset = make_people(local_location, ["a", "b"], ["c"])
    first = dataset.version
    staged = stage_delete(dataset, "id = 'c'")
    assert staged is not None
    dataset = commit_staged(dataset, staged)
    dataset = commit_staged(dataset, stage_upsert(dataset, dataset.read(where="id = 'a'")))
    reads = ChangeReads()
    assert reads.only_rows_changed(dataset, first)
    rewritten = rewrite_fragments(dataset, sorted(describe_fragments(dataset)), 100).numbered(90)
    later = commit_staged(dataset, stage_rewrite(dataset, [rewritten]))
    assert not reads.only_rows_changed(later, first)
    assert reads.only_rows_changed(later, later.version)
    restored = commit_staged(later, stage_restore(later, first))
    assert not reads.only_rows_changed(restored, later.version)
