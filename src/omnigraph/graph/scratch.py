"""Scratch: a folder below the graph's root for the files that the workers of one operation pass to each other.

It lies there because every executor reaches the graph, wherever that is, and nothing else of the cluster is shared for
certain. Nothing of a graph ever refers to it. Whoever opened it deletes it, also when the operation failed; what a
killed process leaves is an orphan for `cleanup`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.base.errors import OmnigraphError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import new_ulid
from omnigraph.graph.manifest.layout import SCRATCH
from omnigraph.storage.files import read_bytes
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.scratch")


@dataclass(frozen=True, slots=True)
class Scratch:
    """The folder of one operation. It travels to workers."""

    location: Location

    def write(self, kind: str, data: bytes) -> str:
        """Write a new file, and its name. No two attempts at a task write the same one."""
        name = f"{kind}-{new_ulid()}"
        ObjectStore(self.location).create(name, data, durable=False)
        return name

    def read_all(self, kind: str) -> Iterator[bytes]:
        """Every file of a kind, whole: for small ones."""
        store = ObjectStore(self.location)
        for entry in store.list(""):
            data = store.read(entry.path) if entry.path.startswith(f"{kind}-") else None
            if data is not None:
                yield data

    def read(self, name: str, start: int, length: int) -> bytes:
        """Some bytes of a file."""
        return read_bytes(self.location.child(name), start, length)


@contextmanager
def open_scratch(root: Location) -> Iterator[Scratch]:
    """A fresh folder, gone at the end. On disk it appears with its first file."""
    name = new_ulid()
    try:
        yield Scratch(root.child(f"{SCRATCH}/{name}"))
    finally:
        _discard(root, f"{SCRATCH}/{name}")


def _discard(root: Location, folder: str) -> None:
    store = ObjectStore(root)
    try:
        failpoint(Failpoint.SCRATCH_REMOVE_BEFORE)
        store.delete_below(folder)
        store.remove_empty_directory(SCRATCH)
    except OmnigraphError as error:
        logger.warning("%s is left for cleanup: %s", folder, error.message)
