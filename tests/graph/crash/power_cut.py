"""Simulate a power cut: only what was synced before it is left of a graph.

`record_syncs` records every sync of a process. Lance syncs nothing, so all of them are Omnigraph's and use `os.fsync`.
`SyncRecording.restore` writes what would be on disk if the power had failed after the k-th sync. It simulates two kinds
of disk: one keeps a name only after its directory is synced; the other keeps every name immediately and the content of
a file only after the file is synced, so a file may be empty.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

Names = dict[str, tuple[int, bool]]
"""The entries of a directory: the inode number of each, and whether it is a directory."""


class Sync(msgspec.Struct, frozen=True):
    """A sync of a file with its content, or of a directory with its entries. `names` has all directories."""

    number: int
    content: bytes | None
    entries: Names | None
    names: dict[int, Names]


class SyncRecording(msgspec.Struct, frozen=True):
    """The initial state of the directory that contains a graph, and every sync below it."""

    base: str
    graph: str
    first_names: dict[int, Names]
    first_contents: dict[int, bytes]
    syncs: list[Sync]

    def restore(self, count: int, *, early_names: bool) -> None:
        """Write the graph as a power cut after `count` syncs leaves it. `early_names`: keep unsynced names."""
        contents = dict(self.first_contents)
        names = dict(self.first_names)
        for sync in self.syncs[:count]:
            if sync.content is not None:
                contents[sync.number] = sync.content
            if sync.entries is not None:
                names[sync.number] = sync.entries
        if early_names:
            names = self.syncs[min(count, len(self.syncs) - 1)].names
        root = Path(self.base, self.graph)
        shutil.rmtree(root, ignore_errors=True)
        number, _ = names[Path(self.base).stat().st_ino].get(self.graph, (None, True))
        if number is not None:
            _write_directory(root, number, names, contents, early_names=early_names)


def _write_directory(
    folder: Path, number: int, names: dict[int, Names], contents: dict[int, bytes], *, early_names: bool
) -> None:
    folder.mkdir()
    for name, (entry, is_folder) in names.get(number, {}).items():
        if is_folder:
            _write_directory(folder / name, entry, names, contents, early_names=early_names)
        elif entry in contents or early_names:
            (folder / name).write_bytes(contents.get(entry, b""))


@contextmanager
def record_syncs(graph: Path, target: Path) -> Iterator[None]:
    """Write every sync within the block to `target`."""
    base = graph.parent
    contents: dict[int, bytes] = {}
    descriptors = []  # Open files keep their inode numbers: no new file gets the number of a deleted one.
    for path in [path for path in graph.rglob("*") if path.is_file()]:
        descriptors.append(os.open(path, os.O_RDONLY))
        contents[path.stat().st_ino] = path.read_bytes()
    recording = SyncRecording(str(base), graph.name, _read_all_names(graph), contents, [])
    real = os.fsync

    def sync(fd: FileDescriptorLike) -> None:
        descriptor = fd if isinstance(fd, int) else fd.fileno()
        names = _read_all_names(graph)
        real(descriptor)
        descriptors.append(os.dup(descriptor))
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        number = path.stat().st_ino
        if path.is_dir():
            recording.syncs.append(Sync(number, None, _read_names(path, graph), names))
        else:
            recording.syncs.append(Sync(number, path.read_bytes(), None, names))

    os.fsync = sync
    try:
        yield
    finally:
        os.fsync = real
        target.write_bytes(msgspec.msgpack.encode(recording))


def _read_all_names(graph: Path) -> dict[int, Names]:
    folders = [graph.parent, *([graph] if graph.exists() else []), *graph.rglob("*")]
    return {folder.stat().st_ino: _read_names(folder, graph) for folder in folders if folder.is_dir()}


def _read_names(folder: Path, graph: Path) -> Names:
    """Return the entries of a directory; of the parent of the graph, only the graph."""
    return {
        entry.name: (entry.inode(), entry.is_dir())
        for entry in os.scandir(folder)
        if folder != graph.parent or entry.name == graph.name
    }
