"""Every file below a place, with its size and when it was written; and what one file is now.

In: a location. Out: one entry per file, or the stamp by which a change of one file is noticed. Listed on disk is also
what a killed put left behind (a name that ends in `#` and a number), which object stores never list. Symbolic links are
not files: they are listed apart and never followed. Nothing here writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

import obstore

from omnigraph.base.errors import UsageError
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.local_tree import walk_tree
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import ObjectStore, open_s3_store

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
