from __future__ import annotations

import pytest

from omnigraph.base.effects import observed
from omnigraph.base.errors import InvariantError, NotFoundError, RefusedError
from omnigraph.storage.commit import commit_branch, commit_staged
from omnigraph.storage.dataset import Dataset, open_dataset
from omnigraph.storage.deletion import (
    delete_branch,
    delete_dataset,
    delete_files,
    delete_versions,
    preview_versions,
)
from omnigraph.storage.location import Location
from omnigraph.storage.staging import stage_append, stage_overwrite
from tests.storage.samples import foreign_append, ids_of, make_people, people


def _overwritten(location: Location, times: int) -> Dataset:
    dataset = make_people(location, ["v1"])
    for number in range(2, times + 1):
        dataset = commit_staged(dataset, stage_overwrite(dataset, people([f"v{number}"])))
    return dataset


def _files(dataset: Dataset) -> set[str]:
    return {str(row["path"]) for row in dataset.newest().native.all_files().read_all().to_pylist()}


def test_the_preview_is_what_goes(store_location: Location) -> None:
    dataset = _overwritten(store_location, 4)
    before = _files(dataset)
    preview = preview_versions(dataset, [1, 2])
    assert _files(dataset) == before
    assert (preview.truncated, preview.branches) == (False, ())
    removed = delete_versions(dataset, [1, 2])
    assert removed == preview.removed
    assert (removed.versions, removed.failures) == (2, 0)
    assert before - _files(dataset) == {file.path for file in preview.files}
    assert len(preview.files) == removed.files
    assert sum(file.size_bytes for file in preview.files) == removed.size_bytes
    assert dataset.newest().versions() == (3, 4)
    assert ids_of(dataset.at(3)) == ["v3"]


def test_deleting_again_or_nothing_does_nothing(store_location: Location) -> None:
    dataset = _overwritten(store_location, 3)
    delete_versions(dataset, [1])
    before = _files(dataset)
    assert delete_versions(dataset, [1]).versions == 0
    assert delete_versions(dataset, []).versions == 0
    assert preview_versions(dataset, []).removed.versions == 0
    assert _files(dataset) == before


def test_the_newest_version_and_what_branches_need_stay(store_location: Location) -> None:
    dataset = _overwritten(store_location, 4)
    branch = commit_branch(dataset.at(2), "g-1")
    assert preview_versions(dataset, [1, 2, 3, 4]).branches == ("g-1",)
    delete_versions(dataset, [1, 2, 3, 4])
    assert dataset.newest().versions() == (2, 4)
    assert ids_of(branch.newest()) == ["v2"]


def test_a_branch_is_cleaned_by_itself(store_location: Location) -> None:
    main = make_people(store_location, ["a"])
    branch = commit_branch(main, "g-1")
    for name in ("b", "c"):
        branch = commit_staged(branch, stage_append(branch, people([name])))
    delete_versions(branch, [1, 2])
    assert branch.newest().versions() == (3,)
    assert ids_of(branch.newest()) == ["a", "b", "c"]
    assert main.newest().versions() == (1,)


def test_a_branch_is_deleted_once_and_after_its_children(store_location: Location) -> None:
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


def test_a_dataset_goes_with_everything_below_it_and_nothing_beside(store_location: Location) -> None:
    doomed = make_people(store_location.child("nodes/1"), ["a"], ["b"])
    commit_branch(doomed, "g-1")
    make_people(store_location.child("nodes/10"), ["c"])
    assert delete_dataset(doomed.location) > 4
    assert delete_dataset(doomed.location) == 0
    with pytest.raises(NotFoundError):
        open_dataset(doomed.location)
    assert ids_of(open_dataset(store_location.child("nodes/10"))) == ["c"]


def test_manifests_go_first(local_location: Location) -> None:
    """So that a crash half-way leaves no dataset that opens and then misses its files."""
    dataset = make_people(local_location, ["a"], ["b"])
    seen: list[str] = []
    with observed(lambda _, target: seen.append(target.removeprefix(f"{local_location.uri}/"))):
        delete_dataset(dataset.location)
    manifests = [number for number, path in enumerate(seen) if path.startswith("_versions/")]
    assert manifests == list(range(len(manifests)))
    assert len(manifests) >= 2


def test_named_files_are_deleted(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"])
    before = _files(dataset)
    stage_append(dataset, people(["orphan"]))
    orphans = sorted(_files(dataset) - before)
    assert orphans
    delete_files(dataset.location, [*orphans, "data/gone.lance"])
    assert _files(dataset) == before
    assert ids_of(foreign_append(dataset, ["b"])) == ["a", "b"]


@pytest.mark.parametrize("path", ["../other", "/etc/x", "data/../../x"])
def test_nothing_outside_is_deleted(local_location: Location, path: str) -> None:
    with pytest.raises(InvariantError):
        delete_files(local_location, [path])
