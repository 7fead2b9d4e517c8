from __future__ import annotations

import pytest

from omnigraph.base.errors import InvariantError, NotFoundError, RefusedError
from omnigraph.storage.lance.commit import commit_branch
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.delete import delete_branch, delete_files
from omnigraph.storage.location import Location
from tests.storage.raw_writes import stage_append
from tests.storage.samples import external_append, ids_of, make_people, people


def _files(dataset: Dataset) -> set[str]:
    return {str(row["path"]) for row in dataset.newest().native.all_files().read_all().to_pylist()}


def test_branch_is_deleted_once_and_after_its_children(store_location: Location) -> None:
    main = make_people(store_location, ["a"])
    parent = commit_branch(main, "g-1")
    commit_branch(parent, "g-2")
    with pytest.raises(RefusedError) as caught:
        delete_branch(main, "g-1")
    assert caught.value.code == "branch_in_use"
    assert delete_branch(main, "g-2")
    assert delete_branch(main, "g-1")
    assert not delete_branch(main, "g-1")
    assert ids_of(main.newest()) == ["a"]
    with pytest.raises(NotFoundError):
        open_dataset(store_location, branch="g-1")


def test_named_files_are_deleted(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"])
    before = _files(dataset)
    stage_append(dataset, people(["orphan"]))
    orphans = sorted(_files(dataset) - before)
    assert orphans
    delete_files(dataset.location, [*orphans, "data/gone.lance"])
    assert _files(dataset) == before
    assert ids_of(external_append(dataset, ["b"])) == ["a", "b"]


@pytest.mark.parametrize("path", ["../other", "/etc/x", "data/../../x"])
def test_nothing_outside_is_deleted(local_location: Location, path: str) -> None:
    with pytest.raises(InvariantError):
        delete_files(local_location, [path])
