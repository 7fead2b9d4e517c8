"""Surface guards: a version file names its files in plain bytes, as `find_committed_files` searches for them."""

from __future__ import annotations

import os
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.storage.files import StoredFile, list_files
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.layout import file_group, manifest_version
from omnigraph.storage.lance.references import find_committed_files, read_referenced_files
from omnigraph.storage.location import Location


@pytest.fixture
def dataset(local_location: Location) -> Dataset:
    """A dataset with files of every kind: data, deletions, indexes, a compaction, and an overwrite."""
    location = local_location.child("sample")
    rows = pa.table({"a": list(range(100))})
    for mode in ("create", "append", "append", "append"):
        native = lance.write_dataset(
            rows, location.uri, mode=mode, enable_stable_row_ids=True, data_storage_version="2.2"
        )
    native.delete("a = 1")
    native.delete("a < 30")
    native.create_scalar_index("a", "BTREE")
    native.optimize.compact_files()
    native = lance.write_dataset(rows, location.uri, mode="overwrite")
    _set_times(native)
    return Dataset(location, None, native)


def _set_times(native: lance.LanceDataset) -> None:
    """Set times as if a version were committed every ten seconds, and a file were written before the version below."""
    first: dict[str, int] = {}
    for row in native.tracked_files().read_all().to_pylist():
        first[row["path"]] = min(row["version"], first.get(row["path"], row["version"]))
    for path, version in first.items():
        seconds = 10 * version if manifest_version(path) else 10 * max(1, version - 1) - 1
        os.utime(Path(native.uri, path), (seconds, seconds))


def split_listing(dataset: Dataset) -> tuple[dict[int, int], list[StoredFile]]:
    """Return the versions with their times, and the other files of Lance."""
    times: dict[int, int] = {}
    files = []
    for file in list_files(dataset.location):
        version = manifest_version(file.path)
        if version is not None:
            times[version] = file.modified_us
        elif file_group(file.path) is not None:
            files.append(file)
    return times, files


def test_versions_mention_every_file_that_they_reference(dataset: Dataset) -> None:
    times, files = split_listing(dataset)
    directories = {file.path.partition("/")[0] for file in files}
    assert directories == {"data", "_deletions", "_indices", "_transactions"}
    referenced = read_referenced_files(dataset, ()).by_any
    assert {file.path for file in files} <= referenced
    assert find_committed_files(dataset.location, times, files) == {file.path for file in files}


def test_files_that_were_never_committed_are_not_mentioned(dataset: Dataset) -> None:
    times, files = split_listing(dataset)
    paths = {
        "data": "data/1010101111110010000101100123456789abcdef0123456789.lance",
        "_deletions": "_deletions/0-4-1234567890123456789.arrow",
        "_indices": "_indices/00000000-1111-2222-3333-444444444444/page_data.lance",
        "_transactions": "_transactions/3-00000000-1111-2222-3333-444444444444.txn",
        "another tool": "notes/readme.txt",
        "another tool's data": "_deletions/notes.txt",
    }
    orphans = [StoredFile(path, 1, files[0].modified_us) for path in paths.values()]
    assert find_committed_files(dataset.location, times, orphans) == frozenset()


def test_times_of_files_may_be_wrong(dataset: Dataset) -> None:
    """A copy without times: files that are not in the expected version are searched in the newest one."""
    for path in Path(dataset.location.uri).rglob("*.*"):
        os.utime(path, (1, 1))
    times, files = split_listing(dataset)
    mentioned = find_committed_files(dataset.location, times, files)
    assert mentioned <= {file.path for file in files}
    assert {file.path for file in files if file.path.startswith("_deletions/")} <= mentioned


def test_versions_below_the_smallest_one_are_not_read(dataset: Dataset) -> None:
    newest = dataset.version
    references = read_referenced_files(dataset, range(1, newest), newest)
    assert references.by_retained == references.by_any < read_referenced_files(dataset, ()).by_any
