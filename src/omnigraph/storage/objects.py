"""Small control objects (intents, leases, markers) on local files, S3 or memory, through obstore.

The only primitive that all stores share is create-if-absent, so that is what protocols are built on. An object
is created whole or not at all. Nothing here overwrites. A put that was killed on a local disk leaves a file whose
name ends in `#` and a number, which is never listed. On a local disk nothing is created, listed or deleted through a
symbolic link.
"""

from __future__ import annotations

import posixpath
import re
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from secrets import randbits
from typing import Any, BinaryIO, Final

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore, MemoryStore, S3Store

from omnigraph.base.failpoints import announce
from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.local_tree import remove_empty_directories, require_no_link, unlink_files, walk_tree
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.settings import require_settings, settings_number
from omnigraph.storage.sync import SyncError, sync_entries, sync_file

_Backend = LocalStore | MemoryStore | S3Store

_S3_STORES_MAX: Final = 256
_CLIENT_SETTINGS: Final = ("allow_http", "connect_timeout", "timeout")
_LANCE_ONLY_SETTINGS: Final = ("download_retry_count",)
_DRAFT_BITS: Final = 48
_DRAFT_ATTEMPTS_MAX: Final = 10
_UNFINISHED: Final = re.compile(r".*#\d+")

_memory_stores: Final[dict[str, MemoryStore]] = {}


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """One listed object: its path below the root, its size, and a text that changes with its bytes."""

    path: str
    size: int
    version: str = field(default="", compare=False)

    @classmethod
    def of(cls, meta: obstore.ObjectMeta) -> ObjectEntry:
        """Stores without ETags have the time at least, of which not every answer has more than seconds."""
        tag = meta["e_tag"]
        version = f"ETag {tag}" if tag else f"modified {meta['last_modified']:%Y-%m-%dT%H:%M:%SZ}"
        return cls(str(meta["path"]), int(meta["size"]), version)


class ObjectStore:
    """The control objects below one location. Paths are relative, with `/`."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._backend: _Backend | None = None

    def create(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        """Create the object; False if another one has that path. `durable`: it must survive a power cut.

        `data` must be unlike what any other caller writes: after a lost acknowledgement the object found there
        is known as ours by its bytes.
        """
        # A new graph's first object is what finds out that nothing can be written, so the message names the root.
        with self._errors("write", ""):
            if self.location.is_local:
                require_no_link(self.location, posixpath.dirname(path))
                Path(self.location.uri).mkdir(parents=True, exist_ok=True)
            announce("object.create", path)
            try:
                if durable and self.location.is_synced:
                    _create_synced(Path(self.location.uri), path, data)
                else:
                    obstore.put(self._store(), path, data, mode="create", use_multipart=False)
            except (AlreadyExistsError, FileExistsError):
                return self.read(path) == data
            return True

    def read(self, path: str) -> bytes | None:
        """The object's bytes, or None if there is none."""
        with self._errors("read an object", path):
            try:
                return bytes(obstore.get(self._store(), path).bytes())
            except FileNotFoundError as missing:
                refuse_missing_bucket(missing)
                return None

    def entry(self, path: str) -> ObjectEntry | None:
        """The object as a listing has it, or None if there is none."""
        with self._errors("look for an object", path):
            try:
                return ObjectEntry.of(obstore.head(self._store(), path))
            except FileNotFoundError as missing:
                refuse_missing_bucket(missing)
                return None

    def list(self, prefix: str) -> tuple[ObjectEntry, ...]:
        """Every object below the folder `prefix` (all of them for ""), ordered by path."""
        with self._errors("list objects", prefix):
            if self.location.is_local:
                return self._list_local(prefix, with_links=True)
            found = obstore.list(self._store(), prefix or None).collect()
            entries = (ObjectEntry.of(meta) for meta in found)
            return tuple(sorted(entries, key=lambda entry: entry.path))

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
            if self.location.is_local:
                unlink_files(self.location, [path])
                return
            try:
                obstore.delete(self._store(), path)
            except FileNotFoundError as missing:
                refuse_missing_bucket(missing)

    def delete_below(self, prefix: str) -> int:
        """Delete every object below a folder, and on disk the empty folders but no link; how many were deleted."""
        if self.location.is_local:
            with self._errors("list objects", prefix):
                entries = self._list_local(prefix, with_links=False)
        else:
            entries = self.list(prefix)
        for entry in entries:
            self.delete(entry.path)
        self.remove_empty_folders(prefix)
        return len(entries)

    def remove_empty_folders(self, prefix: str) -> None:
        """On disk, remove the folder and everything below it that is an empty folder."""
        if self.location.is_local:
            with self._errors("remove empty folders", prefix):
                remove_empty_directories(self.location, prefix, recursive=True)

    def remove_empty_folder(self, prefix: str) -> None:
        """On disk, remove the folder if nothing is in it; elsewhere there are no folders."""
        if self.location.is_local:
            with self._errors("remove an empty folder", prefix):
                remove_empty_directories(self.location, prefix, recursive=False)

    def _list_local(self, prefix: str, *, with_links: bool) -> tuple[ObjectEntry, ...]:
        """With links: also those to files, since an object that is a link can be read."""
        if not self._path("").is_dir():
            return ()
        start = f"{prefix}/" if prefix else ""
        found = (
            ObjectEntry(f"{start}{entry.path}", entry.size_bytes)
            for entry in walk_tree(self.location, prefix)
            if not _UNFINISHED.fullmatch(entry.path)
            and (not entry.is_link or (with_links and self._path(f"{start}{entry.path}").is_file()))
        )
        return tuple(sorted(found, key=lambda entry: entry.path))

    def _path(self, path: str) -> Path:
        return Path(self.location.uri, path)

    def _store(self) -> _Backend:
        if self._backend is None:
            self._backend = open_backend(self.location)
        return self._backend

    def _errors(self, doing: str, path: str) -> AbstractContextManager[None]:
        return substrate_errors(doing, f"{self.location.uri}/{path}" if path else self.location.uri)


