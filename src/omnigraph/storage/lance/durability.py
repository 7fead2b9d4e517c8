"""Checks that the files of a write are complete, and syncs them; deletes files that a power cut left empty.

In: the directory of a dataset or of one of its Lance branches, and the files that a write created there, with the sizes
that Lance recorded. Out: nothing, or an error. Lance reports success when the last `write` of a file on a local disk
fails, so only the size on disk shows it (tests/storage/test_surface_durability.py). For version files and control
objects the libraries report such a failure, so they are only synced. Object stores upload a file completely or not at
all: there the driver checks only that it exists with its size. A delete never follows a symbolic link below the root.
"""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import randbits
from typing import Any, Final

import lance
import pyarrow as pa
from lance.fragment import DataFile, FragmentMetadata

from omnigraph.base import limits
from omnigraph.base.errors import Fact, NotFoundError, StorageError
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.deletion_file import count_deleted_rows
from omnigraph.storage.local_tree import require_no_link, unlink_files
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.sync import sync_entries, sync_file

_MAGIC: Final = b"LANC"
_LANCE_SUFFIX: Final = ".lance"
VERSION_MAX: Final = 2**64 - 1
"""Lance names a version file by the difference from this number, so that a listing starts with the newest version."""
VERSION_DIGITS: Final = 20
_DRAFT_BITS: Final = 48


class IncompleteFileError(StorageError):
    """A file that a write needs is missing or has a different size than was written."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that no version references yet: its path below the dataset or its Lance branch, and its size.

    Lance does not record the size of a deletion file (None): its content shows whether it is complete.
    """

    path: str
    size_bytes: int | None


def fragment_files(
    fragments: Iterable[FragmentMetadata], base: lance.LanceDataset | None = None
) -> tuple[StagedFile, ...]:
    """Return the files of fragments, without those of `base`, the version from which they were staged."""
    existing_paths: dict[int, set[str]] = {}
    files: list[StagedFile] = []
    for fragment in fragments:
        if base is not None and fragment.id not in existing_paths:  # new fragments share the id 0
            before = base.get_fragment(fragment.id)
            existing = [] if before is None else _fragment_files(before.metadata)
            existing_paths[fragment.id] = {file.path for file in existing}
        unchanged_paths = existing_paths.get(fragment.id, set())
        files += [file for file in _fragment_files(fragment) if file.path not in unchanged_paths]
    return tuple(files)


def file_path(file: DataFile) -> str:
    """Return the path of a data file below the directory `data`.

    `DataFile.path` creates a class in every call, which takes longer than all else that is read from the metadata:
    `tests/storage/test_surface_versions.py::test_path_of_a_data_file`.
    """
    return str(file._path)


def index_files(index: Any) -> tuple[StagedFile, ...]:
    """Return the files of an index segment, from Lance's description."""
    return tuple(StagedFile(f"_indices/{index.uuid}/{file.path}", file.size_bytes) for file in index.files or ())


def operation_files(base: lance.LanceDataset, operation: Any) -> tuple[StagedFile, ...]:
    """Return the files that a staged operation adds to the version from which it was staged."""
    fragments: list[FragmentMetadata] = []
    for name in ("fragments", "new_fragments", "updated_fragments"):
        fragments += getattr(operation, name, ())
    for group in getattr(operation, "groups", ()):
        fragments += group.new_fragments
    indexes = [file for index in getattr(operation, "new_indices", ()) for file in index_files(index)]
    return (*fragment_files(fragments, base), *indexes)


def make_durable(directory: Location, files: Sequence[StagedFile]) -> None:
    """Require that files which this process wrote are complete, and sync them and their directories.

    An object store acknowledged each upload, so nothing is checked there.
    """
    if not directory.is_local:
        return
    for file in files:
        _require_complete(directory, file)
    if not directory.is_synced:
        return
    paths = [Path(directory.uri, file.path) for file in files]
    paths += [blob for path in paths for blob in _blob_files(path)]
    for path in paths:
        sync_file(path)
    sync_entries(paths, Path(directory.uri))


def require_staged(directory: Location, files: Sequence[StagedFile]) -> None:
    """Require that every file exists with its size in the store that this process uses.

    The last check before a write is armed: a worker may have written to a different store.
    """
    match directory.scheme:
        case Scheme.MEMORY:
            return
        case Scheme.LOCAL:
            for file in files:
                _require_size(directory, file, _local_size(Path(directory.uri, file.path)))
        case Scheme.S3:
            store = ObjectStore(directory)
            with ThreadPoolExecutor(limits.FILE_CHECK_THREADS) as threads:
                entries = threads.map(lambda file: store.entry(file.path), files)
                for file, entry in zip(files, entries, strict=True):
                    _require_size(directory, file, None if entry is None else entry.size)


