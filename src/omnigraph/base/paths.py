"""Where this user's files live that can be made again: launchers, archives, logs, what is known of a warm server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from omnigraph.base.errors import MachineError


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """`OMNIGRAPH_HOME`, or the usual cache."""
    if chosen := environ.get("OMNIGRAPH_HOME"):
        return Path(chosen).absolute()
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "omnigraph"


def cache_not_writable(place: Path, error: OSError) -> MachineError:
    """The error for a place below it that nothing can be written to."""
    return MachineError(
        f"cannot write to {place}: {error.strerror}",
        code="cache_not_writable",
        hint="set OMNIGRAPH_HOME to a directory you can write to",
    )


def package_directory() -> Path:
    """Return the directory of the installed package `omnigraph`."""
    return Path(__file__).parents[1]
