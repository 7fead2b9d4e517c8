"""Every file below a place, with its size and when it was written.

In: a location. Out: one entry per file. On disk also what a killed put left behind (a name that ends in `#` and a
number), which object stores never list. Nothing here writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import obstore

from omnigraph.base.errors import UsageError
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import open_s3_store

_NANOSECONDS: Final = 1_000
_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file: its path below the listed place, its size, and when the store says it was written."""

    path: str
    size_bytes: int
    modified_us: int


def list_files(location: Location) -> tuple[StoredFile, ...]:
    """Everything below the place, ordered by path; empty when there is nothing."""
    with substrate_errors("list files", location.uri):
        return tuple(sorted(_found(location), key=lambda file: file.path))


def has_more_files(location: Location, count: int) -> bool:
    """Whether there are more files than so many below the place; the listing ends as soon as that is known."""
    with substrate_errors("list files", location.uri):
        return sum(1 for _ in islice(_found(location), count + 1)) > count


def _found(location: Location) -> Iterator[StoredFile]:
    match location.scheme:
        case Scheme.LOCAL:
            return _walk(location.uri)
        case Scheme.S3:
            return _list_objects(location)
        case Scheme.MEMORY:
            raise UsageError(
                "files in memory cannot be listed with their times",
                code="uri_is_memory",
                hint="use a graph on disk or in S3",
            )


def _walk(root: str) -> Iterator[StoredFile]:
    """Files may go while they are listed; those are left out."""
    folders = [(root, "")]
    for folder, prefix in folders:
        try:
            entries = list(os.scandir(folder))
        except FileNotFoundError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    folders.append((entry.path, f"{prefix}{entry.name}/"))
                else:
                    found = entry.stat(follow_symlinks=False)
                    modified_us = found.st_mtime_ns // _NANOSECONDS
                    yield StoredFile(prefix + entry.name, found.st_size, modified_us)
            except FileNotFoundError:
                continue


def _list_objects(location: Location) -> Iterator[StoredFile]:
    for page in obstore.list(open_s3_store(location)):
        for found in page:
            modified_us = int(found["last_modified"].timestamp() * _MICROSECONDS)
            yield StoredFile(str(found["path"]), int(found["size"]), modified_us)
