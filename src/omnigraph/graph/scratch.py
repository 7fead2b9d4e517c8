"""A temporary directory below the root of the graph, for files that the workers of one operation exchange.

It is there because every executor can reach the graph, and a cluster may share nothing else. Nothing in a graph
references it. The process that opened it deletes it, even if the operation failed. On disk it is renamed before, so
that a worker that Spark has not stopped yet cannot write into it any more. The files of a killed process are orphans,
which `cleanup` deletes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from omnigraph.arrow.ipc import encode_batches
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import new_ulid
from omnigraph.graph.manifest.layout import SCRATCH
from omnigraph.storage.files import read_bytes
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("omnigraph.scratch")

_CLOSED: Final = ".closed"


@dataclass(frozen=True, slots=True)
class ScratchFile:
    """A file in a scratch directory."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """The directory of one operation. It can be sent to workers.

    `is_created`: the directory exists, and `write` fails after `close`. Otherwise the first file creates it.
    """

    location: Location
    is_created: bool = False

    def create(self) -> Scratch:
        """Create the directory if it is on a disk that this process may write to; for workers that may be late."""
        store, directory = self.below_root()
        return self if self.is_created else replace(self, is_created=store.create_directory(directory))

    def close(self) -> Scratch:
        """Rename a directory on disk, after which no worker can write; return it under its new name."""
        if not self.location.is_local:
            return self
        store, directory = self.below_root()
        store.rename_directory(directory, f"{directory}{_CLOSED}")
        return Scratch(replace(self.location, uri=f"{self.location.uri}{_CLOSED}"))

    def write(self, kind: str, data: bytes) -> str:
        """Write a new file and return its name. Two attempts at a task never write the same file."""
        name = f"{kind}-{new_ulid()}"
        if self.is_created:
            ObjectStore(self.location).create_inside(name, data)
        else:
            ObjectStore(self.location).create(name, data, durable=False)
        return name

    def write_batches(self, kind: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> ScratchFile:
        """Write batches to a new file; compressed for an object store, because a local disk is faster without."""
        data = encode_batches(schema, batches, compressed=not self.location.is_local)
        return ScratchFile(self.write(kind, data), len(data))

    def read_all(self, kind: str) -> Iterator[bytes]:
        """Yield the content of every file of a kind; for small files."""
        store = ObjectStore(self.location)
        for entry in store.list(""):
            data = store.read(entry.path) if entry.path.startswith(f"{kind}-") else None
            if data is not None:
                yield data

    def read(self, name: str, start: int, length: int) -> bytes:
        """Read some bytes of a file."""
        return read_bytes(self.location.child(name), start, length)

    def below_root(self) -> tuple[ObjectStore, str]:
        """Return the store of the graph, and the path of the directory."""
        root = self.location.root_uri
        return ObjectStore(replace(self.location, uri=root, root="")), self.location.uri.removeprefix(f"{root}/")


@contextmanager
def open_scratch(root: Location) -> Iterator[Scratch]:
    """Open a new directory and delete it at the end. On disk it is created with its first file."""
    directory = f"{SCRATCH}/{new_ulid()}"
    scratch = Scratch(root.child(directory))
    try:
        yield scratch
    finally:
        try:
            store, closed_directory = scratch.close().below_root()
            failpoint(Failpoint.SCRATCH_REMOVE_BEFORE)
            store.delete_below(closed_directory)
            store.remove_empty_directory(SCRATCH)
        except OmnigraphError as error:
            logger.warning("%s is left for cleanup: %s", directory, error.message)
