"""Replacing and deleting rows in one commit, on every store."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from omnigraph.storage.errors import CommitRaceError
from omnigraph.storage.lance.commit import Replacement, commit_replacement
from omnigraph.storage.lance.dataset import Dataset, create_dataset
from omnigraph.storage.location import Location
from tests.storage.raw_writes import commit_upsert

FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.utf8(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
    pa.field("n", pa.int64()),
]
SCHEMA = pa.schema(FIELDS)


def make(location: Location) -> Dataset:
    return create_dataset(location.child("t"), rows(head=0, a=1, b=2, **{"it's": 3}))


def rows(**values: int) -> pa.Table:
    return pa.table({"id": list(values), "n": list(values.values())}, schema=SCHEMA)


def contents(dataset: Dataset) -> dict[str, int]:
    return {row["id"]: row["n"] for row in dataset.newest().read().to_pylist()}


def test_rows_are_replaced_added_and_removed_in_one_version(store_location: Location) -> None:
    before = make(store_location)
    after = commit_replacement(before, Replacement("id", rows(head=1, c=9), ("a", "it's", "never there")))
    assert after.version == before.version + 1
    assert contents(after) == {"head": 1, "b": 2, "c": 9}


def test_fragment_without_rows_is_removed(store_location: Location) -> None:
    dataset = make(store_location)
    after = commit_replacement(dataset, Replacement("id", rows(head=1), ("a", "b", "it's")))
    assert contents(after) == {"head": 1}
    assert list(after.fragment_rows().values()) == [1]


@pytest.mark.parametrize("first", ["replacement", "upsert"])
def test_two_changes_of_one_key_from_one_version_conflict(store_location: Location, first: str) -> None:
    dataset = make(store_location)
    if first == "replacement":
        commit_replacement(dataset, Replacement("id", rows(head=1), ("a",)))
        with pytest.raises(CommitRaceError):
            commit_upsert(dataset, rows(head=2), "id")
    else:
        commit_upsert(dataset, rows(head=1), "id")
        with pytest.raises(CommitRaceError):
            commit_replacement(dataset, Replacement("id", rows(head=2), ("a",)))
    assert contents(dataset)["head"] == 1


def test_replacements_can_be_repeated(store_location: Location) -> None:
    dataset = commit_replacement(make(store_location), Replacement("id", rows(head=1), ("a",)))
    commit_upsert(dataset, rows(head=2, b=5), "id")
    assert contents(commit_replacement(dataset.newest(), Replacement("id", rows(head=3), ("b",)))) == {
        "head": 3,
        "it's": 3,
    }
