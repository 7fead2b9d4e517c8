"""Which state of a graph a command reads: `--commit`, `--version` or `--at`, as the one argument that `Graph` takes."""

from __future__ import annotations

from datetime import datetime

from omnigraph.base.clock import datetime_of


def choose_state(commit: str | None, version: int | None, time: str | None) -> str | int | datetime | None:
    """Return the commit, the version or the time that the caller named; raise if there are two. None: the newest."""
    from omnigraph.graph.manifest.refs import SnapshotSelector, parse_moment

    moment_us = None if time is None else parse_moment(time)
    SnapshotSelector(commit, version, moment_us)
    return commit if commit is not None else version if moment_us is None else datetime_of(moment_us)
