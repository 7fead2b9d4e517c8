"""What changed between two versions is what comparing every row finds, whatever happened in between."""

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
from omnigraph.storage.lance.dataset import Dataset, create_dataset, open_dataset
from omnigraph.storage.lance.read import locate_rows, read_rows_at, read_rows_by_identity
from omnigraph.storage.lance.row_changes import BranchVersion, find_common_ancestor, row_changes
from omnigraph.storage.location import parse_location
from tests.storage.raw_writes import stage_append
from tests.storage.row_operations import (
    STEPS,
    compact,
    contents,
    delete,
    fence,
    go_back,
    overwrite,
    rows,
    run,
    upsert,
)


def naive(before: Dataset, after: Dataset) -> set[str]:
    left, right = contents(before), contents(after)
    return {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, STEPS, st.booleans())
def test_changes_are_those_that_a_full_comparison_finds(
    first: list[Any], then: list[Any], forks: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before = run(create_dataset(parse_location(f"{folder}/t"), rows({"r0": 0, "r1": 1})), first)
        after = run(commit_branch(before, "fork") if forks else before, then)
        changes = row_changes(before, after)
        found = changes.ids().to_pylist()
        assert len(found) == len(set(found))
        assert naive(before, after) <= set(found)
        written = {name for operation, name, _ in then if operation not in (compact, fence)}
        alike = {"kept", *(f"new{number}" for number in range(50))}
        if not {overwrite, go_back} & {operation for operation, *_ in then}:
            assert set(found) - alike <= written
        for dataset, places in ((before, changes.gone), (after, changes.written)):
            assert places.sort_by("id").equals(
                locate_rows(dataset, places.column("id").combine_chunks()).sort_by("id")
            )
        assert set(changes.written.column("id").to_pylist()) <= set(contents(after))
        assert set(found) & set(contents(before)) <= set(changes.gone.column("id").to_pylist())


def test_a_compaction_changes_nothing_and_a_delete_one_row(tmp_path: Path) -> None:
    base = create_dataset(parse_location(str(tmp_path / "t")), rows({"a": 1, "b": 2}))
    more = commit_staged(base, stage_append(base, rows({"c": 3})))
    packed = compact(more, "", 0)
    assert row_changes(more, packed).ids().to_pylist() == []
    assert row_changes(more, delete(packed, "a", 0)).ids().to_pylist() == ["a"]
    assert row_changes(base, packed).ids().to_pylist() == ["c"]


def test_what_a_restore_brings_back(tmp_path: Path) -> None:
    first = create_dataset(parse_location(str(tmp_path / "t")), rows({"a": 1, "b": 2, "c": 3}))
    second = upsert(delete(first, "a", 0), "b", 20)
    third = delete(commit_restore(second, 1, {}), "c", 0)
    assert contents(third).keys() == {"a", "b"}
    changes = row_changes(second, third)
    assert set(changes.ids().to_pylist()) == {"a", "b", "c"}
    assert set(changes.written.column("id").to_pylist()) == {"a", "b"}
    assert set(changes.gone.column("id").to_pylist()) == {"b", "c"}


def test_where_two_branches_part(tmp_path: Path) -> None:
    location = parse_location(str(tmp_path / "t"))
    base = create_dataset(location, rows({"a": 1}))
    one = upsert(commit_branch(base, "one"), "b", 1)
    two = upsert(commit_branch(one, "two"), "c", 1)
    main = upsert(open_dataset(location), "d", 1)
    later = upsert(one, "e", 1)

    def parting(left: Dataset, right: Dataset) -> BranchVersion | None:
        places = [BranchVersion(side.branch, side.version) for side in (left, right)]
        found = find_common_ancestor(location, places[0], places[1])
        assert found == find_common_ancestor(location, places[1], places[0])
        return found

    assert parting(main, two) == BranchVersion(None, 1)
    assert parting(two, later) == BranchVersion("one", 2)
    assert parting(main, base) == BranchVersion(None, 1)
    assert find_common_ancestor(location, BranchVersion("gone", 4), BranchVersion(None, 1)) is None


@pytest.mark.parametrize("count", [3, 2000])
def test_rows_are_found_by_their_ids(count: int, tmp_path: Path) -> None:
    dataset = create_dataset(parse_location(str(tmp_path / "t")), rows({f"it's {n}": n for n in range(2500)}))
    dataset = delete(dataset, "it''s 1", 0)
    wanted = pa.array([f"it's {n}" for n in range(count)] + ["nowhere"])
    found = locate_rows(dataset, wanted)
    assert set(found.column("id").to_pylist()) == {f"it's {n}" for n in range(count) if n != 1}
    identities, addresses = (found.column(name).to_numpy() for name in ("_rowid", "_rowaddr"))
    shuffled = np.random.default_rng(1).permutation(found.num_rows)
    for taken in (
        read_rows_by_identity(dataset, identities[shuffled], ["id"]),
        read_rows_at(dataset, identities[shuffled], addresses[shuffled], ["id"]),
    ):
        assert taken.column("id").to_pylist() == found.column("id").take(pa.array(shuffled)).to_pylist()
