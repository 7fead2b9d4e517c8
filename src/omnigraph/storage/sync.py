"""Syncs files and directory entries of a local disk.

A failed `fsync` is reported once: the kernel then takes the lost pages for clean, and a second `fsync` succeeds. So
who gets a `SyncError` never tries again; the write that needs the file fails. Below `objects` and `durability`, which
decide what is synced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from omnigraph.base.errors import Applied, StorageError

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FOLDERS_MAX: Final = 4096

_durable_folders: Final[set[tuple[str, int]]] = set()


class SyncError(StorageError):
    """A file or directory could not be synced: it may be lost or cut off after a power cut."""

    def once_visible(self) -> SyncError:
        """The error of a write that readers see already."""
        error = SyncError(
            f"the write is visible, and a power cut may undo it: {self.message}",
            code=self.code,
            hint="Check the disk. `omnigraph commit list` shows whether the write is there.",
            facts=self.facts,
        )
        error.applied = Applied.UNKNOWN
        return error


def sync_file(path: Path) -> None:
    """Sync the content of a file."""
    _sync(path, os.O_RDONLY)


def sync_entries(paths: Iterable[Path], root: Path | None = None) -> None:
    """Sync the directory of each path, and that directory's own entry in each directory above it up to `root`.

    An entry that this process synced once stays: only its own directory gets new ones. None: up to the directory that
    this process may not open, which it did not create either.
    """
    for folder in dict.fromkeys(path.parent for path in paths):
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)
        below = folder
        while below not in (root, below.parent) and (key := _key(below)) not in _durable_folders:
            below = below.parent
            try:
                _sync(below, os.O_RDONLY | os.O_DIRECTORY)
            except SyncError as error:
                if root is None and isinstance(error.__cause__, PermissionError):
                    break
                raise
            if len(_durable_folders) >= _FOLDERS_MAX:
                _durable_folders.clear()
            _durable_folders.add(key)


def _key(folder: Path) -> tuple[str, int]:
    """This very directory: another one may get its name."""
    return str(folder), folder.stat().st_ino


def _sync(path: Path, flags: int) -> None:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        is_full = error.errno in _FULL
        raise SyncError(
            f"could not sync {path}: {'disk full' if is_full else error.strerror}",
            code="disk_full" if is_full else "sync_failed",
            hint="Free some space, then retry." if is_full else "Check the disk, then retry.",
            facts={"uri": str(path), "cause": str(error)},
        ) from error
