"""Syncs files and directory entries of a local disk.

In: paths. Out: nothing, or a `SyncError`. The kernel reports a failed `fsync` once: it then marks the lost pages as
clean, and a second `fsync` succeeds. So a caller that gets a `SyncError` must not retry: the write that needs the file
fails. `objects` and `durability` decide what is synced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from omnigraph.base.errors import Applied, StorageError
from omnigraph.base.hints import action, hint

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_DIRECTORY_SYNC: Final = (errno.EINVAL, errno.EBADF, errno.ENOTSUP)


class SyncError(StorageError):
    """A file or directory could not be synced: it may be lost or truncated after a power cut."""

    def for_visible_write(self) -> SyncError:
        """Return the error of a write that readers can already see."""
        error = SyncError(
            f"the write is visible, but a power cut may undo it: {self.message}",
            code=self.code,
            hint=hint("Check the disk. Run {} to see whether the write was applied.", action("commit list")),
            facts=self.facts,
        )
        error.applied = Applied.UNKNOWN
        return error


def sync_file(path: Path) -> None:
    """Sync the content of a file."""
    _sync(path, os.O_RDONLY)


def sync_entries(paths: Iterable[Path], root: Path | None = None) -> None:
    """Sync the directory of each path, and every directory above it up to `root` or a mount point.

    Without `root`, stop at a mount point or at a directory that this process may not open, and so did not create.
    No result is cached between calls: another directory may get the same path and inode, and the sync of an unchanged
    directory takes microseconds.
    """
    synced: set[Path] = set()
    for path in paths:
        directory = path.parent
        while directory not in synced:
            try:
                # File systems without this operation report an invalid argument: not a loss.
                _sync(directory, os.O_RDONLY | os.O_DIRECTORY, accepted=_NO_DIRECTORY_SYNC)
            except SyncError as error:
                if root is None and directory != path.parent and isinstance(error.__cause__, PermissionError):
                    break
                raise
            synced.add(directory)
            if directory == root or os.path.ismount(directory):
                break
            directory = directory.parent


def _sync(path: Path, flags: int, accepted: tuple[int, ...] = ()) -> None:
    """Sync a file or directory; an error of `fsync` with an accepted number is ignored."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in accepted:
                raise
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
