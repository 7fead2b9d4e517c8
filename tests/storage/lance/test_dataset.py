from __future__ import annotations

import pytest

from omnigraph.base.errors import NotFoundError
from omnigraph.storage.errors import DatasetExistsError
from omnigraph.storage.lance.commit import commit_branch, commit_staged, commit_strip_auto_cleanup
from omnigraph.storage.lance.dataset import create_dataset, open_dataset
from omnigraph.storage.lance.transactions import TransactionRecord, read_operation
from omnigraph.storage.location import Location
from tests.storage.raw_writes import stage_append
from tests.storage.samples import PRIMARY_KEY, ids_of, make_people, people


def test_new_dataset_has_the_settings_of_every_table(store_location: Location) -> None:
    dataset = create_dataset(store_location, people(["a"]), {"omnigraph:op": "1"})
    assert dataset.version == 1
    assert dataset.native.has_stable_row_ids
    assert dataset.native.data_storage_version == "2.2"
    assert dataset.config() == {}
    field = dataset.schema.field("id")
    assert not field.nullable
    assert field.metadata == PRIMARY_KEY
    record = read_operation(dataset, 1)
    assert isinstance(record, TransactionRecord)
    assert record.properties == {"omnigraph:op": "1"}


def test_creating_an_existing_dataset_is_rejected(store_location: Location) -> None:
    create_dataset(store_location, people(["a"]))
    with pytest.raises(DatasetExistsError):
        create_dataset(store_location, people(["b"]))
    assert ids_of(open_dataset(store_location)) == ["a"]


def test_an_empty_table_can_be_created_and_filled(store_location: Location) -> None:
    dataset = create_dataset(store_location, people([]))
    assert dataset.count_rows() == 0
    dataset = commit_staged(dataset, stage_append(dataset, people(["a"])))
    assert ids_of(dataset) == ["a"]


def test_old_versions_are_readable(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"], ["b"], ["c"])
    assert dataset.versions() == (1, 2, 3)
    assert ids_of(dataset.at_version(2)) == ["a", "b"]
    assert ids_of(open_dataset(store_location, version=1)) == ["a"]
    assert dataset.at_version(1).newest().version == 3
    assert list(dataset.fragment_rows().values()) == [1, 1, 1]


def test_reading_selects_columns_and_rows(store_location: Location) -> None:
    dataset = make_people(store_location, ["a", "b"], ["c"])
    assert dataset.read(["count"], "id = 'b'").to_pylist() == [{"count": 0}]
    assert sum(batch.num_rows for batch in dataset.read_batches(["id"], "id >= 'b'")) == 2
    assert dataset.count_rows("id < 'c'") == 2


def test_branch_is_independent_of_main(store_location: Location) -> None:
    main = make_people(store_location, ["a"], ["b"])
    branch = commit_branch(main.at_version(1), "g-1")
    branch = commit_staged(branch, stage_append(branch, people(["x"])))
    assert ids_of(open_dataset(store_location, branch="g-1")) == ["a", "x"]
    assert ids_of(open_dataset(store_location, branch="g-1", version=1)) == ["a"]
    assert ids_of(main.newest()) == ["a", "b"]
    assert branch.uri == f"{store_location.uri}/tree/g-1"
    second = commit_branch(branch, "g-2")
    assert ids_of(second) == ["a", "x"]


@pytest.mark.parametrize(
    ("path", "branch", "version"), [("other", None, None), ("people", None, 9), ("people", "missing", None)]
)
def test_missing_dataset_version_or_branch_is_a_not_found_error(
    store_location: Location, path: str, branch: str | None, version: int | None
) -> None:
    make_people(store_location.child("people"), ["a"])
    with pytest.raises(NotFoundError) as caught:
        open_dataset(store_location.child(path), branch=branch, version=version)
    assert caught.value.code == "object_missing"


def test_automatic_cleanup_is_removed_once(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"])
    dataset.native.update_config({"lance.auto_cleanup.interval": "1", "mine": "stays"})
    dataset = dataset.newest()
    assert commit_strip_auto_cleanup(dataset)
    assert dataset.newest().config() == {"mine": "stays"}
    assert not commit_strip_auto_cleanup(dataset.newest())
    assert dataset.newest().version == 3
