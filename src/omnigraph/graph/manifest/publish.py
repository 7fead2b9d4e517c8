"""The one write path: Stage, Lease, Check, Arm, Commit, Publish, Disarm. Every head of every table moves here.

In: a function that stages from a snapshot. Out: `Published`, or None when there was nothing to do, or an error
that says whether the write was applied. A crash before Arm leaves unreferenced files; after it, an intent from
which the next check or open finishes the write or undoes it. See docs/dev/write-path.md.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.errors import Applied, ConflictError, StorageError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import BranchId, CommitId, OperationId
from omnigraph.graph.manifest.compaction import can_lose_versions, compact_manifest, needs_compaction
from omnigraph.graph.manifest.encoding import (
    HEAD_OBJECT_ID,
    SCHEMA_OBJECT_ID,
    Row,
    branch_object_id,
    commit_object_id,
    decode_branch,
    decode_commit,
    decode_schema,
    decode_table,
    decode_tombstone,
    encode_branch,
    encode_commit,
    encode_head,
    encode_recovery,
    encode_schema,
    encode_table,
    encode_tombstone,
    keep_unknown,
    recovery_object_id,
    rows_to_table,
    table_object_id,
)
from omnigraph.graph.manifest.reader import FoundRow, Manifest, ManifestState, open_manifest, select_rows
from omnigraph.graph.manifest.records import (
    BranchRecord,
    CommitRecord,
    Pin,
    RecoveryRecord,
    SchemaRecord,
    StreamBatch,
    TableId,
    TableMove,
    TableRecord,
    TombstoneRecord,
    tombstone_object_id,
)
from omnigraph.graph.manifest.requirements import Requirement, check_requirements
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.graph.manifest.stamp import FORMAT, Format, migrate_manifest
from omnigraph.storage.errors import CommitRaceError
from omnigraph.storage.lance.commit import DisplacedCommitError, Replacement, commit_replacement
from omnigraph.storage.location import Location
from omnigraph.storage.sync import SyncError

_DECODED_KINDS: Final = ("table", "table_tombstone", "schema")
_SILENT_FAILURES: Final = frozenset({"commit_unknown", "store_unreachable"})
"""Codes of failures after which a request may still be on its way to the store."""


@dataclass(frozen=True, slots=True)
class CommitDraft:
    """What a commit says of itself; parent, hint and moves are computed from the manifest it replaces."""

    id: CommitId
    operation: str
    operation_id: OperationId
    actor: str
    created_us: int
    counts: Mapping[str, int] = field(default_factory=dict)
    merged_parent: CommitId | None = None
    pins: Mapping[TableId, Pin] | None = None
    stream: StreamBatch | None = None


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """The rows of one publish, beside `graph_head`. Without a commit the head stays where it is.

    `rows` are rows that an intent kept encoded, for recovery. `removed` are keys of rows that go.
    """

    commit: CommitDraft | None = None
    tables: tuple[TableRecord, ...] = ()
    tombstones: tuple[TombstoneRecord, ...] = ()
    schema: SchemaRecord | None = None
    branches: tuple[BranchRecord, ...] = ()
    recovery: RecoveryRecord | None = None
    ancestors: tuple[CommitRecord, ...] = ()
    rows: tuple[Row, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishTarget:
    """The manifest branch that a publish goes to."""

    root: Location
    branch: str
    branch_id: BranchId
    lance_branch: str | None


@dataclass(frozen=True, slots=True)
class Publication:
    """A publish that is visible: the manifest version it was seen at, and its commit if it made one."""

    manifest_version: int
    commit: CommitRecord | None


@dataclass(frozen=True, slots=True)
class Publisher:
    """How to publish: the last check before the durable step, and the world it runs in."""

    hold: Callable[[], None] = lambda: None
    clock: Clock = SYSTEM_CLOCK
    jitter: Callable[[], float] = random.random
    rules: Format = FORMAT


@dataclass(frozen=True, slots=True)
class ObservedState:
    """A manifest that the caller opened and read under its lease: the first attempt goes through it.

    If anything was published since, that attempt loses, as every publish collides with every other.
    """

    manifest: Manifest
    state: ManifestState


class PublishUnknownError(StorageError):
    """The store failed while publishing and did not say whether the commit is there."""

    applied = Applied.UNKNOWN


class PublishContentionError(ConflictError):
    """Other publishers were first, again and again; nothing was published."""

    applied = Applied.NO


class PublishLostError(ConflictError):
    """The write landed on a version number that had been collected: it is not in the lineage."""

    applied = Applied.NO


def publish(
    target: PublishTarget,
    change: ManifestChange,
    requirements: tuple[Requirement, ...] = (),
    publisher: Publisher | None = None,
    seen: ObservedState | None = None,
) -> Publication:
    """Publish `change` on `target`, or raise an error that says whether it was applied."""
    how = publisher or Publisher()
    change = _decoded(change)
    first = seen if seen is not None and _is_seen(change) else None
    for attempt in range(limits.PUBLISHER_RETRY_BUDGET):
        handle = _open_for_write(target, how, first if attempt == 0 else None)
        how.hold()
        state, replaced = _read(handle, change, first)
        if _is_applied(change, replaced, tried=attempt > 0):
            return _publication(handle, change, replaced)
        check_requirements(state, requirements)
        draft = change.commit
        commit = None if draft is None else _commit_record(change, draft, target, handle, state)
        rows = rows_to_table(_rows(change, commit, state, replaced), handle.dataset.schema)
        replacement = Replacement("object_id", rows, change.removed)
        failpoint(Failpoint.PUBLISH_BEFORE)
        try:
            landed = commit_replacement(handle.dataset, replacement, state.rows)
        except CommitRaceError:
            _back_off(attempt, how)
            continue
        except DisplacedCommitError:
            return _look_for(target, change, commit, how)
        except StorageError as failure:
            return _settle(target, change, failure, how)
        failpoint(Failpoint.PUBLISH_AFTER)
        # The version that landed was read back and is this very change; it counts while it is the newest.
        try:
            if landed.newest_version() == landed.version:
                return Publication(landed.version, commit)
            return _look_for(target, change, commit, how)
        except StorageError as failure:
            return _settle(target, change, failure, how)
    raise PublishContentionError(
        f"{limits.PUBLISHER_RETRY_BUDGET} attempts to publish on branch '{target.branch}' lost to other writers",
        code="publish_contention",
        hint="retry; nothing was published",
        facts={"branch": target.branch},
    )


def _open_for_write(target: PublishTarget, how: Publisher, first: ObservedState | None) -> Manifest:
    """The newest manifest, brought up to date and small. The lease is checked before each step that changes it."""
    handle = (
        open_manifest(target.root, lance_branch=target.lance_branch, rules=how.rules)
        if first is None
        else first.manifest
    )
    if handle.stamp != how.rules.current:
        how.hold()
        handle = Manifest(migrate_manifest(handle.dataset, how.rules), how.rules.current)
    if needs_compaction(handle.dataset.fragment_rows().values()) or can_lose_versions(handle):
        how.hold()
        handle = compact_manifest(handle, how.rules)
    return handle


def _is_seen(change: ManifestChange) -> bool:
    """Whether every row that the change replaces is part of a manifest's state, or is new."""
    return not (change.recovery or change.ancestors or change.rows or change.removed)


