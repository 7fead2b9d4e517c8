"""The fragments in which ids can be: small ones are read once, also after deletes, updates and restores."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from omnigraph.base import limits
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.small_fragments import fragments_with_ids
from omnigraph.storage.location import Location
from tests.storage.samples import external_append, make_people, people


def numbers(dataset: Dataset, *ids: str) -> list[int]:
    return fragments_with_ids(dataset, pa.array(ids, pa.utf8()))


def test_only_fragments_with_an_id(store_location: Location) -> None:
    dataset = make_people(store_location, ["a", "b"], ["c"], ["d"])
    assert numbers(dataset, "b", "d", "x") == [0, 2]
    assert numbers(dataset, "x") == []
    later = external_append(dataset, ["x"])
    assert numbers(later, "x") == [3]
    assert numbers(dataset, "x") == []


def test_deleted_updated_and_restored_rows(store_location: Location) -> None:
    dataset = make_people(store_location, ["a", "b"], ["c"])
    assert numbers(dataset, "a") == [0]
    native = dataset.native_copy()
    native.delete("id = 'a'")
    deleted = dataset.newest()
    assert numbers(deleted, "a") == []
    native.merge_insert("id").when_matched_update_all().execute(people(["b"], 7))
    updated = dataset.newest()
    assert [number > 1 for number in numbers(updated, "b")] == [True]
    older: Any = native.checkout_version(dataset.version)
    older.restore()
    assert numbers(dataset.newest(), "a", "b") == [0]


def test_large_fragments_are_always_read(local_location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SMALL_FRAGMENT_ROWS_MAX", 2)
    dataset = make_people(local_location, ["a", "b", "c"], ["d", "e"])
    assert numbers(dataset, "x") == [0]
    assert numbers(dataset, "e") == [0, 1]


def test_ids_are_read_once(local_location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = make_people(local_location, ["a"], ["b"])
    reads: list[list[int]] = []
    read = Dataset.read_fragments

    def read_and_note(self: Dataset, fragments: list[int], *arguments: Any, **options: Any) -> Any:
        reads.append(fragments)
        return read(self, fragments, *arguments, **options)

    monkeypatch.setattr(Dataset, "read_fragments", read_and_note)
    numbers(dataset, "a")
    later = external_append(dataset, ["c"])
    numbers(later, "a")
    assert reads == [[0, 1], [2]]
