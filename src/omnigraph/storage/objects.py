"""Small control objects (intents, leases, markers) on local files, S3 or memory, through obstore.

The only primitive that all stores share is create-if-absent, so that is what protocols are built on. An object is
created whole or not at all. Nothing here overwrites.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore, MemoryStore, S3Store

from omnigraph.base.effects import announce
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.location import Location, Scheme

_Backend = LocalStore | MemoryStore | S3Store

_memory_stores: Final[dict[str, MemoryStore]] = {}


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """One listed object: its path below the root and its size."""

    path: str
    size: int


class ObjectStore:
    """The control objects below one location. Paths are relative, with `/`."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._backend: _Backend | None = None

    def create(self, path: str, data: bytes) -> bool:
        """Create the object; False if another one has that path.

        `data` must be unlike what any other caller writes: after a lost acknowledgement the object found there is
        known as ours by its bytes.
        """
        with self._errors("create an object", path):
            if self.location.is_local:
                Path(self.location.uri).mkdir(parents=True, exist_ok=True)
            announce("object.create", path)
            try:
                obstore.put(self._store(), path, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return self.read(path) == data
            return True

    def read(self, path: str) -> bytes | None:
        """The object's bytes, or None if there is none."""
        with self._errors("read an object", path):
            try:
                return bytes(obstore.get(self._store(), path).bytes())
            except FileNotFoundError:
                return None

    def list(self, prefix: str) -> tuple[ObjectEntry, ...]:
        """Every object below the folder `prefix` (all of them for ""), ordered by path."""
        with self._errors("list objects", prefix):
            if self.location.is_local and not Path(self.location.uri).is_dir():
                return ()
            found = obstore.list(self._store(), prefix or None).collect()
            return tuple(sorted((ObjectEntry(str(m["path"]), int(m["size"])) for m in found), key=lambda e: e.path))

    def folders(self) -> tuple[str, ...]:
        """The names directly below the root: folders and objects, ordered."""
        with self._errors("list a directory", ""):
            if self.location.is_local:
                root = Path(self.location.uri)
                return tuple(sorted(entry.name for entry in root.iterdir())) if root.exists() else ()
            found = obstore.list_with_delimiter(self._store())
            names = [*found["common_prefixes"], *(m["path"] for m in found["objects"])]
            return tuple(sorted(str(name).strip("/") for name in names))

    def delete(self, path: str) -> None:
        """Delete the object; one that is gone already is no error."""
        with self._errors("delete an object", path):
            announce("object.delete", path)
            try:
                obstore.delete(self._store(), path)
            except FileNotFoundError:
                return

    def delete_below(self, prefix: str) -> int:
        """Delete every object below a folder, and on disk the empty folders; how many objects went."""
        entries = self.list(prefix)
        for entry in entries:
            self.delete(entry.path)
        if self.location.is_local:
            _remove_empty_folders(Path(self.location.uri) / prefix)
        return len(entries)

    def _store(self) -> _Backend:
        if self._backend is None:
            self._backend = _open_backend(self.location)
        return self._backend

    def _errors(self, doing: str, path: str):  # type: ignore[no-untyped-def]
        return substrate_errors(doing, f"{self.location.uri}/{path}" if path else self.location.uri)


def _open_backend(location: Location) -> _Backend:
    match location.scheme:
        case Scheme.LOCAL:
            if not Path(location.uri).is_dir():
                raise FileNotFoundError(f"No such file or directory: {location.uri}")
            return LocalStore(location.uri)
        case Scheme.S3:
            return S3Store.from_url(location.uri, config=dict(location.options))  # type: ignore[arg-type]
        case Scheme.MEMORY:
            return _memory_stores.setdefault(location.uri, MemoryStore())


def _remove_empty_folders(folder: Path) -> None:
    if not folder.is_dir():
        return
    for path in sorted(folder.rglob("*"), key=lambda p: len(p.parts), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    if not any(folder.iterdir()):
        folder.rmdir()
