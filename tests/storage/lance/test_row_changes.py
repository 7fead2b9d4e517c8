"""The changes between two versions are those that a comparison of every row finds, after any operations."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.storage.lance.commit import commit_branch, commit_restore, commit_staged
from omnigraph.storage.lance.dataset import BranchVersion, Dataset, create_dataset, open_dataset
from omnigraph.storage.lance.read import locate_rows, read_rows_at, read_rows_by_identity
from omnigraph.storage.lance.row_changes import find_common_ancestor, row_changes
from omnigraph.storage.location import parse_location
from tests.storage.raw_writes import stage_append
from tests.storage.row_operations import STEPS, compact, contents, delete, fence, go_back, overwrite, rows, run, upsert


def changed_ids_by_full_comparison(before: Dataset, after: Dataset) -> set[str]:
    left, right = contents(before), contents(after)
    return {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, STEPS, st.booleans())
def test_changes_are_those_that_a_full_comparison_finds(
    steps_before: list[Any], steps_after: list[Any], on_fork: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        before = run(create_dataset(parse_location(f"{directory}/t"), rows({"r0": 0, "r1": 1})), steps_before)
        after = run(commit_branch(before, "fork") if on_fork else before, steps_after)
        changes = row_changes(before, after)
        changed_ids = changes.ids().to_pylist()
        assert len(changed_ids) == len(set(changed_ids))
        assert changed_ids_by_full_comparison(before, after) <= set(changed_ids)
        written = {name for operation, name, _ in steps_after if operation not in (compact, fence)}
        unchanged = {"kept", *(f"new{number}" for number in range(50))}
        if not {overwrite, go_back} & {operation for operation, *_ in steps_after}:
            assert set(changed_ids) - unchanged <= written
        for dataset, located in ((before, changes.removed), (after, changes.written)):
            assert located.sort_by("id").equals(
                locate_rows(dataset, located.column("id").combine_chunks()).sort_by("id")
            )
        assert set(changes.written.column("id").to_pylist()) <= set(contents(after))
        assert set(changed_ids) & set(contents(before)) <= set(changes.removed.column("id").to_pylist())


def test_a_compaction_changes_nothing_and_a_delete_one_row(tmp_path: Path) -> None:
    base = create_dataset(parse_location(str(tmp_path / "t")), rows({"a": 1, "b": 2}))
    more = commit_staged(base, stage_append(base, rows({"c": 3})))
    compacted = compact(more, "", 0)
    assert row_changes(more, compacted).ids().to_pylist() == []
    assert row_changes(more, delete(compacted, "a", 0)).ids().to_pylist() == ["a"]
    assert row_changes(base, compacted).ids().to_pylist() == ["c"]


def test_rows_restored_by_a_restore_are_changes(tmp_path: Path) -> None:
    first = create_dataset(parse_location(str(tmp_path / "t")), rows({"a": 1, "b": 2, "c": 3}))
    second = upsert(delete(first, "a", 0), "b", 20)
    third = delete(commit_restore(second, 1, {}), "c", 0)
    assert contents(third).keys() == {"a", "b"}
    changes = row_changes(second, third)
    assert set(changes.ids().to_pylist()) == {"a", "b", "c"}
    assert set(changes.written.column("id").to_pylist()) == {"a", "b"}
    assert set(changes.removed.column("id").to_pylist()) == {"b", "c"}


def test_common_ancestor_of_two_branches(tmp_path: Path) -> None:
    location = parse_location(str(tmp_path / "t"))
    base = create_dataset(location, rows({"a": 1}))
    first = upsert(commit_branch(base, "one"), "b", 1)
    second = upsert(commit_branch(first, "two"), "c", 1)
    main = upsert(open_dataset(location), "d", 1)
    later = upsert(first, "e", 1)

    def ancestor_of(left: Dataset, right: Dataset) -> BranchVersion | None:
        versions = [BranchVersion(side.branch, side.version) for side in (left, right)]
        ancestor = find_common_ancestor(location, versions[0], versions[1])
        assert ancestor == find_common_ancestor(location, versions[1], versions[0])
        return ancestor

    assert ancestor_of(main, second) == BranchVersion(None, 1)
    assert ancestor_of(second, later) == BranchVersion("one", 2)
    assert ancestor_of(main, base) == BranchVersion(None, 1)
    assert find_common_ancestor(location, BranchVersion("gone", 4), BranchVersion(None, 1)) is None


@pytest.mark.parametrize("count", [3, 2000])
def test_rows_are_found_by_their_ids(count: int, tmp_path: Path) -> None:
    dataset = create_dataset(parse_location(str(tmp_path / "t")), rows({f"it's {n}": n for n in range(2500)}))
    dataset = delete(dataset, "it''s 1", 0)
    ids = pa.array([f"it's {n}" for n in range(count)] + ["nowhere"])
    located = locate_rows(dataset, ids)
    assert set(located.column("id").to_pylist()) == {f"it's {n}" for n in range(count) if n != 1}
    identities, addresses = (located.column(name).to_numpy() for name in ("_rowid", "_rowaddr"))
    shuffled = np.random.default_rng(1).permutation(located.num_rows)
    for rows_read in (
        read_rows_by_identity(dataset, identities[shuffled], ["id"]),
        read_rows_at(dataset, identities[shuffled], addresses[shuffled], ["id"]),
    ):
        assert rows_read.column("id").to_pylist() == located.column("id").take(pa.array(shuffled)).to_pylist()
