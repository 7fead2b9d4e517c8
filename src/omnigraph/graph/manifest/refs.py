"""Read earlier states of a branch: at a commit, at a version of its manifest, or at a time. Nothing here writes.

A state whose files were deleted raises `snapshot_collected`; another state is never returned instead. A commit has
the time of the clock of its writer. So the state at a time is that of the newest commit of the history whose time is
not later, and two writers whose clocks differ can make it one commit more or less.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from omnigraph.base.errors import NotFoundError, RefusedError, UsageError
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest.lineage import make_lineage, resolve_commit
from omnigraph.graph.manifest.reader import Manifest, open_manifest
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.graph.manifest.snapshot import (
    MAIN,
    Snapshot,
    find_named_commit,
    read_commit_snapshot,
    read_snapshot,
    require_unmoved_graph,
)
from omnigraph.graph.manifest.stamp import FORMAT, StorageFormat
from omnigraph.storage.location import Location

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_VERSION_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SnapshotSelector:
    """Which state of a branch: by commit, by manifest version or by time (default: the newest)."""

    commit: str | None = None
    version: int | None = None
    time_us: int | None = None

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.commit, self.version, self.time_us)) > 1:
            raise UsageError(
                "expected one of commit, version and time, got several",
                code="snapshot_twice",
                hint="Pass one of a commit, a version and a time.",
            )


def read_state(
    root: Location, branch: str = MAIN, selector: SnapshotSelector | None = None, storage_format: StorageFormat = FORMAT
) -> Snapshot:
    """Read the selected state of a branch."""
    selector = selector or SnapshotSelector()
    if selector.commit is not None:
        return read_commit_snapshot(root, selector.commit, branch, storage_format=storage_format)[0]
    if selector.time_us is not None:
        return read_snapshot_at_time(root, selector.time_us, branch, storage_format)[0]
    if selector.version is None:
        return read_snapshot(root, branch, storage_format=storage_format)
    if not 0 < selector.version <= _VERSION_MAX:
        raise NotFoundError(
            f"invalid version: expected 1 to {_VERSION_MAX}, got {selector.version}",
            code="manifest_version_missing",
            hint=hint("Run {} to list the versions of a branch.", action("commit list")),
            facts={"branch": branch, "version": str(selector.version)},
        )
    try:
        return read_snapshot(root, branch, version=selector.version, storage_format=storage_format)
    except NotFoundError as missing:
        newest = read_snapshot(root, branch, storage_format=storage_format).version
        if selector.version > newest:
            raise
        raise NotFoundError(
            f"version {selector.version} of branch '{branch}' was deleted by `cleanup`",
            code="snapshot_collected",
            hint=hint(
                f"The newest version of the branch is {newest}. Run {{}} to list readable commits.",
                action("commit list"),
            ),
            facts={"branch": branch, "version": selector.version},
        ) from missing


def parse_timestamp(text: str) -> int:
    """Return RFC 3339 text, with its offset, as microseconds since the epoch. A date is its beginning in UTC."""
    try:
        time = datetime.fromisoformat(f"{text}T00Z" if _DATE.fullmatch(text) else text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise UsageError(
            f"invalid time: expected RFC 3339 with an offset or a date, got '{text}'",
            code="moment_malformed",
            hint="Write it as 2024-05-31T12:00:00Z, 2024-05-31T14:00:00+02:00 or 2024-05-31.",
        )
    return (time - _EPOCH) // timedelta(microseconds=1)


def read_snapshot_at_time(
    root: Location, time_us: int, branch: str = MAIN, storage_format: StorageFormat = FORMAT
) -> tuple[Snapshot, CommitRecord]:
    """Read the snapshot of the newest commit at or before a time, and that commit."""
    newest = read_snapshot(root, branch, storage_format=storage_format)
    history = tuple(make_lineage(newest.head, newest.manifest.read_commits()).history())
    commit_at_time = next((commit for commit in history if commit.created_us <= time_us), None)
    if commit_at_time is None:
        earliest = _EPOCH + timedelta(microseconds=history[-1].created_us)
        first = earliest.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        raise NotFoundError(
            f"branch '{branch}' has no commit at or before that time",
            code="moment_too_early",
            hint=f"Pass {first}, the time of its first commit, or later.",
            facts={"branch": branch, "first": first},
        )
    return read_commit_snapshot(root, commit_at_time.id, branch, storage_format=storage_format)


def readable_commits(newest: Snapshot, commits: Iterable[CommitRecord]) -> frozenset[CommitId]:
    """Return the commits whose snapshots still exist.

    A commit is the head in its `manifest_hint` or a later version, up to that of the next commit. So it is readable if
    any of these versions exists.
    """
    hints: dict[str | None, list[int]] = {}
    for record in newest.manifest.read_commits():
        hints.setdefault(record.manifest_hint.branch, []).append(record.manifest_hint.version)
    versions_by_branch = {branch: _list_versions(newest, branch) for branch in hints}
    for versions in hints.values():
        versions.sort()

    def is_readable(record: CommitRecord) -> bool:
        branch, first = record.manifest_hint.branch, record.manifest_hint.version
        versions = versions_by_branch[branch]
        position, next_hint = bisect_left(versions, first), bisect_right(hints[branch], first)
        if position == len(versions):
            return False
        return next_hint == len(hints[branch]) or versions[position] < hints[branch][next_hint]

    return frozenset(record.id for record in commits if is_readable(record))


def _list_versions(newest: Snapshot, lance_branch: str | None) -> tuple[int, ...]:
    """Return the versions, oldest first; empty for a deleted branch."""
    dataset = newest.manifest.dataset
    if lance_branch == dataset.branch:
        return dataset.versions()
    try:
        return open_manifest(newest.root, lance_branch=lance_branch).dataset.versions()
    except NotFoundError:
        return ()


def read_reference(root: Location, name: str) -> Snapshot:
    """Read the head of the branch of that name, or the commit of that id on any live branch."""
    main = read_snapshot(root)
    if name == MAIN:
        return main
    if name in main.state.branches:
        return read_snapshot(root, name)
    record, branch = _find_record(main, name)
    return read_commit_snapshot(main.root, record.id, branch)[0]


def read_named_commit(root: Location, name: str) -> tuple[Snapshot, CommitRecord]:
    """Read the commit that `read_reference` resolves, and the newest state of its branch.

    The commit can be one whose own state `cleanup` deleted.
    """
    main = read_snapshot(root)
    if name in main.state.branches:
        newest = read_snapshot(root, name)
        return newest, find_named_commit(newest, newest.head)
    record, branch = _find_record(main, name)
    return read_snapshot(root, branch), record


def _find_record(main: Snapshot, name: str) -> tuple[CommitRecord, str]:
    """Return the commit of an id, and the live branch that it was written on."""

    def read_all_ids() -> Iterator[CommitId]:
        return (commit for manifest in _open_manifests(main) for commit in manifest.read_commit_ids())

    commit = resolve_commit(name, main.head, read_all_ids)
    records = (manifest.find_commit(commit) for manifest in _open_manifests(main))
    record = next((record for record in records if record is not None), None)
    if record is None:
        raise missing_reference(name)
    return record, _own_branch(main, record)


def missing_reference(name: str) -> NotFoundError:
    """Return the error for a name that no branch and no commit has."""
    return NotFoundError(
        f"no branch or commit '{name}'",
        code="reference_missing",
        hint=hint("Run {} or {}.", action("branch list"), action("commit list")),
        facts={"name": name},
    )


def _open_manifests(main: Snapshot) -> Iterator[Manifest]:
    """Open the manifests of all live branches, main first."""
    yield main.manifest
    for name, branch in sorted(main.state.branches.items()):
        if name != MAIN:
            require_unmoved_graph(main.manifest, main.root, name)
            yield open_manifest(main.root, lance_branch=branch.lance_branch)


def _own_branch(main: Snapshot, record: CommitRecord) -> str:
    lance_branch = record.manifest_hint.branch
    branches = main.state.branches.values()
    owner = next((branch for branch in branches if branch.lance_branch == lance_branch), None)
    if owner is None:
        raise RefusedError(
            f"commit {record.id} was made on branch '{record.branch}', which was deleted",
            code="commit_branch_gone",
            hint=hint("Use the commit that merged it. Run {} to find it.", action("commit list")),
            facts={"commit": record.id, "branch": record.branch},
        )
    return owner.name