def version_file(version: int) -> str:
    """Return the path of a version file below the dataset or its Lance branch."""
    return f"_versions/{VERSION_MAX - version:0{VERSION_DIGITS}d}.manifest"


def make_version_durable(directory: Location, version: int) -> None:
    """Sync the version file that was just committed. Lance does not need the other files that a commit writes.

    Raises `SyncError`: the version exists, but a power cut may undo it.
    """
    if directory.is_synced:
        path = Path(directory.uri, _version_path(directory, version))
        sync_file(path)
        sync_entries([path], Path(directory.uri))


def make_branch_durable(location: Location, branch: str, directory: Location, version: int) -> None:
    """Sync a Lance branch that was just created in `directory`: its first version, and the reference to it."""
    make_version_durable(directory, version)
    if location.is_synced:
        root = Path(location.uri)
        reference = root / "_refs" / "branches" / f"{branch}.json"
        sync_file(reference)
        sync_entries([reference, Path(directory.uri)], root)


def make_indexes_durable(directory: Location, native: lance.LanceDataset) -> None:
    """Check and sync the files of committed index segments: Lance finishes some of them only during the commit."""
    with translate_errors("check an index", directory.uri):
        try:
            transaction = native.read_transaction(native.version)
        except TypeError:  # Lance cannot read a compaction by an external tool, see lance/transactions.py
            transaction = None
    operation = None if transaction is None else transaction.operation
    for index in getattr(operation, "new_indices", ()):
        if index.base_id is None:
            make_durable(directory, index_files(index))
    make_version_durable(directory, native.version)


def make_change_durable(directory: Location, newer: lance.LanceDataset, base: lance.LanceDataset | None) -> None:
    """Check and sync every file that a version has and an older one does not have; every file if `base` is None.

    For recovery, which finds versions that another process committed and perhaps did not sync.
    """
    with translate_errors("compare two versions", directory.uri):
        fragments = [fragment.metadata for fragment in newer.get_fragments()]
        make_durable(directory, fragment_files(fragments, base))
        first = newer.version if base is None else base.version + 1
    for version in range(first, newer.version):
        with suppress(NotFoundError):  # an external tool deleted it
            with translate_errors("open a version", directory.uri):
                native = newer.checkout_version(version)
            make_indexes_durable(directory, native)
    make_indexes_durable(directory, newer)


def find_newest_complete_version(directory: Location) -> int | None:
    """If the newest version file is empty, return the newest version whose file is not, or 0 without one; else None.

    A power cut may leave a file without its content. Its commit was never acknowledged.
    """
    if not directory.is_local:
        return None
    try:
        sizes = {
            VERSION_MAX - int(path.stem): path.stat().st_size
            for path in Path(directory.uri, "_versions").glob("*.manifest")
            if path.stem.isdecimal() and len(path.stem) == VERSION_DIGITS
        }
    except OSError:  # the caller has the library's error, which says why the directory cannot be read
        return None
    newest = max((version for version, size in sizes.items() if size), default=0)
    return None if newest == max(sizes, default=0) else newest


def delete_empty_version_files(directory: Location, version: int) -> None:
    """Delete the file of a version to commit, and those above it, if a power cut left them empty."""
    while directory.is_local and _delete_if_empty(directory, _version_path(directory, version)):
        version += 1


def delete_first_version(directory: Location) -> None:
    """Undo the creation of a dataset on a local disk that could not be synced."""
    with translate_errors("delete a version", directory.uri):
        unlink_files(directory, [_version_path(directory, 1)])


def delete_empty_references(location: Location) -> None:
    """Delete empty references to Lance branches, which a power cut leaves: with one, Lance cannot list branches."""
    if location.is_local:
        for path in Path(location.uri, "_refs", "branches").glob("*.json"):
            _delete_if_empty(location, f"_refs/branches/{path.name}")


