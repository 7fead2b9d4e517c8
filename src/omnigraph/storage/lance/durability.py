"""Checks that files which a write relies on are whole, and syncs them.

In: a directory of a dataset or of one of its Lance branches, and the files that a write created there, with the sizes
that Lance recorded. Out: nothing, or an error. Lance reports success when the last `write` of a file on a local disk
fails, so the size on disk is the only evidence (tests/storage/test_surface_durability.py). A version file and an
object of ours are written by a library that reports the failure; only their sync is left to do. Object stores upload
a file whole or not at all: there the driver asks only whether it exists with its size. Also finds and deletes version
files of which a power cut left only the name; a delete never follows a symbolic link below the graph's root.
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
from lance.fragment import FragmentMetadata

from omnigraph.base import limits
from omnigraph.base.errors import Fact, NotFoundError, StorageError
from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.lance.deletion_file import count_deleted_rows
from omnigraph.storage.local_tree import require_no_link, unlink_files
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.sync import sync_entries, sync_file

_MAGIC: Final = b"LANC"
_LANCE_SUFFIX: Final = ".lance"
_VERSION_MAX: Final = 2**64 - 1
_VERSION_DIGITS: Final = 20
_DRAFT_BITS: Final = 48


class IncompleteFileError(StorageError):
    """A file that a write needs is missing, or has another size than was written."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that no version references yet: its path below the dataset or its Lance branch, and its size.

    Lance does not record the size of a deletion file (None): its content says whether it is whole.
    """

    path: str
    size_bytes: int | None


def fragment_files(
    fragments: Iterable[FragmentMetadata], base: lance.LanceDataset | None = None
) -> tuple[StagedFile, ...]:
    """The files of fragments, without those that `base`, the version they were staged from, has already."""
    existing: dict[int, set[str]] = {}
    files: list[StagedFile] = []
    for fragment in fragments:
        if base is not None and fragment.id not in existing:
            present = base.get_fragment(fragment.id)
            existing[fragment.id] = (
                set() if present is None else {file.path for file in _fragment_files(present.metadata)}
            )
        before = existing.get(fragment.id, set())
        files += [file for file in _fragment_files(fragment) if file.path not in before]
    return tuple(files)


def index_files(index: Any) -> tuple[StagedFile, ...]:
    """The files of one segment of an index, as Lance describes it."""
    return tuple(
        StagedFile(f"_indices/{index.uuid}/{file.path}", file.size_bytes) for file in index.files or ()
    )


def operation_files(base: lance.LanceDataset, operation: Any) -> tuple[StagedFile, ...]:
    """The files that a staged operation adds to the version it was staged from."""
    fragments: list[FragmentMetadata] = []
    for name in ("fragments", "new_fragments", "updated_fragments"):
        fragments += getattr(operation, name, ())
    for group in getattr(operation, "groups", ()):
        fragments += group.new_fragments
    indexes = [file for index in getattr(operation, "new_indices", ()) for file in index_files(index)]
    return (*fragment_files(fragments, base), *indexes)


def make_durable(place: Location, files: Sequence[StagedFile]) -> None:
    """Require that files which this process wrote are whole, and sync them and their directories.

    An object store answered for each upload when it ended, so there is nothing to do for one.
    """
    if not place.is_local:
        return
    for file in files:
        _require_whole(place, file)
    if not place.is_synced:
        return
    paths = [Path(place.uri, file.path) for file in files]
    paths += [blob for path in paths for blob in _blobs_beside(path)]
    for path in paths:
        sync_file(path)
    sync_entries(paths, Path(place.uri))


def require_staged(place: Location, files: Sequence[StagedFile]) -> None:
    """Require that every file exists with its size in the store as this process reaches it.

    The last check before a write is armed: a worker may have written to another store than this one.
    """
    match place.scheme:
        case Scheme.MEMORY:
            return
        case Scheme.LOCAL:
            for file in files:
                _require_size(place, file, _local_size(place, file))
        case Scheme.S3:
            store = ObjectStore(place)
            with ThreadPoolExecutor(limits.FILE_CHECK_THREADS) as threads:
                entries = threads.map(lambda file: store.entry(file.path), files)
                for file, entry in zip(files, entries, strict=True):
                    _require_size(place, file, None if entry is None else entry.size)


def make_version_durable(place: Location, version: int) -> None:
    """Sync the version file that was just committed. Lance can do without the other files that a commit writes.

    Raises `SyncError`: the version is there, and may be lost in a power cut.
    """
    if place.is_synced:
        path = Path(place.uri, _version_path(place, version))
        sync_file(path)
        sync_entries([path], Path(place.uri))


def make_branch_durable(location: Location, branch: str, place: Location, version: int) -> None:
    """Sync a Lance branch that was just created at `place`: its first version, and the reference that names it."""
    make_version_durable(place, version)
    if location.is_synced:
        root = Path(location.uri)
        reference = root / "_refs" / "branches" / f"{branch}.json"
        sync_file(reference)
        sync_entries([reference, Path(place.uri)], root)


def make_indexes_durable(place: Location, native: lance.LanceDataset) -> None:
    """Check and sync what the commit of index segments wrote: Lance finishes some of their files only then."""
    for index in _new_indexes(place, native):
        if index.base_id is None:
            make_durable(place, index_files(index))
    make_version_durable(place, native.version)


def make_change_durable(place: Location, moved: lance.LanceDataset, base: lance.LanceDataset | None) -> None:
    """Check and sync everything that a version of a dataset has and an older one has not; all if that is collected.

    For recovery, which finds versions that another process committed and perhaps did not sync.
    """
    with substrate_errors("compare two versions", place.uri):
        fragments = [fragment.metadata for fragment in moved.get_fragments()]
        make_durable(place, fragment_files(fragments, base))
        first = moved.version if base is None else base.version + 1
    for version in range(first, moved.version):
        with suppress(NotFoundError):  # another tool collected it
            make_indexes_durable(place, _version_of(place, moved, version))
    make_indexes_durable(place, moved)


def find_newest_whole_version(place: Location) -> int | None:
    """The newest version below version files without any content, 0 if there is none; None if no such files are newest.

    A power cut may leave the name of a file and not its content. Its commit was never acknowledged.
    """
    if not place.is_local:
        return None
    try:
        sizes = {
            _VERSION_MAX - int(path.stem): path.stat().st_size
            for path in Path(place.uri, "_versions").glob("*.manifest")
            if path.stem.isdecimal() and len(path.stem) == _VERSION_DIGITS
        }
    except OSError:  # the error of the library, which the caller has, says why nothing can be read
        return None
    newest = max((version for version, size in sizes.items() if size), default=0)
    return None if newest == max(sizes, default=0) else newest


def delete_torn_versions(place: Location, version: int) -> None:
    """Before `version` is committed: delete its file, and those above it, if a power cut left only their names."""
    while place.is_local and _delete_if_empty(place, _version_path(place, version)):
        version += 1


def delete_first_version(place: Location) -> None:
    """Take back the creation of a dataset on a local disk that could not be synced."""
    with substrate_errors("delete a version", place.uri):
        unlink_files(place, [_version_path(place, 1)])


def delete_torn_references(location: Location) -> None:
    """Delete the references to Lance branches of which a power cut left only the name: Lance could not list any."""
    if location.is_local:
        for path in Path(location.uri, "_refs", "branches").glob("*.json"):
            _delete_if_empty(location, f"_refs/branches/{path.name}")


def _delete_if_empty(place: Location, path: str) -> bool:
    """Delete a file if it is empty, and return whether it was.

    Libraries give a file its name when it has its content, so no process is just writing it. Another process may
    delete the empty file and commit a real one of that name after the first check. So the file is renamed, to a name
    that object stores on disk do not list, and checked again.
    """
    file = Path(place.uri, path)
    with substrate_errors("delete an empty file", str(file)), suppress(FileNotFoundError):
        if not _is_empty(file):
            return False
        require_no_link(place, path.rpartition("/")[0])
        draft_path = f"{path}#{randbits(_DRAFT_BITS)}"
        draft = Path(place.uri, draft_path)
        file.rename(draft)
        is_empty = _is_empty(draft)
        if not is_empty:
            file.hardlink_to(draft)
            if place.is_synced:
                sync_entries([file], Path(place.uri))
        unlink_files(place, [draft_path])
        return is_empty
    return False


def _is_empty(file: Path) -> bool:
    """Whether it is a file without content. A symbolic link is not."""
    status = file.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


def _version_of(place: Location, native: lance.LanceDataset, version: int) -> lance.LanceDataset:
    with substrate_errors("open a version", place.uri):
        return native.checkout_version(version)


def _new_indexes(place: Location, native: lance.LanceDataset) -> Sequence[Any]:
    with substrate_errors("check an index", place.uri):
        try:
            transaction = native.read_transaction(native.version)
        except TypeError:  # of a compaction by another tool, see storage/operations.py
            return ()
    return getattr(None if transaction is None else transaction.operation, "new_indices", ())


def _fragment_files(fragment: FragmentMetadata) -> list[StagedFile]:
    """The files of a fragment in the directory of its own Lance branch."""
    files = [
        StagedFile(f"data/{file.path}", file.file_size_bytes)
        for file in fragment.files
        if file.base_id is None
    ]
    deletions = fragment.deletion_file
    if deletions is not None and deletions.base_id is None:
        files.append(StagedFile(deletions.path(fragment.id, ""), None))
    return files


def _require_whole(place: Location, file: StagedFile) -> None:
    """Compare the size; where Lance recorded none, or recorded what it found, read how the file ends."""
    _require_size(place, file, _local_size(place, file))
    path = Path(place.uri, file.path)
    with substrate_errors("check a file", str(path)):
        if file.path.endswith(_LANCE_SUFFIX):
            is_whole = _ends_like_lance(path)
        elif file.size_bytes is None:
            is_whole = _is_whole_deletion_file(path)
        else:
            is_whole = True
    if not is_whole:
        raise _incomplete(place, file, path.stat().st_size)


def _require_size(place: Location, file: StagedFile, size: int | None) -> None:
    expected = file.size_bytes
    if size is None or (expected is None and size == 0) or (expected is not None and size != expected):
        raise _incomplete(place, file, size)


def _local_size(place: Location, file: StagedFile) -> int | None:
    path = Path(place.uri, file.path)
    with substrate_errors("check a file", str(path)):
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None


def _incomplete(place: Location, file: StagedFile, size: int | None) -> IncompleteFileError:
    uri = f"{place.uri}/{file.path}"
    facts: dict[str, Fact] = {"uri": uri, "expected": file.size_bytes, "actual": size}
    if size is None:
        return IncompleteFileError(
            f"a written file is missing: {uri}",
            code="file_missing",
            hint="Check that every worker writes to the same store as this process, then retry.",
            facts=facts,
        )
    expected = "more" if file.size_bytes is None else f"{file.size_bytes:,}"
    sizes = f"expected {expected} bytes, got {size:,}"
    if place.is_local and (why := _why_no_space(Path(uri), (file.size_bytes or size) - size)):
        return IncompleteFileError(
            f"{why}: a file was cut off, {sizes}: {uri}",
            code="disk_full",
            hint="Free some space or raise the limit, then retry.",
            facts=facts,
        )
    return IncompleteFileError(
        f"a file was cut off while it was written, {sizes}: {uri}",
        code="file_incomplete",
        hint="Check the disk and its quota, then retry.",
        facts=facts,
    )


def _why_no_space(path: Path, missing: int) -> str | None:
    """Whether the disk or the limit of this process explains that bytes are missing."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return None
    if disk.f_bavail * disk.f_frsize < max(missing, disk.f_frsize):
        return "disk full"
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = path.stat().st_size
    return "file size limit reached" if limit != resource.RLIM_INFINITY and size + missing >= limit else None


def _blobs_beside(path: Path) -> list[Path]:
    """The files with large values of a data file, in a directory of its name. Lance checks their sizes itself."""
    folder = path.with_suffix("")
    return sorted(folder.iterdir()) if path.suffix == _LANCE_SUFFIX and folder.is_dir() else []


def _ends_like_lance(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-len(_MAGIC), os.SEEK_END)
        return file.read() == _MAGIC


def _is_whole_deletion_file(path: Path) -> bool:
    """Whether every byte is there: a cut-off one would end the process within Lance."""
    try:
        count_deleted_rows(path.name, path.read_bytes())
    except (ValueError, pa.ArrowException):
        return False
    return True


def _version_path(place: Location, version: int) -> str:
    """The path of a version file below the dataset or its Lance branch."""
    path = f"_versions/{_VERSION_MAX - version:020d}.manifest"
    return path if Path(place.uri, path).exists() else f"_versions/{version}.manifest"
