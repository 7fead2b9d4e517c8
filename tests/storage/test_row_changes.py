"""What changed between two versions is what comparing every row finds, whatever happened in between."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.storage.commit import commit_branch, commit_compaction, commit_restore, commit_staged
from omnigraph.storage.dataset import Dataset, create_dataset, open_dataset
from omnigraph.storage.location import parse_location
from omnigraph.storage.row_changes import Place, changed_ids, find_parting, locate_rows, take_rows
from omnigraph.storage.staging import (
    stage_append,
    stage_delete,
    stage_overwrite,
    stage_replacement,
    stage_update,
    stage_upsert,
    write_deletions,
    write_moved_rows,
    write_rows,
)

KEY: Any = {"lance-schema:unenforced-primary-key": "true"}
FIELDS: list[Any] = [
    pa.field("id", pa.utf8(), nullable=False, metadata=KEY),
    pa.field("n", pa.int64()),
    pa.field("text", pa.utf8()),
]
SCHEMA = pa.schema(FIELDS)
IDS = [f"r{number}" for number in range(8)]


def rows(values: dict[str, int]) -> pa.Table:
    columns = [list(values), list(values.values()), [f"t{number}" for number in values.values()]]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


def contents(dataset: Dataset) -> dict[str, tuple[Any, ...]]:
    return {row["id"]: tuple(row.values()) for row in dataset.read().to_pylist()}


def naive(before: Dataset, after: Dataset) -> set[str]:
    left, right = contents(before), contents(after)
    return {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}


def upsert(dataset: Dataset, name: str, number: int) -> Dataset:
    return commit_staged(dataset, stage_upsert(dataset, rows({name: number})))


def update_column(dataset: Dataset, name: str, number: int) -> Dataset:
    if name not in contents(dataset):
        return dataset
    some = pa.table({"id": [name], "n": pa.array([number], pa.int64())})
    return commit_staged(dataset, stage_update(dataset, some))


def delete(dataset: Dataset, name: str, _: int) -> Dataset:
    staged = stage_delete(dataset, f"id = '{name}'")
    return dataset if staged is None else commit_staged(dataset, staged)


def append(dataset: Dataset, name: str, number: int) -> Dataset:
    if name in contents(dataset):
        return dataset
    return commit_staged(dataset, stage_append(dataset, rows({name: number})))


def overwrite(dataset: Dataset, name: str, number: int) -> Dataset:
    return commit_staged(dataset, stage_overwrite(dataset, rows({name: number, "kept": 0})))


def compact(dataset: Dataset, _: str, __: int) -> Dataset:
    return commit_compaction(dataset, 1000).dataset


def fence(dataset: Dataset, _: str, __: int) -> Dataset:
    return commit_restore(dataset, dataset.version, {})


def move(dataset: Dataset, name: str, number: int) -> Dataset:
    """A replacement as a merge stages it: one row moves, one is new."""
    found = locate_rows(dataset, pa.array([name]))
    if not found.num_rows:
        return dataset
    identities: Any = found.column("_rowid").to_pylist()
    addresses: Any = found.column("_rowaddr").to_pylist()
    moved = write_moved_rows(dataset, rows({name: number}), identities)
    new = f"new{dataset.version}"
    fragments = [*moved, *([] if new in contents(dataset) else write_rows(dataset, rows({new: 1})))]
    deletions = write_deletions(dataset, addresses)
    return commit_staged(dataset, stage_replacement(dataset, deletions, fragments))


OPERATIONS: list[Callable[[Dataset, str, int], Dataset]] = [
    *(upsert, update_column, delete, append, overwrite, compact, fence, move)
]
STEPS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.sampled_from(IDS), st.integers(0, 3)), min_size=0, max_size=6
)


def run(dataset: Dataset, steps: list[Any]) -> Dataset:
    for operation, name, number in steps:
        dataset = operation(dataset, name, number)
    return dataset


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, STEPS, st.booleans())
def test_changes_are_those_that_a_full_comparison_finds(
    first: list[Any], then: list[Any], forks: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before = run(create_dataset(parse_location(f"{folder}/t"), rows({"r0": 0, "r1": 1})), first)
        after = run(commit_branch(before, "fork") if forks else before, then)
        found = changed_ids(before, after).to_pylist()
        assert len(found) == len(set(found))
        assert naive(before, after) <= set(found)
        written = {name for operation, name, _ in then if operation not in (compact, fence)}
        alike = {"kept", *(f"new{number}" for number in range(50))}
        assert set(found) - alike <= written | (
            set(contents(before)) if overwrite in [s[0] for s in then] else set()
        )


def test_a_compaction_changes_nothing_and_a_delete_one_row(tmp_path: Path) -> None:
    base = create_dataset(parse_location(str(tmp_path / "t")), rows({"a": 1, "b": 2}))
    more = commit_staged(base, stage_append(base, rows({"c": 3})))
    packed = compact(more, "", 0)
    assert changed_ids(more, packed).to_pylist() == []
    assert changed_ids(more, delete(packed, "a", 0)).to_pylist() == ["a"]
    assert changed_ids(base, packed).to_pylist() == ["c"]


def test_where_two_branches_part(tmp_path: Path) -> None:
    location = parse_location(str(tmp_path / "t"))
    base = create_dataset(location, rows({"a": 1}))
    one = upsert(commit_branch(base, "one"), "b", 1)
    two = upsert(commit_branch(one, "two"), "c", 1)
    main = upsert(open_dataset(location), "d", 1)
    later = upsert(one, "e", 1)

    def parting(left: Dataset, right: Dataset) -> Place | None:
        places = [Place(side.branch, side.version) for side in (left, right)]
        found = find_parting(location, places[0], places[1])
        assert found == find_parting(location, places[1], places[0])
        return found

    assert parting(main, two) == Place(None, 1)
    assert parting(two, later) == Place("one", 2)
    assert parting(main, base) == Place(None, 1)
    assert find_parting(location, Place("gone", 4), Place(None, 1)) is None


@pytest.mark.parametrize("count", [3, 2000])
def test_rows_are_found_by_their_ids(count: int, tmp_path: Path) -> None:
    dataset = create_dataset(parse_location(str(tmp_path / "t")), rows({f"it's {n}": n for n in range(2500)}))
    dataset = delete(dataset, "it''s 1", 0)
    wanted = pa.array([f"it's {n}" for n in range(count)] + ["nowhere"])
    found = locate_rows(dataset, wanted)
    assert set(found.column("id").to_pylist()) == {f"it's {n}" for n in range(count) if n != 1}
    taken = take_rows(dataset, found.column("_rowid").to_numpy(), ["id"])
    assert taken.column("id").to_pylist() == found.column("id").to_pylist()
