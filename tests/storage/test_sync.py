"""Which files and directories are synced, and how empty files after a power cut are deleted."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import lance
import pyarrow as pa
import pytest
from lance.fragment import write_fragments

from omnigraph.base.errors import RefusedError
from omnigraph.storage.lance.dataset import create_dataset
from omnigraph.storage.lance.durability import (
    delete_empty_references,
    delete_empty_version_files,
    delete_first_version,
    fragment_files,
    index_files,
    make_durable,
)
from omnigraph.storage.local_tree import LINK_CODE
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.sync import SyncError, sync_entries, sync_file

VERSION_2 = f"_versions/{2**64 - 3:020d}.manifest"


class Syncs:
    """The paths that this process synced; the sync of one of `failures` fails with its error number."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.failures: dict[Path, int] = {}

    def take(self) -> list[Path]:
        paths, self.paths = self.paths, []
        return paths


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    recorded = Syncs()
    fsync = os.fsync

    def record(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        if path in recorded.failures:
            number = recorded.failures[path]
            raise OSError(number, os.strerror(number))
        fsync(descriptor)
        recorded.paths.append(path)

    monkeypatch.setattr(os, "fsync", record)
    return recorded


@pytest.fixture
def synced_location(tmp_path: Path) -> Location:
    return parse_location(str(tmp_path / "graph.omni"), durability="sync")


def test_every_directory_up_to_the_root_is_synced_once(syncs: Syncs, tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "b" / "1", tmp_path / "a" / "b" / "2", tmp_path / "a" / "c" / "3"]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    sync_entries(paths, tmp_path)
    assert syncs.take() == [tmp_path / "a" / "b", tmp_path / "a", tmp_path, tmp_path / "a" / "c"]


def test_a_recreated_directory_is_synced_again(syncs: Syncs, tmp_path: Path) -> None:
    directory = tmp_path / "a"
    for _ in range(2):
        directory.mkdir()
        sync_entries([directory / "file"], tmp_path)
        assert syncs.take() == [directory, tmp_path]
        shutil.rmtree(directory)


def test_sync_without_a_root_stops_at_a_mount_point(
    syncs: Syncs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "mount" / "a" / "b"
    inner.mkdir(parents=True)
    ismount = os.path.ismount
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path / "mount" or ismount(path))
    sync_entries([inner / "file"])
    assert syncs.take() == [inner, inner.parent, tmp_path / "mount"]


def test_sync_without_a_root_stops_at_a_directory_without_permission(syncs: Syncs, tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    syncs.failures[tmp_path] = errno.EACCES
    sync_entries([inner / "file"])
    assert syncs.take() == [inner, inner.parent]
    with pytest.raises(SyncError):
        sync_entries([inner / "file"], tmp_path)
    with pytest.raises(SyncError):
        sync_entries([tmp_path / "file"])


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EBADF, errno.ENOTSUP])
def test_a_file_system_without_directory_syncs_is_not_an_error(syncs: Syncs, tmp_path: Path, number: int) -> None:
    file = tmp_path / "file"
    file.touch()
    syncs.failures.update({tmp_path: number, file: number})
    sync_entries([file], tmp_path)
    with pytest.raises(SyncError):
        sync_file(file)


def test_unwritable_directory_is_an_error(syncs: Syncs, tmp_path: Path) -> None:
    syncs.failures[tmp_path] = errno.EIO
    with pytest.raises(SyncError) as error:
        sync_entries([tmp_path / "file"], tmp_path)
    assert error.value.code == "sync_failed"


def test_large_values_are_synced_with_their_directory(syncs: Syncs, synced_location: Location) -> None:
    schema = pa.schema([pa.field("id", pa.utf8()), lance.blob_field("data")])
    rows = pa.table([pa.array(["a"]), lance.blob_array([b"l" * 6_000_000])], schema=schema)
    dataset = lance.write_dataset(rows.slice(0, 0), synced_location.uri, data_storage_version="2.2")
    fragments = write_fragments(rows, dataset, schema=dataset.schema, data_storage_version="2.2")
    make_durable(synced_location, fragment_files(fragments))
    data = Path(synced_location.uri, "data")
    blobs = [path for path in data.rglob("*") if path.parent != data]
    assert blobs
    assert {*blobs, *(blob.parent for blob in blobs), data} <= set(syncs.take())


def test_an_index_without_a_list_of_files_has_none() -> None:
    assert index_files(SimpleNamespace(uuid="u", files=None)) == ()


def test_empty_versions_and_references_are_deleted(synced_location: Location) -> None:
    create_dataset(synced_location, pa.table({"id": ["a"]}))
    version, reference = _torn_files(Path(synced_location.uri))
    delete_empty_version_files(synced_location, 2)
    delete_empty_references(synced_location)
    assert not version.exists()
    assert [path.name for path in reference.parent.iterdir()] == ["whole.json"]
    assert len(list(version.parent.glob("*.manifest*"))) == 1


def test_a_version_that_is_committed_during_the_delete_is_kept(
    syncs: Syncs, synced_location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = Path(synced_location.uri, VERSION_2)
    version.parent.mkdir(parents=True)
    version.touch()
    rename = Path.rename

    def rename_later(path: Path, target: Path) -> Path:
        path.write_bytes(b"committed by another process")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", rename_later)
    delete_empty_version_files(synced_location, 2)
    assert list(version.parent.iterdir()) == [version]
    assert version.read_bytes() == b"committed by another process"
    assert version.parent in syncs.take()


def test_deletes_follow_no_link(synced_location: Location, tmp_path: Path) -> None:
    root = tmp_path / "graph.omni"
    outside = tmp_path / "outside"
    dataset = synced_location.child("table")
    version, reference = _torn_files(outside)
    root.mkdir()
    (root / "table").symlink_to(outside)
    with pytest.raises(RefusedError) as torn_version:
        delete_empty_version_files(dataset, 2)
    with pytest.raises(RefusedError) as torn_reference:
        delete_empty_references(dataset)
    with pytest.raises(RefusedError) as first_version:
        delete_first_version(dataset)
    assert {error.value.code for error in (torn_version, torn_reference, first_version)} == {LINK_CODE}
    assert version.exists()
    assert reference.exists()
    version.write_bytes(b"whole")
    delete_empty_version_files(dataset, 2)


def test_a_link_to_an_empty_file_is_kept(synced_location: Location, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    version = Path(synced_location.uri, VERSION_2)
    version.parent.mkdir(parents=True)
    version.symlink_to(empty)
    delete_empty_version_files(synced_location, 2)
    assert version.is_symlink()


def _torn_files(dataset: Path) -> tuple[Path, Path]:
    version = dataset / VERSION_2
    reference = dataset / "_refs" / "branches" / "torn.json"
    for path in (version, reference):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    reference.with_name("whole.json").write_text("{}")
    return version, reference
