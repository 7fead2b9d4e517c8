"""Nothing outside a graph's directory is deleted: symbolic links below the root are never followed.

The root itself may be reached through a link. Each test creates a link to a directory with old files outside.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph.base.errors import OmnigraphError, RefusedError
from omnigraph.base.failpoints import Failpoint
from omnigraph.graph.create import NewGraph, create_graph
from omnigraph.graph.manifest.layout import GRAPH_INDEX, INIT_MARKERS, MANIFEST, SCRATCH
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.scratch import Scratch, open_scratch
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.schema.build import build_catalog
from omnigraph.schema.parser import parse_schema
from omnigraph.storage.lance.commit import commit_branch, remove_escaped_dirs
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.lance.delete import delete_branch, delete_files, delete_fragments
from omnigraph.storage.local_tree import LINK_CODE
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.graph.test_create import start_init
from tests.graph.writers import COMPANY, PERSON, SCHEMA, TABLES, Change, create, read_contents, run
from tests.maintenance.cleaning import DAY, Aging, Place, errors_of, files_of
from tests.storage.raw_writes import stage_append
from tests.storage.samples import make_people, people

UNKNOWN = f"nodes/{'0' * 16}-{'f' * 16}"
KEEP_ONE = CleanupPolicyOptions(keep_versions=1)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a directory outside the graph, with old files and an empty directory."""
    folder = tmp_path / "outside"
    (folder / "data").mkdir(parents=True)
    (folder / "empty").mkdir()
    for name in ("notes.txt", "data/old.lance"):
        (folder / name).write_text("mine")
        os.utime(folder / name, (1_000_000_000,) * 2)
    return folder


@pytest.fixture
def aging(tmp_path: Path) -> Aging:
    """Return a graph with three commits, a day apart."""
    aging = Aging(parse_location(str(tmp_path / "graph.omni")))
    create(aging.location)
    for name in "ab":
        aging.later(DAY)
        run(aging.location, [Change(PERSON, insert=(name,)), Change(COMPANY, insert=(name,))])
    aging.later(5 * DAY)
    return aging


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def link(root: Location, relative: str, target: Path) -> Path:
    path = Path(root.uri, relative)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target, target_is_directory=True)
    return path


def clean(aging: Aging) -> dict[str, str]:
    """Delete with `cleanup`, and return the errors of tables."""
    aging.later(0)
    confirmed = replace(KEEP_ONE, confirm=True)
    rows = cleanup_all_tables(Place(aging.location), confirmed, environment=aging.environment)
    assert files_of(rows), "something was deleted"
    return errors_of(rows)


@pytest.mark.parametrize("path", [UNKNOWN, f"{UNKNOWN}/data", f"edges/{'0' * 16}-{'f' * 16}", "nodes/elsewhere"])
def test_cleanup_does_not_follow_a_link(aging: Aging, outside: Path, path: str) -> None:
    before = contents(outside)
    planted = link(aging.location, path, outside)
    assert clean(aging) == {}
    assert contents(outside) == before
    assert planted.is_symlink()


@pytest.mark.parametrize("path", ["_indices/planted", "data/planted", "tree/planted", "planted"])
def test_cleanup_does_not_follow_a_link_inside_a_table(aging: Aging, outside: Path, path: str) -> None:
    before = contents(outside)
    table = read_snapshot(aging.location).tables[PERSON].path
    planted = link(aging.location, f"{table}/{path}", outside)
    assert clean(aging) == {}
    assert contents(outside) == before
    assert planted.is_symlink()


def test_cleanup_reports_a_table_that_was_replaced_by_a_link(aging: Aging, tmp_path: Path) -> None:
    """The table is still read through the link; the other tables are cleaned."""
    table = Path(aging.location.uri, read_snapshot(aging.location).tables[PERSON].path)
    moved = tmp_path / "moved"
    table.rename(moved)
    table.symlink_to(moved, target_is_directory=True)
    before = contents(moved)
    errors = clean(aging)
    assert list(errors) == [PERSON]
    assert f"{table} is a symbolic link" in errors[PERSON]
    assert contents(moved) == before
    assert set(read_contents(aging.location)[PERSON]) == {"a", "b"}


@pytest.mark.parametrize("folder", [SCRATCH, GRAPH_INDEX])
def test_cleanup_does_not_follow_linked_directories(aging: Aging, outside: Path, folder: str) -> None:
    before = contents(outside)
    shutil.rmtree(Path(aging.location.uri, folder), ignore_errors=True)
    link(aging.location, folder, outside)
    assert list(clean(aging)) == [folder]
    assert contents(outside) == before


def test_cleanup_stops_when_the_manifest_is_a_link(aging: Aging, tmp_path: Path) -> None:
    manifest = Path(aging.location.uri, MANIFEST)
    moved = tmp_path / "moved"
    manifest.rename(moved)
    manifest.symlink_to(moved, target_is_directory=True)
    before = contents(moved), aging.files()
    with pytest.raises(RefusedError) as caught:
        clean(aging)
    assert caught.value.code == LINK_CODE
    assert (contents(moved), aging.files()) == before


