"""Syncs files and directory entries of a local disk.

A failed `fsync` is reported once: the kernel then takes the lost pages for clean, and a second `fsync` succeeds. So
who gets a `SyncError` never tries again; the write that needs the file fails. Below `objects` and `durability`, which
decide what is synced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from omnigraph.base.errors import Applied, StorageError

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_DIRECTORY_SYNC: Final = (errno.EINVAL, errno.EBADF, errno.ENOTSUP)


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
    with _sync_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_entries(paths: Iterable[Path], root: Path | None = None) -> None:
    """Sync the directory of each path, and every directory above it up to `root` or a mount point.

    None: up to a mount point, or to a directory that this process may not open, so it did not create it either.
    Nothing is remembered between calls: another directory may get the same path and inode, and the sync of an
    unchanged directory takes microseconds.
    """
    synced: set[Path] = set()
    for path in paths:
        folder = path.parent
        while folder not in synced:
            try:
                _sync_directory(folder)
            except SyncError as error:
                if root is None and folder != path.parent and isinstance(error.__cause__, PermissionError):
                    break
                raise
            synced.add(folder)
            if folder == root or os.path.ismount(folder):
                break
            folder = folder.parent


def _sync_directory(path: Path) -> None:
    """Sync the entries of a directory. Some file systems cannot: they report an invalid argument, and no loss."""
    with _sync_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_DIRECTORY_SYNC:
                raise
        finally:
            os.close(descriptor)


@contextmanager
def _sync_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        is_full = error.errno in _FULL
        raise SyncError(
            f"could not sync {path}: {'disk full' if is_full else error.strerror}",
            code="disk_full" if is_full else "sync_failed",
            hint="Free some space, then retry." if is_full else "Check the disk, then retry.",
            facts={"uri": str(path), "cause": str(error)},
        ) from error
