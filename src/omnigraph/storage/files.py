"""Every file below a place, with its size and when it was written.

In: a location. Out: one entry per file. On disk also what a killed put left behind (a name that ends in `#` and a
number), which object stores never list. Symbolic links are not files: they are listed apart and never followed. Nothing
here writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import obstore

from omnigraph.base.errors import UsageError
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.local_tree import walk_tree
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import open_s3_store

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
