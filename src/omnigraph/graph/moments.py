"""Time travel by the clock: the state that a branch had at a moment. Reading only.

A commit has the time of its writer's clock. So the state at a moment is that of the newest commit of the branch's
history whose time is not later, and two writers whose clocks differ can make it a commit more or less.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.graph.lineage import make_lineage
from omnigraph.graph.records import CommitRecord
from omnigraph.graph.snapshot import MAIN, Snapshot, read_commit_snapshot, read_snapshot
from omnigraph.storage.location import Location

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_moment(text: str) -> int:
    """RFC 3339, with its offset, as microseconds since the epoch."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageError(
            f"'{text}' is no moment",
            code="moment_malformed",
            hint="write it with its offset, as 2024-05-31T12:00:00Z or 2024-05-31T14:00:00+02:00",
        )
    return (moment - _EPOCH) // timedelta(microseconds=1)


def read_moment_snapshot(root: Location, moment_us: int, branch: str = MAIN) -> tuple[Snapshot, CommitRecord]:
    """The snapshot of the newest commit at or before a moment, and that commit."""
    newest = read_snapshot(root, branch)
    history = tuple(make_lineage(newest.head, newest.manifest.read_commits()).history())
    found = next((commit for commit in history if commit.created_us <= moment_us), None)
    if found is None:
        first = (_EPOCH + timedelta(microseconds=history[-1].created_us)).isoformat()
        raise NotFoundError(
            f"branch {branch} has no commit at or before that moment",
            code="moment_too_early",
            hint=f"its first commit is of {first}",
            facts={"branch": branch, "first": first},
        )
    return read_commit_snapshot(root, found.id, branch)