def _read(
    handle: Manifest, change: ManifestChange, first: ObservedState | None
) -> tuple[ManifestState, tuple[FoundRow, ...]]:
    """The state of the handle's version and the rows that the change replaces; read only if they were not seen."""
    if first is not None and handle is first.manifest and first.state.rows is not None:
        return first.state, select_rows(first.state.rows, _object_ids(change))
    return handle.read_state_and(_object_ids(change))


def _decoded(change: ManifestChange) -> ManifestChange:
    """Rows that an intent kept encoded, as records again: the commit must say what they move."""
    kinds = {kind: [row for row in change.rows if row["object_type"] == kind] for kind in _DECODED_KINDS}
    return replace(
        change,
        tables=(*change.tables, *map(decode_table, kinds["table"])),
        tombstones=(*change.tombstones, *map(decode_tombstone, kinds["table_tombstone"])),
        schema=decode_schema(kinds["schema"][0]) if kinds["schema"] else change.schema,
        rows=tuple(row for row in change.rows if row["object_type"] not in _DECODED_KINDS),
    )


def _object_ids(change: ManifestChange) -> tuple[str, ...]:
    """The keys of every row that the change writes or removes."""
    return (
        HEAD_OBJECT_ID,
        *_own_object_ids(change),
        *(table_object_id(table.id) for table in change.tables),
        *(tombstone_object_id(stone.table, stone.version) for stone in change.tombstones),
        *(() if change.schema is None else (SCHEMA_OBJECT_ID,)),
        *(commit_object_id(ancestor.id) for ancestor in change.ancestors),
        *(branch_object_id(branch.name) for branch in change.branches),
        *(str(row["object_id"]) for row in change.rows),
        *change.removed,
    )


def _own_object_ids(change: ManifestChange) -> tuple[str, ...]:
    """The rows by which an earlier attempt of the same publish is known: its commit, its recovery."""
    commit = () if change.commit is None else (commit_object_id(change.commit.id),)
    recovery = () if change.recovery is None else (recovery_object_id(change.recovery.operation_id),)
    return (*commit, *recovery)


def _is_applied(change: ManifestChange, found: tuple[FoundRow, ...], *, tried: bool) -> bool:
    """Whether these rows show the change: its commit, its recovery, or else its branches.

    A removal leaves no trace that is its own, so what is missing was removed by it only if it was `tried`.
    """
    rows = {str(row["object_id"]): row for row in found}
    own = _own_object_ids(change)
    if own:
        return any(object_id in rows for object_id in own)
    if change.removed and (not tried or any(object_id in rows for object_id in change.removed)):
        return False
    made = [(branch.id, rows.get(branch_object_id(branch.name))) for branch in change.branches]
    return bool(made or change.removed) and all(
        row is not None and decode_branch(row).id == branch_id for branch_id, row in made
    )


