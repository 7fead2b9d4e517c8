"""Time travel: the state of a branch at a commit, at a version of its manifest, or at a moment. Reading only.

A state whose files were collected is `snapshot_collected`, never another one. A commit has the time of its writer's
clock. So the state at a moment is that of the newest commit of the branch's history whose time is not later, and two
writers whose clocks differ can make it a commit more or less.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.graph.lineage import make_lineage
from omnigraph.graph.records import CommitRecord
from omnigraph.graph.snapshot import MAIN, Snapshot, read_commit_snapshot, read_snapshot
from omnigraph.graph.stamp import FORMAT, Format
from omnigraph.storage.location import Location

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VERSION_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class When:
    """Which state of a branch: by commit, by manifest version or by moment; the newest when nothing is given."""

    commit: str | None = None
    version: int | None = None
    moment_us: int | None = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.commit, self.version, self.moment_us)) > 1:
            raise UsageError(
                "two states of the graph are named",
                code="snapshot_twice",
                hint="give one of a commit, a version and a time",
            )


def read_state(
    root: Location, branch: str = MAIN, when: When | None = None, rules: Format = FORMAT
) -> Snapshot:
    """The state of a branch that is asked for."""
    wanted = when or When()
    if wanted.commit is not None:
        return read_commit_snapshot(root, wanted.commit, branch, rules=rules)[0]
    if wanted.moment_us is not None:
        return read_moment_snapshot(root, wanted.moment_us, branch, rules)[0]
    if wanted.version is None:
        return read_snapshot(root, branch, rules=rules)
    if not 0 < wanted.version <= _VERSION_MAX:
        raise NotFoundError(
            f"no version has the number {wanted.version}",
            code="manifest_version_missing",
            hint="`omnigraph commit list` shows the versions of a branch",
            facts={"branch": branch, "version": str(wanted.version)},
        )
    try:
        return read_snapshot(root, branch, version=wanted.version, rules=rules)
    except NotFoundError as gone:
        newest = read_snapshot(root, branch, rules=rules).version
        if wanted.version > newest:
            raise
        raise NotFoundError(
            f"branch {branch} has no version {wanted.version} any more",
            code="snapshot_collected",
            hint=f"its newest version is {newest}; older ones go when `omnigraph cleanup` collects them",
            facts={"branch": branch, "version": wanted.version},
        ) from gone


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


def read_moment_snapshot(
    root: Location, moment_us: int, branch: str = MAIN, rules: Format = FORMAT
) -> tuple[Snapshot, CommitRecord]:
    """The snapshot of the newest commit at or before a moment, and that commit."""
    newest = read_snapshot(root, branch, rules=rules)
    history = tuple(make_lineage(newest.head, newest.manifest.read_commits()).history())
    found = next((commit for commit in history if commit.created_us <= moment_us), None)
    if found is None:
        earliest = _EPOCH + timedelta(microseconds=history[-1].created_us)
        first = earliest.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        raise NotFoundError(
            f"branch {branch} has no commit at or before that moment",
            code="moment_too_early",
            hint=f"its first commit is of {first}",
            facts={"branch": branch, "first": first},
        )
    return read_commit_snapshot(root, found.id, branch, rules=rules)
