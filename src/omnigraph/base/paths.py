"""Directories of this installation and this user.

The cache directory holds files that can be created again: launchers, archives, logs and the state of a warm server.
Never creates a directory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from omnigraph.base.errors import MachineError


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `OMNIGRAPH_HOME`, or `omnigraph` in the user's cache directory."""
    if home := environ.get("OMNIGRAPH_HOME"):
        return Path(home).absolute()
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "omnigraph"


def cache_not_writable_error(path: Path, error: OSError) -> MachineError:
    """Return the error for a path in the cache directory that is not writable."""
    return MachineError(
        f"cannot write to {path}: {error.strerror}",
        code="cache_not_writable",
        hint="Set OMNIGRAPH_HOME to a directory that you can write to.",
    )


def package_directory() -> Path:
    """Return the directory of the installed package `omnigraph`."""
    return Path(__file__).parents[1]
