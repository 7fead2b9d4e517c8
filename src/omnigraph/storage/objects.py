"""Small control objects (intents, leases, markers) on local files, S3 or memory, through obstore.

The only primitive that all stores share is create-if-absent, so protocols are built on it. An object is created
completely or not at all, and nothing here overwrites one. A process that is killed during a put on a local disk leaves
a file whose name ends in `#` and a number; such files are never listed. On a local disk nothing is created, listed or
deleted through a symbolic link.
"""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from secrets import randbits
from typing import Any, BinaryIO, Final

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore, MemoryStore, S3Store

from omnigraph.base.errors import RefusedError
from omnigraph.base.failpoints import announce
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.local_tree import remove_empty_directories, require_no_link, unlink_files, walk_tree
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.settings import require_settings, settings_id
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
    """One listed object: its path below the root, its size, and a string that changes with its bytes."""

    path: str
    size: int
    version: str = field(default="", compare=False)

    @classmethod
    def of(cls, meta: obstore.ObjectMeta) -> ObjectEntry:
        """Return the entry of an object. Without an ETag its version is the time of its last change, in seconds."""
        tag = meta["e_tag"]
        version = f"ETag {tag}" if tag else f"modified {meta['last_modified']:%Y-%m-%dT%H:%M:%SZ}"
        return cls(str(meta["path"]), int(meta["size"]), version)


