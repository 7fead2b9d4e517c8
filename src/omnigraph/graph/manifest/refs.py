"""Time travel: the state of a branch at a commit, at a version of its manifest, or at a moment. Reading only.

A state whose files were collected is `snapshot_collected`, never another one. A commit has the time of its writer's
clock. So the state at a moment is that of the newest commit of the branch's history whose time is not later, and two
writers whose clocks differ can make it a commit more or less.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from omnigraph.base.errors import NotFoundError, RefusedError, UsageError
from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest.lineage import make_lineage, resolve_commit
from omnigraph.graph.manifest.reader import Manifest, open_manifest
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.graph.manifest.snapshot import (
    MAIN,
    Snapshot,
    read_commit_snapshot,
    read_snapshot,
    require_unmoved_graph,
)
from omnigraph.graph.manifest.stamp import FORMAT, Format
from omnigraph.storage.location import Location

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VERSION_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SnapshotSelector:
    """Which state of a branch: by commit, by manifest version or by moment; the newest when nothing is given."""

    commit: str | None = None
    version: int | None = None
    time_us: int | None = None

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.commit, self.version, self.time_us)) > 1:
            raise UsageError(
                "two states of the graph are named",
                code="snapshot_twice",
                hint="give one of a commit, a version and a time",
            )


def read_state(
    root: Location, branch: str = MAIN, selector: SnapshotSelector | None = None, rules: Format = FORMAT
) -> Snapshot:
    """The state of a branch that is asked for."""
    selector = selector or SnapshotSelector()
    if selector.commit is not None:
        return read_commit_snapshot(root, selector.commit, branch, rules=rules)[0]
    if selector.time_us is not None:
        return read_snapshot_at_time(root, selector.time_us, branch, rules)[0]
    if selector.version is None:
        return read_snapshot(root, branch, rules=rules)
    if not 0 < selector.version <= _VERSION_MAX:
        raise NotFoundError(
            f"no version has the number {selector.version}",
            code="manifest_version_missing",
            hint="`omnigraph commit list` shows the versions of a branch",
            facts={"branch": branch, "version": str(selector.version)},
        )
    try:
        return read_snapshot(root, branch, version=selector.version, rules=rules)
    except NotFoundError as missing:
        newest = read_snapshot(root, branch, rules=rules).version
        if selector.version > newest:
            raise
        raise NotFoundError(
            f"branch {branch} has no version {selector.version} any more",
            code="snapshot_collected",
            hint=f"its newest version is {newest}; older ones go when `omnigraph cleanup` collects them",
            facts={"branch": branch, "version": selector.version},
        ) from missing


def parse_timestamp(text: str) -> int:
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


def read_snapshot_at_time(
    root: Location, time_us: int, branch: str = MAIN, rules: Format = FORMAT
) -> tuple[Snapshot, CommitRecord]:
    """The snapshot of the newest commit at or before a moment, and that commit."""
    newest = read_snapshot(root, branch, rules=rules)
    history = tuple(make_lineage(newest.head, newest.manifest.read_commits()).history())
    commit_at_time = next((commit for commit in history if commit.created_us <= time_us), None)
    if commit_at_time is None:
        earliest = _EPOCH + timedelta(microseconds=history[-1].created_us)
        first = earliest.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        raise NotFoundError(
            f"branch {branch} has no commit at or before that moment",
            code="moment_too_early",
            hint=f"its first commit is of {first}",
            facts={"branch": branch, "first": first},
        )
    return read_commit_snapshot(root, commit_at_time.id, branch, rules=rules)


def readable_commits(newest: Snapshot, commits: Iterable[CommitRecord]) -> frozenset[CommitId]:
    """The commits whose snapshots have not been collected.

    A commit's own version may come later than its hint, and versions after it show it until the next commit. So any
    version from its hint up to the next commit's will do.
    """
    hints: dict[str | None, list[int]] = {}
    for record in newest.manifest.read_commits():
        hints.setdefault(record.manifest_hint.branch, []).append(record.manifest_hint.version)
    versions_by_branch = {branch: _versions(newest, branch) for branch in hints}
    for versions in hints.values():
        versions.sort()
    readable: set[CommitId] = set()
    for record in commits:
        branch, first = record.manifest_hint.branch, record.manifest_hint.version
        later = hints[branch][bisect_left(hints[branch], first + 1) :]
        position = bisect_left(versions_by_branch[branch], first)
        if position < len(versions_by_branch[branch]) and (
            not later or versions_by_branch[branch][position] < later[0]
        ):
            readable.add(record.id)
    return frozenset(readable)


def _versions(newest: Snapshot, lance_branch: str | None) -> tuple[int, ...]:
    """Oldest first; none of a branch that is gone."""
    here = newest.manifest.dataset
    if lance_branch == here.branch:
        return here.versions()
    try:
        return open_manifest(newest.root, lance_branch=lance_branch).dataset.versions()
    except NotFoundError:
        return ()


def read_reference(root: Location, name: str) -> Snapshot:
    """The head of the branch of that name, or the commit of that id on any live branch."""
    main = read_snapshot(root)
    if name == MAIN:
        return main
    if name in main.state.branches:
        return read_snapshot(root, name)
    record = _find_commit(main, resolve_commit(name, main.head, lambda: _all_ids(main)))
    if record is None:
        raise NotFoundError(
            f"there is no branch and no commit '{name}'",
            code="reference_missing",
            hint="`omnigraph branch list` and `omnigraph commit list` show what there is",
            facts={"name": name},
        )
    return _at_home(main, record)


def _find_commit(main: Snapshot, commit: CommitId) -> CommitRecord | None:
    """The commit's row in the manifest of any live branch, main's first."""
    rows = (manifest.find_commit(commit) for manifest in _manifests(main))
    return next((row for row in rows if row is not None), None)


def _all_ids(main: Snapshot) -> Iterator[CommitId]:
    return (commit for manifest in _manifests(main) for commit in manifest.read_commit_ids())


def _manifests(main: Snapshot) -> Iterator[Manifest]:
    """Those of all live branches, main's first."""
    yield main.manifest
    for name, branch in sorted(main.state.branches.items()):
        if name != MAIN:
            require_unmoved_graph(main.manifest, main.root, name)
            yield open_manifest(main.root, lance_branch=branch.lance_branch)


def _at_home(main: Snapshot, record: CommitRecord) -> Snapshot:
    home = record.manifest_hint.branch
    owner = next((branch for branch in main.state.branches.values() if branch.lance_branch == home), None)
    if owner is None:
        raise RefusedError(
            f"commit {record.id} was made on branch '{record.branch}', which is gone",
            code="commit_branch_gone",
            hint="use the commit that merged it: `omnigraph commit list` shows it",
            facts={"commit": record.id, "branch": record.branch},
        )
    return read_commit_snapshot(main.root, record.id, owner.name)[0]
