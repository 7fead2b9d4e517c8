"""What a power cut leaves of a graph: only what was synced before it.

`recorded` notes every sync of a process; Lance syncs nothing, so all of them are ours and go through `os.fsync`. A
`Recording` puts back what would be on disk had the power failed after the k-th of them. Two kinds of disk are
known: one that keeps a name only once its directory is synced, and one that keeps every name as soon as it is given
and the content of a file only once that is synced, so that a file may be empty.
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
"""What a directory has: the number of each entry, and whether it is a directory."""


class Sync(msgspec.Struct, frozen=True):
    """One sync: of a file with this content, or of a directory with these names. `names` has all directories then."""

    number: int
    content: bytes | None
    entries: Names | None
    names: dict[int, Names]


class SyncRecording(msgspec.Struct, frozen=True):
    """The directory that holds a graph as it was at first, and every sync below it."""

    base: str
    graph: str
    first_names: dict[int, Names]
    first_contents: dict[int, bytes]
    syncs: list[Sync]

    def restore(self, count: int, *, early_names: bool) -> None:
        """Put the graph back as a power cut leaves it after so many syncs. `early_names`: names came before content."""
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
    descriptors = []  # open, so that no other file gets the number of one that is deleted
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
    """Of the directory that holds the graph, only the graph."""
    return {
        entry.name: (entry.inode(), entry.is_dir())
        for entry in os.scandir(folder)
        if folder != graph.parent or entry.name == graph.name
    }
