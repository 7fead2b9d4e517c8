"""What Lance does with branches and tags. Graph branches are built on it.

Each docstring describes what to change when the test fails.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pytest

from omnigraph.storage.lance.commit import commit_branch, commit_staged
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location, parse_location
from tests.storage.raw_writes import stage_append
from tests.storage.samples import ids_of, make_people, people


def test_new_branch_has_only_metadata(local_location: Location) -> None:
    """If this fails: the cost of a fork grows with the table; branches must use main's versions longer."""
    commit_branch(make_people(local_location, ["a"]), "g-1")
    fork = Path(local_location.uri, "tree", "g-1")
    assert {path.name for path in fork.iterdir()} == {"_versions", "_transactions"}


def test_branch_can_be_opened_by_its_directory(local_location: Location) -> None:
    """If this fails: `branch_location` must follow Lance's new layout."""
    branch = commit_branch(make_people(local_location, ["a"]), "g-1")
    assert branch.native.uri == f"{local_location.uri}/tree/g-1"
    by_name = lance.dataset(local_location.uri).checkout_version(("g-1", None))
    assert by_name.version == open_dataset(local_location, branch="g-1").version


def test_moved_dataset_reads_main_but_not_its_branches(local_location: Location, tmp_path: Path) -> None:
    """If this fails: paths became relative; branches in a copied graph need not be rejected."""
    commit_branch(make_people(local_location, ["a"]), "g-1")
    moved = parse_location(str(tmp_path / "moved.omni"))
    shutil.move(local_location.uri, moved.uri)
    assert ids_of(open_dataset(moved)) == ["a"]
    with pytest.raises(ValueError, match=r"(?i)not found"):
        open_dataset(moved, branch="g-1").native.to_table()


def test_a_copy_of_a_branch_still_reads_the_original(local_location: Location, tmp_path: Path) -> None:
    """If this fails: as above. The path is absolute, so a copy silently depends on the original."""
    commit_branch(make_people(local_location, ["a"]), "g-1")
    copied = parse_location(str(tmp_path / "copied.omni"))
    shutil.copytree(local_location.uri, copied.uri)
    shutil.rmtree(Path(copied.uri, "data"))
    assert ids_of(open_dataset(copied, branch="g-1")) == ["a"]


def test_existing_branch_name_is_an_internal_error_of_lance(local_location: Location) -> None:
    """If this fails: the message changed; add the new one to the rule for `dataset_exists` in storage/errors.py."""
    native = make_people(local_location, ["a"]).native
    native.create_branch("g-1")
    with pytest.raises(OSError, match="Clone operation should not enter build_manifest"):
        native.create_branch("g-1")


def test_main_is_reserved_and_slashes_are_allowed(local_location: Location) -> None:
    """If this fails: check the names that we give to Lance branches."""
    native = make_people(local_location, ["a"]).native
    with pytest.raises(OSError, match="reserved"):
        native.create_branch("main")
    assert native.create_branch("a/b/c").version == 1


def test_branch_with_a_child_or_tag_is_not_deleted(local_location: Location) -> None:
    """If this fails: cleanup may delete a parent whose child is in use; it must check for children itself."""
    dataset = make_people(local_location, ["a"])
    parent = commit_branch(dataset, "g-1")
    commit_branch(parent, "g-2")
    with pytest.raises(OSError, match="Ref conflict"):
        dataset.native.branches.delete("g-1")
    dataset.native.branches.delete("g-2")
    dataset.native.tags.create("t", ("g-1", 1))
    with pytest.raises(OSError, match="Ref conflict"):
        dataset.native.branches.delete("g-1")


def test_listed_branch_has_its_parent(local_location: Location) -> None:
    """If this fails: cleanup's order of children and parents must be found in another way."""
    dataset = make_people(local_location, ["a"], ["b"])
    commit_branch(commit_branch(dataset.at_version(1), "g-1"), "g-2")
    listed = dataset.native.branches.list()
    assert (listed["g-1"]["parent_branch"], listed["g-1"]["parent_version"]) == (None, 1)
    assert (listed["g-2"]["parent_branch"], listed["g-2"]["parent_version"]) == ("g-1", 1)


def test_cleanup_of_main_keeps_what_branches_need(local_location: Location) -> None:
    """If this fails: cleanup must compute what each fork reads and never touch it."""
    dataset = make_people(local_location, ["a"])
    branch = commit_branch(dataset, "g-1")
    dataset.native.delete("id = 'a'")
    newest = dataset.newest()
    newest.native.optimize.compact_files()
    newest.newest().native.cleanup_old_versions(versions=[1, 2, 3])
    assert ids_of(branch.newest()) == ["a"]


def test_files_staged_on_main_make_a_fork_unreadable(local_location: Location) -> None:
    """If this fails: Lance rejects or finds them. Until then a table is forked before anything is staged for it."""
    dataset = make_people(local_location, ["a"])
    staged = stage_append(dataset, people(["x"]))
    branch = commit_branch(dataset, "g-1")
    moved = lance.LanceDataset.commit(branch.native, staged.native, max_retries=0)
    with pytest.raises(ValueError, match=r"(?i)not found"):
        moved.to_table()


def test_row_ids_collide_after_a_fork(local_location: Location) -> None:
    """If this fails: row ids are unique across branches, and a merge could use them instead of `id`."""
    main = make_people(local_location, ["a"])
    branch = commit_branch(main, "g-1")
    main = commit_staged(main, stage_append(main, people(["m"])))
    branch = commit_staged(branch, stage_append(branch, people(["b"])))

    def row_id(native: lance.LanceDataset, key: str) -> int:
        return int(native.scanner(filter=f"id = '{key}'", with_row_id=True).to_table().column("_rowid")[0].as_py())

    assert row_id(main.native, "m") == row_id(branch.native, "b")


def test_delta_of_a_branch_starts_at_the_fork(local_location: Location) -> None:
    """If this fails: merge needs another source of candidates than row versions since the fork."""
    main = make_people(local_location, ["a", "b", "c"])
    native = commit_branch(main, "g-1").native_copy()
    native.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(people(["b", "x"], 7))
    native.delete("id = 'c'")
    delta = lance.dataset(f"{local_location.uri}/tree/g-1").delta(compared_against=1)
    assert [row["id"] for row in delta.get_inserted_rows().read_all().to_pylist()] == ["x"]
    assert [row["id"] for row in delta.get_updated_rows().read_all().to_pylist()] == ["b"]
    assert delta.get_deleted_row_ids().read_all().num_rows == 1
