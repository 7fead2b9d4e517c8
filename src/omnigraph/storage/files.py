"""Reads, writes and lists plain files, on disk or in S3.

In: locations. Out: listings with sizes and times, stamps that show whether a file changed, bytes, and new files. A file
gets its name only when it is complete, so a crash leaves at most a draft whose name starts with a dot. Listings of a
disk report symbolic links and never follow them.
"""

from __future__ import annotations

import io
import os
import stat
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
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.local_tree import walk_tree
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import ObjectStore, open_s3_store
from omnigraph.storage.sync import sync_entries, sync_file

_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file: its path below the listed location, its size, and the time of its last change by the store's clock."""

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
    """The state of a file: its size, and on disk the time of its last change, elsewhere its ETag."""

    size_bytes: int
    version: str

    def __str__(self) -> str:
        return f"{self.size_bytes:,} bytes, {self.version}"


def read_stamp(location: Location) -> FileStamp | None:
    """Return the current state of the file; None if it does not exist."""
    if not location.is_local:
        directory, name = _split_location(location)
        entry = ObjectStore(directory).entry(name)
        return None if entry is None else FileStamp(entry.size, entry.version)
    with translate_errors("read the file", location.uri):
        try:
            return local_stamp(Path(location.uri).stat())
        except FileNotFoundError:
            return None


def local_stamp(status: os.stat_result) -> FileStamp:
    """Return the stamp of a file on disk, in nanoseconds: a file can change twice within a second."""
    seconds, nanoseconds = divmod(status.st_mtime_ns, 10**9)
    time = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return FileStamp(status.st_size, f"modified {time}.{nanoseconds:09d}Z")


def list_files(location: Location) -> tuple[StoredFile, ...]:
    """Return every file below the location, ordered by path; none if it does not exist."""
    return list_tree(location).files


def list_tree(location: Location) -> Listing:
    """Return the files and symbolic links. Raise for a location that is reached through a link below its root."""
    links: list[str] = []
    with translate_errors("list files", location.uri):
        files = tuple(sorted(_iterate_files(location, links), key=lambda file: file.path))
    return Listing(files, tuple(sorted(links)))


def has_more_files(location: Location, count: int) -> bool:
    """Return whether there are more than `count` files below the location; list no more than needed."""
    with translate_errors("list files", location.uri):
        return sum(1 for _ in islice(_iterate_files(location, []), count + 1)) > count


def _iterate_files(location: Location, links: list[str]) -> Iterator[StoredFile]:
    match location.scheme:
        case Scheme.LOCAL:
            for path, status in walk_tree(location):
                if stat.S_ISLNK(status.st_mode):
                    links.append(path)
                else:
                    yield StoredFile(path, status.st_size, status.st_mtime_ns // 1_000)
        case Scheme.S3:
            for page in obstore.list(open_s3_store(location)):
                for meta in page:
                    modified_us = int(meta["last_modified"].timestamp() * _MICROSECONDS)
                    yield StoredFile(str(meta["path"]), int(meta["size"]), modified_us)
        case Scheme.MEMORY:
            raise UsageError(
                "cannot list files of a graph in memory: expected a location on disk or in S3",
                code="uri_is_memory",
                hint="Use a graph on disk or in S3.",
            )


class Compression(Enum):
    """How a text file is compressed. Only an uncompressed file can be read from the middle."""

    NONE = ""
    GZIP = ".gz"
    ZSTD = ".zst"


def compression_of(name: str) -> Compression:
    """Return the compression that the name of a file shows."""
    return next((c for c in (Compression.GZIP, Compression.ZSTD) if name.endswith(c.value)), Compression.NONE)


@contextmanager
def write_file(location: Location) -> Iterator[BinaryIO]:
    """Yield a file to write to. It gets its name when the block ends; an error in the block leaves no file."""
    with translate_errors("write the file", location.uri):
        announce("file.write", location.uri)
        if location.is_local:
            with _draft_on_disk(Path(location.uri), synced=location.is_synced) as draft:
                yield draft
        else:
            with tempfile.TemporaryFile() as draft:
                yield draft
                draft.seek(0)
                directory, name = _split_location(location)
                obstore.put(open_s3_store(directory), name, draft)


def move_file(source: Location, target: Location) -> None:
    """Rename a file on the same disk; replace an existing file of that name."""
    with translate_errors("rename the file", target.uri):
        announce("file.write", target.uri)
        Path(source.uri).replace(target.uri)
        if target.is_synced:
            sync_entries([Path(target.uri)], Path(target.uri).parent)


def file_exists(location: Location) -> bool:
    """Return whether a file or an object of this name exists."""
    return read_stamp(location) is not None


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


def _split_location(location: Location) -> tuple[Location, str]:
    directory, _, name = location.uri.rpartition("/")
    return replace(location, uri=directory), name


def read_bytes(location: Location, start: int, length: int) -> bytes:
    """Read up to `length` bytes from `start`; fewer at the end of the file, none after it."""
    with translate_errors("read the file", location.uri):
        if location.scheme is Scheme.LOCAL:
            with Path(location.uri).open("rb") as file:
                file.seek(start)
                return file.read(length)
        directory, name = _split_location(location)
        if location.scheme is Scheme.MEMORY:
            return (ObjectStore(directory).read(name) or b"")[start : start + length]
        return bytes(obstore.get_range(open_s3_store(directory), name, start=start, length=length))


def open_bytes(location: Location, size: int) -> pa.NativeFile:
    """Open the whole file for Arrow's readers, which may seek in it; `size` is the listed size."""
    with translate_errors("read the file", location.uri):
        if location.scheme is Scheme.LOCAL:
            return pa.OSFile(location.uri, "rb")
        return pa.PythonFile(_Reader(location, size), mode="r")


class _Reader(io.RawIOBase):
    """A file in an object store; each read is one request."""

    def __init__(self, location: Location, size: int) -> None:
        super().__init__()
        self._location = location
        self._size = size
        self._position = 0

    def read(self, length: int = -1) -> bytes:
        remaining = self._size - self._position
        count = remaining if length < 0 else min(length, remaining)
        data = read_bytes(self._location, self._position, count) if count > 0 else b""
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = origin + offset
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
