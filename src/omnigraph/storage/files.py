"""What a load reads: files, directories and globs, local or on S3, become a list of files with sizes and formats.

In: what the user typed. Out: `InputFile` values in a stable order. A name that matches nothing, a file that is
no data file, and an empty list are refused before anything starts. Only names and sizes are read here, never
contents.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

import obstore
import pyarrow as pa

from omnigraph.base.errors import UsageError
from omnigraph.base.failpoints import announce
from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.local_tree import walk_tree
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import ObjectStore, open_s3_store, refuse_missing_bucket
from omnigraph.storage.sync import sync_entries, sync_file

_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file: its path below the listed place, its size, and when the store says it was written."""

    path: str
    size_bytes: int
    modified_us: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The files below a location, ordered by path, and the paths of the symbolic links, which only a disk has."""

    files: tuple[StoredFile, ...]
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What a file is at one time: its size, and on disk the time of its last change, elsewhere its ETag."""

    size_bytes: int
    version: str

    def __str__(self) -> str:
        return f"{self.size_bytes:,} bytes, {self.version}"


def read_stamp(location: Location) -> FileStamp | None:
    """What the file is now; None if it does not exist."""
    if not location.is_local:
        folder, _, name = location.uri.rpartition("/")
        entry = ObjectStore(replace(location, uri=folder)).entry(name)
        return None if entry is None else FileStamp(entry.size, entry.version)
    with substrate_errors("read the file", location.uri):
        try:
            return local_stamp(Path(location.uri).stat())
        except FileNotFoundError:
            return None


def local_stamp(status: os.stat_result) -> FileStamp:
    """The stamp of a file on disk. A second is not enough: a file can change twice in one."""
    seconds, nanoseconds = divmod(status.st_mtime_ns, 10**9)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return FileStamp(status.st_size, f"modified {moment}.{nanoseconds:09d}Z")


def list_files(location: Location) -> tuple[StoredFile, ...]:
    """Every file below the location, ordered by path; empty when there is nothing."""
    return list_tree(location).files


def list_tree(location: Location) -> Listing:
    """The same with the symbolic links. A location that is reached through a link below its root is refused."""
    links: list[str] = []
    with substrate_errors("list files", location.uri):
        files = tuple(sorted(_found(location, links), key=lambda file: file.path))
    return Listing(files, tuple(sorted(links)))


def has_more_files(location: Location, count: int) -> bool:
    """Whether there are more files than so many below the place; the listing ends as soon as that is known."""
    with substrate_errors("list files", location.uri):
        return sum(1 for _ in islice(_found(location, []), count + 1)) > count


def _found(location: Location, links: list[str]) -> Iterator[StoredFile]:
    match location.scheme:
        case Scheme.LOCAL:
            return _list_local(location, links)
        case Scheme.S3:
            return _list_objects(location)
        case Scheme.MEMORY:
            raise UsageError(
                "files in memory cannot be listed with their times",
                code="uri_is_memory",
                hint="use a graph on disk or in S3",
            )


def _list_local(location: Location, links: list[str]) -> Iterator[StoredFile]:
    for entry in walk_tree(location):
        if entry.is_link:
            links.append(entry.path)
        else:
            yield StoredFile(entry.path, entry.size_bytes, entry.modified_us)


def _list_objects(location: Location) -> Iterator[StoredFile]:
    for page in obstore.list(open_s3_store(location)):
        for found in page:
            modified_us = int(found["last_modified"].timestamp() * _MICROSECONDS)
            yield StoredFile(str(found["path"]), int(found["size"]), modified_us)


class Compression(Enum):
    """How the bytes of a text file are packed. Only an unpacked file can be read from the middle."""

    NONE = ""
    GZIP = ".gz"
    ZSTD = ".zst"


def compression_of(name: str) -> Compression:
    """How a file of this name is packed."""
    return next((c for c in (Compression.GZIP, Compression.ZSTD) if name.endswith(c.value)), Compression.NONE)


@contextmanager
def write_file(location: Location) -> Iterator[BinaryIO]:
    """Something to write to. The file has its name when the block ends; an error in the block leaves nothing."""
    with substrate_errors("write the file", location.uri):
        announce("file.write", location.uri)
        if location.is_local:
            with _draft_on_disk(Path(location.uri), synced=location.is_synced) as draft:
                yield draft
        else:
            with tempfile.TemporaryFile() as draft:
                yield draft
                draft.seek(0)
                folder, name = _parent(location)
                obstore.put(open_s3_store(folder), name, draft)


def move_file(source: Location, target: Location) -> None:
    """Give a file on disk another name on the same disk; a file of that name is replaced."""
    with substrate_errors("rename the file", target.uri):
        announce("file.write", target.uri)
        Path(source.uri).replace(target.uri)
        if target.is_synced:
            sync_entries([Path(target.uri)], Path(target.uri).parent)


def file_exists(location: Location) -> bool:
    """Whether there is a file or an object of this name."""
    with substrate_errors("look for the file", location.uri):
        if location.is_local:
            return Path(location.uri).exists()
        folder, name = _parent(location)
        try:
            obstore.head(open_s3_store(folder), name)
        except FileNotFoundError as missing:
            refuse_missing_bucket(missing)
            return False
        return True


@contextmanager
def _draft_on_disk(path: Path, *, synced: bool) -> Iterator[BinaryIO]:
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with draft.open("xb") as file:
            yield file
        if synced:
            sync_file(draft)
        draft.replace(path)
        if synced:
            sync_entries([path], path.parent)
    finally:
        draft.unlink(missing_ok=True)


def _parent(location: Location) -> tuple[Location, str]:
    folder, _, name = location.uri.rpartition("/")
    return Location(location.scheme, folder, location.options), name


def read_bytes(location: Location, start: int, length: int) -> bytes:
    """Up to `length` bytes from `start`; fewer at the end of the file, none behind it."""
    with substrate_errors("read the file", location.uri):
        if location.scheme is Scheme.LOCAL:
            with Path(location.uri).open("rb") as file:
                file.seek(start)
                return file.read(length)
        folder, _, name = location.uri.rpartition("/")
        store = open_s3_store(Location(location.scheme, folder, location.options))
        return bytes(obstore.get_range(store, name, start=start, length=length))


def open_bytes(location: Location, size: int) -> pa.NativeFile:
    """The whole of it as a file that Arrow's readers take and may jump in; `size` is what was listed."""
    with substrate_errors("read the file", location.uri):
        if location.scheme is Scheme.LOCAL:
            return pa.OSFile(location.uri, "rb")
        return pa.PythonFile(_Reader(location, size), mode="r")


class _Reader(io.RawIOBase):
    """A file whose every read is a request of its own."""

    def __init__(self, location: Location, size: int) -> None:
        super().__init__()
        self._location = location
        self._size = size
        self._at = 0

    def read(self, length: int = -1) -> bytes:
        left = self._size - self._at
        wanted = left if length < 0 else min(length, left)
        data = read_bytes(self._location, self._at, wanted) if wanted > 0 else b""
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = origin + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