def test_graph_below_a_link_is_cleaned(aging: Aging, tmp_path: Path) -> None:
    """Also by the name of the link, as a worker may use it that mounts the disk elsewhere."""
    (tmp_path / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
    parsed = parse_location(str(tmp_path / "elsewhere" / "graph.omni"))
    assert parsed == aging.location
    seen = replace(aging.location, uri=f"{tmp_path}/elsewhere/graph.omni")
    ObjectStore(seen.child(f"{SCRATCH}/x")).create("keys", b"x")
    assert ObjectStore(seen).delete_below(f"{SCRATCH}/x") == 1
    delete_files(seen.child(read_snapshot(seen).tables[PERSON].path), ["data/none.lance"])
    aging.location = parsed
    assert clean(aging) == {}


@pytest.mark.parametrize("planted", [UNKNOWN, "nodes"])
def test_init_with_a_changed_marker_deletes_nothing_outside(
    local_location: Location, outside: Path, planted: str
) -> None:
    """The marker of a killed init names a directory behind the link."""
    killed = start_init(local_location, f"{Failpoint.INIT_MANIFEST_BEFORE}=kill")
    assert killed.returncode == -signal.SIGKILL
    root = Path(local_location.uri)
    (marker,) = (root / INIT_MARKERS).iterdir()
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "paths": [UNKNOWN]}))
    shutil.rmtree(root / "nodes")
    if planted == "nodes":
        (outside / UNKNOWN.partition("/")[2]).mkdir()
        (outside / UNKNOWN.partition("/")[2] / "precious").touch()
    before = contents(outside)
    place = link(local_location, planted, outside)
    with pytest.raises(OmnigraphError) as caught:
        create_graph(local_location, NewGraph(SCHEMA, build_catalog(parse_schema(SCHEMA, "s")), "me"))
    assert caught.value.code == "directory_not_empty"
    assert contents(outside) == before
    assert place.is_symlink()


def test_init_stops_when_the_manifest_is_a_link(local_location: Location, tmp_path: Path) -> None:
    """Only the manifest can tell whether the tables of a marker belong to a graph."""
    killed = start_init(local_location, f"{Failpoint.INIT_UNMARK_BEFORE}=kill")
    assert killed.returncode == -signal.SIGKILL
    manifest = Path(local_location.uri, MANIFEST)
    manifest.rename(tmp_path / "moved")
    manifest.symlink_to(tmp_path / "moved", target_is_directory=True)
    with pytest.raises(RefusedError) as caught:
        create_graph(local_location, NewGraph(SCHEMA, build_catalog(parse_schema(SCHEMA, "s")), "me"))
    assert caught.value.code == LINK_CODE
    assert read_contents(local_location).keys() == set(TABLES)


def test_scratch_is_not_written_or_deleted_through_a_link(local_location: Location, outside: Path) -> None:
    create(local_location)
    link(local_location, SCRATCH, outside)
    before = contents(outside)
    with open_scratch(local_location) as scratch:
        (outside / scratch.location.uri.rpartition("/")[2]).mkdir()
        (outside / scratch.location.uri.rpartition("/")[2] / "precious").touch()
        with pytest.raises(RefusedError) as caught:
            scratch.write("keys", b"x")
    assert caught.value.code == LINK_CODE
    assert len(contents(outside) - before) == 2
    with pytest.raises(RefusedError):
        Scratch(local_location.child(f"{SCRATCH}/x")).write("keys", b"x")
    assert not (outside / "x").exists()


def test_files_fragments_and_branches_of_a_linked_dataset_are_kept(tmp_path: Path) -> None:
    root = parse_location(str(tmp_path / "graph.omni"))
    real = make_people(root.child("nodes/real"), ["a"])
    commit_branch(real, "g-1")
    dataset = open_dataset(root.child("nodes/real"))
    operation: Any = stage_append(dataset, people(["b"])).native.operation
    moved = tmp_path / "moved"
    Path(root.uri, "nodes/real").rename(moved)
    Path(root.uri, "nodes/real").symlink_to(moved, target_is_directory=True)
    before = contents(moved)
    deletes = (
        lambda: delete_files(dataset.location, ["_versions/latest_version_hint.json"]),
        lambda: delete_fragments(dataset, operation.fragments),
        lambda: delete_branch(dataset, "g-1"),
        lambda: ObjectStore(root).delete("nodes/real/_versions/latest_version_hint.json"),
        lambda: ObjectStore(root).delete_below("nodes/real"),
        lambda: ObjectStore(root.child("nodes/real")).delete_below("data"),
        lambda: ObjectStore(root).remove_empty_directories("nodes/real"),
    )
    for delete in deletes:
        with pytest.raises(RefusedError) as caught:
            delete()
        assert caught.value.code == LINK_CODE
        assert contents(moved) == before


def test_directory_is_deleted_without_the_targets_of_its_links(local_location: Location, outside: Path) -> None:
    store = ObjectStore(local_location)
    store.create("a/own", b"x")
    store.create("a/b/own", b"x")
    link(local_location, "a/b/planted", outside)
    link(local_location, "a/notes", outside / "notes.txt")
    before = contents(outside)
    assert [entry.path for entry in store.list("a")] == ["a/b/own", "a/notes", "a/own"]
    assert store.delete_below("a") == 2
    assert contents(outside) == before
    assert contents(Path(local_location.uri, "a")) == {"b", "b/planted", "notes"}


def test_empty_directories_behind_an_escaped_name_are_kept(tmp_path: Path, outside: Path) -> None:
    """Only a directory that Lance creates under the escaped spelling of a path is removed."""
    (tmp_path / "zo%C3%AB").symlink_to(outside, target_is_directory=True)
    before = contents(outside)
    with remove_escaped_dirs(parse_location(str(tmp_path / "zoë" / "t"))):
        (tmp_path / "zo%C3%AB" / "t" / "_refs" / "branches").mkdir(parents=True)
    assert contents(outside) == before
