"""Turns `--commit`, `--version` and `--at` into `as_of` of `Graph`: the state that a command reads."""

from __future__ import annotations

from datetime import datetime

from omnigraph.base.clock import to_datetime


def choose_state(commit: str | None, version: int | None, time: str | None) -> str | int | datetime | None:
    """Return the commit, version or time of the arguments; None: the newest state. Raise if there are several."""
    from omnigraph.graph.manifest.refs import SnapshotSelector, parse_timestamp

    time_us = None if time is None else parse_timestamp(time)
    SnapshotSelector(commit, version, time_us)
    return commit if commit is not None else version if time_us is None else to_datetime(time_us)