def _create_synced(root: Path, path: str, data: bytes) -> None:
    """Create a file that has its content on disk before it has its name; one that cannot be synced is deleted again."""
    target = root / path
    draft = target.with_name(f"{target.name}#{randbits(_DRAFT_BITS)}")
    try:
        with _open_draft(draft) as file:
            file.write(data)
        sync_file(draft)
        target.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
    try:
        sync_entries([target], root)
    except SyncError:
        target.unlink(missing_ok=True)
        raise


def _open_draft(draft: Path) -> BinaryIO:
    """Open a new file; another process may delete its directory while that is empty."""
    for _ in range(_DRAFT_ATTEMPTS_MAX - 1):
        draft.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            return draft.open("xb")
    draft.parent.mkdir(parents=True, exist_ok=True)
    return draft.open("xb")


def open_backend(location: Location) -> _Backend:
    """Open the object store of a location."""
    match location.scheme:
        case Scheme.LOCAL:
            if not Path(location.uri).is_dir():
                raise FileNotFoundError(f"No such file or directory: {location.uri}")
            return LocalStore(location.uri)
        case Scheme.S3:
            return open_s3_store(location)
        case Scheme.MEMORY:
            return _memory_stores.setdefault(location.uri, MemoryStore())


def open_s3_store(location: Location) -> S3Store:
    """Return the store of an S3 location under the settings that this process has now."""
    options = require_settings(location.options, location.uri)
    return _open_s3_store(location.uri, tuple(options.items()), settings_number())


@lru_cache(maxsize=_S3_STORES_MAX)
def _open_s3_store(uri: str, options: tuple[tuple[str, str], ...], _: str) -> S3Store:
    """The options are Lance's, in obstore's spelling; obstore reads the variables itself."""
    given = dict(options)
    retries: Any = {
        "max_retries": int(given.pop("client_max_retries")),
        "retry_timeout": timedelta(seconds=float(given.pop("client_retry_timeout"))),
    }
    client: Any = {key: given.pop(key) for key in _CLIENT_SETTINGS if key in given}
    config: Any = {key: value for key, value in given.items() if key not in _LANCE_ONLY_SETTINGS}
    return S3Store.from_url(uri, config=config, client_options=client, retry_config=retries)


def refuse_missing_bucket(missing: FileNotFoundError) -> None:
    """Raise again unless it is only the object that is missing."""
    if "NoSuchBucket" in str(missing):
        raise missing