class ObjectStore:
    """The control objects below one location. Paths are relative, with `/`."""

    def __init__(self, location: Location) -> None:
        self.location = location

    @cached_property
    def _root(self) -> Path:
        return Path(self.location.uri)

    @cached_property
    def _backend(self) -> _Backend:
        return open_backend(self.location)

    def create(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        """Create the object; return False if another object has that path. `durable`: it must survive a power cut.

        `data` must differ from what any other caller writes: after a lost acknowledgement the bytes of the existing
        object show whether it is ours.
        """
        # The first object of a new graph is the first write that can fail, so the message names the root.
        with self._errors("write", ""):
            if self.location.is_local:
                require_no_link(self.location, posixpath.dirname(path))
                self._root.mkdir(parents=True, exist_ok=True)
            announce("object.create", path)
            try:
                if durable and self.location.is_synced:
                    _create_synced(self._root, path, data)
                else:
                    obstore.put(self._backend, path, data, mode="create", use_multipart=False)
            except (AlreadyExistsError, FileExistsError):
                return self.read(path) == data
            return True

    def create_directory(self, path: str) -> bool:
        """On disk, create a directory and the one above it; return False if that is impossible here."""
        if not self.location.is_local or not self._root.is_dir():
            return False
        with suppress(OSError, RefusedError):
            require_no_link(self.location, posixpath.dirname(path))
            Path(self._root, path).mkdir(parents=True)
            return True
        return False

    def create_inside(self, path: str, data: bytes) -> None:
        """On disk, create a file under a new name in an existing directory; raise if the directory was renamed."""
        with self._errors("write", path):
            announce("object.create", path)
            target = self._root / path
            draft = _draft_of(target)
            draft.write_bytes(data)
            draft.rename(target)

    def rename_directory(self, path: str, new_path: str) -> None:
        """On disk, rename a directory; do nothing if it does not exist, or through a link."""
        if self.location.is_local:
            with self._errors("rename a directory", path), suppress(FileNotFoundError):
                require_no_link(self.location, posixpath.dirname(path))
                Path(self._root, path).rename(self._root / new_path)

    def read(self, path: str) -> bytes | None:
        """Return the object's bytes, or None if it does not exist."""
        with self._errors("read an object", path):
            try:
                if self.location.is_local:
                    return Path(self.location.uri, path).read_bytes()  # obstore would copy the bytes twice
                return bytes(obstore.get(self._backend, path).bytes())
            except FileNotFoundError as missing:
                require_bucket(missing)
                return None

    def entry(self, path: str) -> ObjectEntry | None:
        """Return the object as a listing describes it, or None if it does not exist."""
        with self._errors("find an object", path):
            try:
                return ObjectEntry.of(obstore.head(self._backend, path))
            except FileNotFoundError as missing:
                require_bucket(missing)
                return None

    def list(self, prefix: str, *, with_links: bool = True) -> tuple[ObjectEntry, ...]:
        """Return every object below the directory `prefix` (every object for ""), ordered by path.

        `with_links`: also links to files, which only a disk has, because an object that is a link can be read.
        """
        with self._errors("list objects", prefix):
            if self.location.is_local:
                entries: Iterable[ObjectEntry] = self._walk(prefix, with_links=with_links)
            else:
                entries = map(ObjectEntry.of, obstore.list(self._backend, prefix or None).collect())
            return tuple(sorted(entries, key=lambda entry: entry.path))

    def list_names(self) -> tuple[str, ...]:
        """Return the names of the directories and objects directly below the root, ordered."""
        with self._errors("list a directory", ""):
            if self.location.is_local:
                return tuple(sorted(entry.name for entry in self._root.iterdir())) if self._root.exists() else ()
            listing = obstore.list_with_delimiter(self._backend)
            names = [*listing["common_prefixes"], *(meta["path"] for meta in listing["objects"])]
            return tuple(sorted(str(name).strip("/") for name in names))

    def delete(self, path: str) -> None:
        """Delete the object; do nothing if it does not exist."""
        with self._errors("delete an object", path):
            announce("object.delete", path)
            if self.location.is_local:
                unlink_files(self.location, [path])
                return
            try:
                obstore.delete(self._backend, path)
            except FileNotFoundError as missing:
                require_bucket(missing)

    def delete_below(self, prefix: str) -> int:
        """Delete every object below a directory, and on disk empty directories but no links. Return how many.

        On disk, files that a killed process did not complete are deleted too.
        """
        entries = self.list(prefix, with_links=False)
        for entry in entries:
            self.delete(entry.path)
        if self.location.is_local:
            with self._errors("delete objects", prefix):
                drafts = [path for path, _ in walk_tree(self.location, prefix) if _UNFINISHED.fullmatch(path)]
                unlink_files(self.location, [posixpath.join(prefix, path) for path in drafts])
        self.remove_empty_directories(prefix)
        return len(entries)

    def remove_empty_directories(self, prefix: str) -> None:
        """On disk, remove every empty directory below this directory, and the directory itself if it is then empty."""
        if self.location.is_local:
            with self._errors("remove empty directories", prefix):
                remove_empty_directories(self.location, prefix, recursive=True)

    def remove_empty_directory(self, prefix: str) -> None:
        """On disk, remove the directory if it is empty; other stores have no directories."""
        if self.location.is_local:
            with self._errors("remove an empty directory", prefix):
                remove_empty_directories(self.location, prefix, recursive=False)

    def _walk(self, prefix: str, *, with_links: bool) -> Iterator[ObjectEntry]:
        if not self._root.is_dir():
            return
        for path, status in walk_tree(self.location, prefix):
            is_link = stat.S_ISLNK(status.st_mode)
            is_listed = not is_link or (with_links and (self._root / prefix / path).is_file())
            if is_listed and not _UNFINISHED.fullmatch(path):
                yield ObjectEntry(posixpath.join(prefix, path), status.st_size)

    def _errors(self, operation: str, path: str) -> AbstractContextManager[None]:
        return translate_errors(operation, f"{self.location.uri}/{path}" if path else self.location.uri)


def _create_synced(root: Path, path: str, data: bytes) -> None:
    """Create a file that has its content on disk before it has its name; delete it again if it cannot be synced."""
    target = root / path
    draft = _draft_of(target)
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


def _draft_of(target: Path) -> Path:
    """Return the name of a file that is not complete yet."""
    return target.with_name(f"{target.name}#{randbits(_DRAFT_BITS)}")


def _open_draft(draft: Path) -> BinaryIO:
    """Open a new file. Another process may delete its directory while the directory is empty."""
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
    """Return the store of an S3 location with the current settings of this process."""
    options = require_settings(location.options, location.uri)
    return _open_s3_store(location.uri, tuple(options.items()), settings_id())


@lru_cache(maxsize=_S3_STORES_MAX)
def _open_s3_store(uri: str, options: tuple[tuple[str, str], ...], _: str) -> S3Store:
    """Translate Lance's options into those of obstore, which reads the environment itself."""
    remaining = dict(options)
    retries: Any = {
        "max_retries": int(remaining.pop("client_max_retries")),
        "retry_timeout": timedelta(seconds=float(remaining.pop("client_retry_timeout"))),
    }
    client: Any = {key: remaining.pop(key) for key in _CLIENT_SETTINGS if key in remaining}
    config: Any = {key: value for key, value in remaining.items() if key not in _LANCE_ONLY_SETTINGS}
    return S3Store.from_url(uri, config=config, client_options=client, retry_config=retries)


def require_bucket(missing: FileNotFoundError) -> None:
    """Raise the error again if the bucket is missing, not only the object."""
    if "NoSuchBucket" in str(missing):
        raise missing
