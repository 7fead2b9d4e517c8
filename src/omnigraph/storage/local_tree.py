"""Lists and deletes local files below a root, without following symbolic links.

In: a local location, which knows its root. Out: the files and links below it. The root itself may be reached through a
link, such as one to a larger disk. A link below the root is never followed, so that nothing outside is listed or
deleted. A path through a link is an error that names the link. Each directory is opened from its parent's descriptor,
so a link that appears during the call is not followed either. A crash leaves some of the files deleted; each call can
be repeated.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import groupby
from typing import Final

from omnigraph.base.errors import RefusedError
from omnigraph.storage.location import Location

LINK_CODE: Final = "path_is_link"
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NOT_A_DIRECTORY: Final = (errno.ENOTDIR, errno.ELOOP)
_NOT_REMOVED: Final = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def walk_tree(location: Location, subdirectory: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path below a directory and the status of every file and link in it, in no order.

    A directory that does not exist has none. Files that are deleted during the walk are skipped.
    """
    with suppress(FileNotFoundError), _opened(location, subdirectory) as directory:
        yield from _walk(directory, "")


def list_links(location: Location) -> tuple[str, ...]:
    """Return the names of the symbolic links directly in a directory, ordered; none if it does not exist."""
    try:
        with _opened(location, "") as directory, os.scandir(directory) as entries:
            return tuple(sorted(entry.name for entry in entries if entry.is_symlink()))
    except FileNotFoundError:
        return ()


def require_no_link(location: Location, subdirectory: str) -> None:
    """Raise if the path leads through a symbolic link or is one; the path need not exist."""
    with suppress(FileNotFoundError, NotADirectoryError), _opened(location, subdirectory):
        return


def unlink_files(location: Location, paths: Sequence[str]) -> None:
    """Delete files below the location; skip files that do not exist."""
    for subdirectory, group in groupby(paths, key=lambda path: path.rpartition("/")[0]):
        with suppress(FileNotFoundError, NotADirectoryError), _opened(location, subdirectory) as directory:
            for path in group:
                with suppress(FileNotFoundError):
                    os.unlink(path.rpartition("/")[2], dir_fd=directory)


def remove_empty_directories(location: Location, subdirectory: str, *, recursive: bool) -> None:
    """Remove a directory if it is empty; with `recursive`, first the empty directories inside it.

    Other processes may add to the directories, and remove them, at the same time.
    """
    parts = _parts(location, subdirectory)
    with suppress(FileNotFoundError, NotADirectoryError):
        if recursive:
            with _opened(location, subdirectory) as directory:
                _remove_empty_children(directory)
        if parts:
            with _opened_path(location.root_uri, parts[:-1]) as parent:
                _remove_directory(parts[-1], parent)


def _walk(directory: int, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as scanned:
        entries = list(scanned)
    for entry in entries:
        path = f"{prefix}{entry.name}"
        with suppress(FileNotFoundError, NotADirectoryError):
            if entry.is_dir(follow_symlinks=False):
                with _opened_child(entry.name, directory, path) as child:
                    yield from _walk(child, f"{path}/")
            else:
                yield path, entry.stat(follow_symlinks=False)


def _remove_empty_children(directory: int) -> None:
    """Remove the empty directories below an open directory, deepest first."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    for name in names:
        with (
            suppress(FileNotFoundError, NotADirectoryError, RefusedError),
            _opened_child(name, directory, name) as child,
        ):
            _remove_empty_children(child)
        _remove_directory(name, directory)


def _remove_directory(name: str, parent: int) -> None:
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError as error:
        if error.errno not in _NOT_REMOVED:
            raise


def _parts(location: Location, subdirectory: str) -> list[str]:
    """Return the names between the root and the path."""
    inside = f"{location.uri}/{subdirectory}".removeprefix(location.root_uri)
    return [part for part in inside.split("/") if part]


def _opened(location: Location, subdirectory: str) -> AbstractContextManager[int]:
    """Open a directory below the location for the block."""
    return _opened_path(location.root_uri, _parts(location, subdirectory))


@contextmanager
def _opened_path(root: str, parts: Sequence[str]) -> Iterator[int]:
    """Open a directory. The root may be reached through links, directories below it may not."""
    directory = os.open(root, _DIRECTORY)
    try:
        path = root
        for part in parts:
            path = f"{path}/{part}"
            parent, directory = directory, _open_child(part, directory, path)
            os.close(parent)
        yield directory
    finally:
        os.close(directory)


@contextmanager
def _opened_child(name: str, parent: int, path: str) -> Iterator[int]:
    directory = _open_child(name, parent, path)
    try:
        yield directory
    finally:
        os.close(directory)


def _open_child(name: str, parent: int, path: str) -> int:
    try:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno in _NOT_A_DIRECTORY and _is_link(name, parent):
            raise RefusedError(
                f"{path} is a symbolic link: links below the graph are not followed",
                code=LINK_CODE,
                hint="Replace the link with a directory that has its contents, or remove the link.",
                facts={"path": path},
            ) from error
        raise


def _is_link(name: str, parent: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