def _delete_if_empty(directory: Location, path: str) -> bool:
    """Delete a file if it is empty, and return whether it was.

    Libraries name a file when it has its content, so no process is writing an empty one. Another process may delete the
    empty file and commit a real one of that name after the first check. So the file is renamed, to a name that object
    stores on disk do not list, and checked again.
    """
    file = Path(directory.uri, path)
    with translate_errors("delete an empty file", str(file)), suppress(FileNotFoundError):
        if not _is_empty(file):
            return False
        require_no_link(directory, path.rpartition("/")[0])
        draft_path = f"{path}#{randbits(_DRAFT_BITS)}"
        draft = Path(directory.uri, draft_path)
        file.rename(draft)
        is_empty = _is_empty(draft)
        if not is_empty:
            file.hardlink_to(draft)
            if directory.is_synced:
                sync_entries([file], Path(directory.uri))
        unlink_files(directory, [draft_path])
        return is_empty
    return False


def _is_empty(file: Path) -> bool:
    """Return whether it is a file without content; False for a symbolic link."""
    status = file.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


def _fragment_files(fragment: FragmentMetadata) -> list[StagedFile]:
    """Return the files of a fragment in the directory of its own Lance branch."""
    files = [
        StagedFile(f"data/{file_path(file)}", file.file_size_bytes) for file in fragment.files if file.base_id is None
    ]
    deletions = fragment.deletion_file
    if deletions is not None and deletions.base_id is None:
        files.append(StagedFile(deletions.path(fragment.id, ""), None))
    return files


def _require_complete(directory: Location, file: StagedFile) -> None:
    """Compare the size; if Lance recorded none, or the size that it read from the disk, read the end of the file."""
    path = Path(directory.uri, file.path)
    size = _local_size(path)
    _require_size(directory, file, size)
    with translate_errors("check a file", str(path)):
        if file.path.endswith(_LANCE_SUFFIX):
            is_complete = _ends_like_lance(path)
        else:
            is_complete = file.size_bytes is not None or _is_complete_deletion_file(path)
    if not is_complete:
        raise _incomplete_file(directory, file, size)


def _require_size(directory: Location, file: StagedFile, size: int | None) -> None:
    expected = file.size_bytes
    if size is None or (expected is None and size == 0) or (expected is not None and size != expected):
        raise _incomplete_file(directory, file, size)


def _local_size(path: Path) -> int | None:
    with translate_errors("check a file", str(path)):
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None


def _incomplete_file(directory: Location, file: StagedFile, size: int | None) -> IncompleteFileError:
    uri = f"{directory.uri}/{file.path}"
    facts: dict[str, Fact] = {"uri": uri, "expected": file.size_bytes, "actual": size}
    if size is None:
        return IncompleteFileError(
            f"staged file is missing: {uri}",
            code="file_missing",
            hint="Nothing was written. Check that every worker writes to the same store as this process, then retry.",
            facts=facts,
        )
    expected = "more" if file.size_bytes is None else f"{file.size_bytes:,}"
    sizes = f"expected {expected} bytes, got {size:,}"
    if directory.is_local and (cause := _no_space_cause(Path(uri), (file.size_bytes or size) - size)):
        return IncompleteFileError(
            f"{cause}: a file was truncated, {sizes}: {uri}",
            code="disk_full",
            hint="Nothing was written. Free some space or raise the limit, then retry.",
            facts=facts,
        )
    return IncompleteFileError(
        f"a file was truncated while it was written, {sizes}: {uri}",
        code="file_incomplete",
        hint="Nothing was written. Check the disk and its quota, then retry.",
        facts=facts,
    )


def _no_space_cause(path: Path, missing: int) -> str | None:
    """Return whether the disk or the limit of this process explains the missing bytes."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return None
    if disk.f_bavail * disk.f_frsize < max(missing, disk.f_frsize):
        return "disk full"
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = path.stat().st_size
    return "file size limit reached" if limit != resource.RLIM_INFINITY and size + missing >= limit else None


def _blob_files(path: Path) -> list[Path]:
    """Return the blob files of a data file, in a directory of its name. Lance itself checks their sizes."""
    directory = path.with_suffix("")
    return sorted(directory.iterdir()) if path.suffix == _LANCE_SUFFIX and directory.is_dir() else []


def _ends_like_lance(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-len(_MAGIC), os.SEEK_END)
        return file.read() == _MAGIC


def _is_complete_deletion_file(path: Path) -> bool:
    """Return whether a deletion file is complete: a truncated one would make Lance end the process."""
    try:
        count_deleted_rows(path.name, path.read_bytes())
    except (ValueError, pa.ArrowException):
        return False
    return True


def _version_path(directory: Location, version: int) -> str:
    """Return the path of an existing version file, or else the name in Lance's first naming scheme."""
    path = version_file(version)
    return path if Path(directory.uri, path).exists() else f"_versions/{version}.manifest"