def _publication(handle: Manifest, change: ManifestChange, found: tuple[FoundRow, ...]) -> Publication:
    own = None if change.commit is None else commit_object_id(change.commit.id)
    commits = [decode_commit(row) for row in found if row["object_id"] == own]
    return Publication(handle.version, commits[0] if commits else None)


def _commit_record(
    change: ManifestChange, draft: CommitDraft, target: PublishTarget, handle: Manifest, state: ManifestState
) -> CommitRecord:
    live = state.live_tables()
    moves = [
        TableMove(table.id, live[table.id].pin if table.id in live else None, table.pin)
        for table in change.tables
    ]
    dropped = [
        TableMove(stone.table, live[stone.table].pin, None)
        for stone in change.tombstones
        if stone.table in live
    ]
    return CommitRecord(
        id=draft.id,
        parent=state.head,
        merged_parent=draft.merged_parent,
        branch=target.branch,
        branch_id=target.branch_id,
        actor=draft.actor,
        operation=draft.operation,
        operation_id=draft.operation_id,
        created_us=draft.created_us,
        manifest_hint=Pin(target.lance_branch, handle.version + 1),
        tables=(*moves, *dropped),
        counts=draft.counts,
        schema_hash=(change.schema or state.schema).hash,
        pins=draft.pins,
        stream=draft.stream,
    )


def _rows(
    change: ManifestChange, commit: CommitRecord | None, state: ManifestState, replaced: tuple[FoundRow, ...]
) -> list[Row]:
    rows = [encode_head(state.head if commit is None else commit.id)]
    rows += [] if commit is None else [encode_commit(commit)]
    rows += [encode_table(table) for table in change.tables]
    rows += [encode_tombstone(stone) for stone in change.tombstones]
    rows += [] if change.schema is None else [encode_schema(change.schema)]
    rows += [encode_branch(branch) for branch in change.branches]
    rows += [] if change.recovery is None else [encode_recovery(change.recovery)]
    rows += [encode_commit(ancestor) for ancestor in change.ancestors]
    rows += list(change.rows)
    before = {row["object_id"]: row for row in replaced}
    return [
        keep_unknown(row, before[row["object_id"]]) if row["object_id"] in before else row for row in rows
    ]


def _look_for(
    target: PublishTarget, change: ManifestChange, commit: CommitRecord | None, how: Publisher
) -> Publication:
    """Say published only after it was seen at the newest version: a version number alone proves nothing."""
    newest = open_manifest(target.root, lance_branch=target.lance_branch, rules=how.rules)
    if (
        commit is not None
        and newest.version == commit.manifest_hint.version
        and newest.read_head() == commit.id
    ):
        return Publication(newest.version, commit)
    found = newest.find_rows(_object_ids(change))
    if _can_be_seen(change) and not _is_applied(change, found, tried=True):
        raise PublishLostError(
            f"what was published landed on a version of branch '{target.branch}' that is no longer its history",
            code="publish_lost",
            hint="this writer was paused for too long; retry, nothing of it is visible",
            facts={"commit": None if commit is None else commit.id},
        )
    return _publication(newest, change, found)


def _can_be_seen(change: ManifestChange) -> bool:
    """Whether a manifest shows that the change was applied; one that only rewrites the head leaves no trace."""
    return bool(_own_object_ids(change) or change.branches or change.removed)


def _settle(
    target: PublishTarget, change: ManifestChange, failure: StorageError, how: Publisher
) -> Publication:
    """The store failed while publishing: look whether it happened before saying anything."""
    try:
        newest = open_manifest(target.root, lance_branch=target.lance_branch, rules=how.rules)
        found = newest.find_rows(_object_ids(change))
    except StorageError as silent:
        raise PublishUnknownError(
            f"the store failed while publishing on branch '{target.branch}', and it is unknown whether it was applied",
            code="publish_unknown",
            hint="the next open settles it; `omnigraph commit list` shows whether it is there",
            facts={"commit": None if change.commit is None else change.commit.id},
        ) from silent
    if _is_applied(change, found, tried=True):
        if isinstance(failure, SyncError):
            raise failure.for_visible_write() from failure
        return _publication(newest, change, found)
    failure.applied = Applied.UNKNOWN if failure.code in _SILENT_FAILURES else Applied.NO
    raise failure


def _back_off(attempt: int, how: Publisher) -> None:
    ceiling = min(limits.PUBLISHER_BACKOFF_SECONDS_MAX, limits.PUBLISHER_BACKOFF_SECONDS_MIN * 2**attempt)
    how.clock.sleep(ceiling * (0.5 + how.jitter() / 2))


def target_of(snapshot: Snapshot) -> PublishTarget:
    """Where the branch of a snapshot is published."""
    branch = snapshot.branch
    return PublishTarget(snapshot.root, branch.name, branch.id, branch.lance_branch)
