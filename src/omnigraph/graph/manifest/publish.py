"""Publish a change of `__manifest` in one commit: the only way in which a write becomes visible.

In: a branch, a change, requirements, and the check that runs before the durable step. Out: the commit, if the change
has one, or an error that says whether the change was applied. A publish that loses to another one is tried again from
the newest version, within a budget. Old manifests are migrated and compacted first. A crash leaves the manifest before
or after the change.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.errors import Applied, ConflictError, Fact, StorageError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import BranchId, CommitId, OperationId
from omnigraph.base.interrupts import commit_phase
from omnigraph.graph.manifest import encoding, records
from omnigraph.graph.manifest.compaction import backoff_seconds, compact_manifest, needs_compaction
from omnigraph.graph.manifest.newest import PublishedCommit, note_published
from omnigraph.graph.manifest.reader import Manifest, ManifestRow, ManifestState, open_manifest, select_rows
from omnigraph.graph.manifest.requirements import Requirement, require_all
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.graph.manifest.stamp import FORMAT, StorageFormat, migrate_manifest
from omnigraph.storage.errors import CommitRaceError
from omnigraph.storage.lance.commit import DisplacedCommitError, Replacement, commit_replacement, has_auto_cleanup
from omnigraph.storage.location import Location
from omnigraph.storage.sync import SyncError

_DECODED_KINDS: Final = ("table", "table_tombstone", "schema")
_UNCONFIRMED_FAILURES: Final = frozenset({"commit_unknown", "store_unreachable"})
"""Codes of failures after which the store may still apply the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDraft:
    """A commit before it is published; its parent, hint and moves come from the manifest that it replaces."""

    id: CommitId
    operation: records.WriteOperation
    operation_id: OperationId
    actor: str
    created_us: int
    counts: Mapping[str, int] = field(default_factory=dict)
    merged_parent: CommitId | None = None
    pins: Mapping[records.TableId, records.Pin] | None = None
    stream: records.StreamBatch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestChange:
    """The rows of one publish, in addition to `graph_head`. Without a commit the head does not change.

    `rows` are encoded rows from an intent, for recovery. `removed` are the keys of rows to remove.
    """

    commit: CommitDraft | None = None
    tables: tuple[records.TableRecord, ...] = ()
    tombstones: tuple[records.TombstoneRecord, ...] = ()
    schema: records.SchemaRecord | None = None
    branches: tuple[records.BranchRecord, ...] = ()
    recovery: records.RecoveryRecord | None = None
    ancestors: tuple[records.CommitRecord, ...] = ()
    rows: tuple[encoding.Row, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishTarget:
    """The manifest branch on which to publish."""

    root: Location
    branch: str
    branch_id: BranchId
    lance_branch: str | None

    def open_manifest(self, storage_format: StorageFormat) -> Manifest:
        """Open its newest version."""
        return open_manifest(self.root, lance_branch=self.lance_branch, storage_format=storage_format)


@dataclass(frozen=True, slots=True)
class Publisher:
    """How to publish: the last check before the durable step, clock, jitter and storage format."""

    hold: Callable[[], None] = lambda: None
    clock: Clock = SYSTEM_CLOCK
    jitter: Callable[[], float] = random.random
    storage_format: StorageFormat = FORMAT


class PublishUnknownError(StorageError):
    """The store failed during the publish, and it is unknown whether the commit was applied."""

    applied = Applied.UNKNOWN


class PublishContentionError(ConflictError):
    """Other publishers were first in every attempt; nothing was published."""

    applied = Applied.NO


class PublishLostError(ConflictError):
    """The write replaced a version that had been deleted: it is not in the lineage."""

    applied = Applied.NO


@commit_phase()
def publish(
    target: PublishTarget,
    change: ManifestChange,
    requirements: tuple[Requirement, ...] = (),
    publisher: Publisher | None = None,
    observed: Snapshot | None = None,
) -> records.CommitRecord | None:
    """Publish `change` on `target`, and return its commit if it has one; an error says whether it was applied.

    `observed` is the newest snapshot that the caller read under its lease. The first attempt replaces its version. If
    another publish happened since, that attempt fails, because every publish conflicts with every other.
    """
    publisher = publisher or Publisher()
    change = _decode_rows(change)
    object_ids = _object_ids(change)
    # Other rows that the change replaces are not part of the state, so they have to be read.
    is_in_state = not (change.recovery or change.ancestors or change.rows or change.removed)
    first = observed if is_in_state else None
    for attempt in range(limits.PUBLISHER_RETRY_BUDGET):
        handle = _open_for_write(target, publisher, first if attempt == 0 else None)
        publisher.hold()
        if first is not None and handle is first.manifest and first.state.rows is not None:
            state, replaced = first.state, select_rows(first.state.rows, object_ids)
        else:
            state, replaced = handle.read_state_and(object_ids)
        if _is_applied(change, replaced, is_retry=attempt > 0):
            return _own_commit(change, replaced)
        require_all(state, requirements)
        draft = change.commit
        commit = None if draft is None else _commit_record(change, draft, target, handle, state)
        rows = encoding.rows_to_table(_rows(change, commit, state, replaced), handle.dataset.schema)
        replacement = Replacement("object_id", rows, change.removed)
        failpoint(Failpoint.PUBLISH_BEFORE)
        try:
            committed = commit_replacement(handle.dataset, replacement, state.rows)
        except CommitRaceError:
            publisher.clock.sleep(backoff_seconds(attempt) * (0.5 + publisher.jitter() / 2))
            continue
        except DisplacedCommitError:
            return _confirm(target, change, commit, publisher)
        except StorageError as failure:
            return _resolve_failure(target, change, failure, publisher)
        failpoint(Failpoint.PUBLISH_AFTER)
        # The committed version was read back and is this change. It is published if it is still the newest.
        try:
            if committed.newest_version() == committed.version:
                if commit is not None and change == ManifestChange(commit=change.commit, tables=change.tables):
                    tables = change.tables
                    published = PublishedCommit(head=commit.id, tables=tables, rows=rows, dataset=committed)
                    note_published(target.root, handle, state, published)
                return commit
            return _confirm(target, change, commit, publisher)
        except StorageError as failure:
            return _resolve_failure(target, change, failure, publisher)
    raise PublishContentionError(
        f"cannot publish on branch '{target.branch}': other writers published first in all "
        f"{limits.PUBLISHER_RETRY_BUDGET} attempts",
        code="publish_contention",
        hint="Nothing was written. Retry.",
        facts={"branch": target.branch},
    )


def _open_for_write(target: PublishTarget, publisher: Publisher, first: Snapshot | None) -> Manifest:
    """Open the newest manifest; migrate and compact it if needed.

    The lease is checked before each step that changes it.
    """
    handle = target.open_manifest(publisher.storage_format) if first is None else first.manifest
    if handle.stamp != publisher.storage_format.current:
        publisher.hold()
        handle = Manifest(migrate_manifest(handle.dataset, publisher.storage_format), publisher.storage_format.current)
    if needs_compaction(handle.dataset.fragment_rows().values()) or has_auto_cleanup(handle.dataset):
        publisher.hold()
        handle = compact_manifest(handle, publisher.storage_format)
    return handle


def _decode_rows(change: ManifestChange) -> ManifestChange:
    """Return the change with the encoded rows of an intent as records: the commit lists what they move."""
    kinds = {kind: [row for row in change.rows if row["object_type"] == kind] for kind in _DECODED_KINDS}
    return replace(
        change,
        tables=(*change.tables, *map(encoding.decode_table, kinds["table"])),
        tombstones=(*change.tombstones, *map(encoding.decode_tombstone, kinds["table_tombstone"])),
        schema=encoding.decode_schema(kinds["schema"][0]) if kinds["schema"] else change.schema,
        rows=tuple(row for row in change.rows if row["object_type"] not in _DECODED_KINDS),
    )


def _object_ids(change: ManifestChange) -> tuple[str, ...]:
    """Return the keys of every row that the change writes or removes."""
    rows = (str(row["object_id"]) for row in encode_rows(change))
    return (encoding.HEAD_OBJECT_ID, *_identifying_ids(change), *rows, *change.removed)


def _identifying_ids(change: ManifestChange) -> tuple[str, ...]:
    """Return the keys of the rows that identify an earlier attempt of the same publish: its commit, its recovery."""
    commit = () if change.commit is None else (encoding.commit_object_id(change.commit.id),)
    recovery = () if change.recovery is None else (encoding.recovery_object_id(change.recovery.operation_id),)
    return (*commit, *recovery)


def _is_applied(change: ManifestChange, rows: tuple[ManifestRow, ...], *, is_retry: bool) -> bool:
    """Return whether these rows show the change: its commit, its recovery, or else its branches.

    A removal has no row of its own, so missing rows were removed by this change only if this `is_retry`.
    """
    rows_by_id = {str(row["object_id"]): row for row in rows}
    identifying_ids = _identifying_ids(change)
    if identifying_ids:
        return any(object_id in rows_by_id for object_id in identifying_ids)
    if change.removed and (not is_retry or any(object_id in rows_by_id for object_id in change.removed)):
        return False
    created = [(branch.id, rows_by_id.get(encoding.branch_object_id(branch.name))) for branch in change.branches]
    return bool(created or change.removed) and all(
        row is not None and encoding.decode_branch(row).id == branch_id for branch_id, row in created
    )


def _own_commit(change: ManifestChange, rows: tuple[ManifestRow, ...]) -> records.CommitRecord | None:
    own = None if change.commit is None else encoding.commit_object_id(change.commit.id)
    return next((encoding.decode_commit(row) for row in rows if row["object_id"] == own), None)


def _commit_record(
    change: ManifestChange, draft: CommitDraft, target: PublishTarget, handle: Manifest, state: ManifestState
) -> records.CommitRecord:
    pins = {table.id: table.pin for table in state.live_tables().values()}
    moves = [records.TableMove(table.id, pins.get(table.id), table.pin) for table in change.tables]
    dropped = [
        records.TableMove(tombstone.table, pins[tombstone.table], None)
        for tombstone in change.tombstones
        if tombstone.table in pins
    ]
    return records.CommitRecord(
        id=draft.id,
        parent=state.head,
        merged_parent=draft.merged_parent,
        branch=target.branch,
        branch_id=target.branch_id,
        actor=draft.actor,
        operation=draft.operation,
        operation_id=draft.operation_id,
        created_us=draft.created_us,
        manifest_hint=records.Pin(target.lance_branch, handle.version + 1),
        tables=(*moves, *dropped),
        counts=draft.counts,
        schema_hash=(change.schema or state.schema).hash,
        pins=draft.pins,
        stream=draft.stream,
    )


def _rows(
    change: ManifestChange, commit: records.CommitRecord | None, state: ManifestState, replaced: tuple[ManifestRow, ...]
) -> list[encoding.Row]:
    rows = [encoding.encode_head(state.head if commit is None else commit.id)]
    rows += [] if commit is None else [encoding.encode_commit(commit)]
    rows += encode_rows(change)
    before = {row["object_id"]: row for row in replaced}
    return [encoding.keep_unknown(row, before[row["object_id"]]) if row["object_id"] in before else row for row in rows]


def encode_rows(change: ManifestChange) -> list[encoding.Row]:
    """Return the rows of a change, except those of its commit and of the head."""
    return [
        *map(encoding.encode_table, change.tables),
        *map(encoding.encode_tombstone, change.tombstones),
        *([] if change.schema is None else [encoding.encode_schema(change.schema)]),
        *map(encoding.encode_branch, change.branches),
        *([] if change.recovery is None else [encoding.encode_recovery(change.recovery)]),
        *map(encoding.encode_commit, change.ancestors),
        *change.rows,
    ]


def _confirm(
    target: PublishTarget, change: ManifestChange, commit: records.CommitRecord | None, publisher: Publisher
) -> records.CommitRecord | None:
    """Return the commit only if the newest version has it: a version number alone proves nothing."""
    newest = target.open_manifest(publisher.storage_format)
    if commit is not None and newest.version == commit.manifest_hint.version and newest.read_head() == commit.id:
        return commit
    rows = newest.find_rows(_object_ids(change))
    # A change of only the head leaves no trace in the manifest.
    leaves_trace = _identifying_ids(change) or change.branches or change.removed
    if leaves_trace and not _is_applied(change, rows, is_retry=True):
        raise PublishLostError(
            f"the publish is not in the history of branch '{target.branch}': its manifest version had been deleted",
            code="publish_lost",
            hint="Nothing was written, because this writer was paused for too long. Retry.",
            facts={"commit": None if commit is None else commit.id},
        )
    return _own_commit(change, rows)


def _resolve_failure(
    target: PublishTarget, change: ManifestChange, failure: StorageError, publisher: Publisher
) -> records.CommitRecord | None:
    """Read whether the publish was applied although the store failed."""
    try:
        newest = target.open_manifest(publisher.storage_format)
        rows = newest.find_rows(_object_ids(change))
    except StorageError as unreachable:
        raise PublishUnknownError(
            f"the store failed during the publish on branch '{target.branch}': it is unknown whether it was applied",
            code="publish_unknown",
            hint=hint("The next open recovers it. Run {} to see whether it was applied.", action("commit list")),
            facts=_unknown_facts(change),
        ) from unreachable
    if _is_applied(change, rows, is_retry=True):
        if isinstance(failure, SyncError):
            raise failure.for_visible_write() from failure
        return _own_commit(change, rows)
    failure.applied = Applied.UNKNOWN if failure.code in _UNCONFIRMED_FAILURES else Applied.NO
    raise failure


def _unknown_facts(change: ManifestChange) -> dict[str, Fact]:
    """Return the facts of a publish whose outcome is unknown. A change of branches is not part of an operation."""
    draft, recovery = change.commit, change.recovery
    facts: dict[str, Fact] = {"commit": None if draft is None else draft.id}
    operation = draft.operation_id if draft is not None else None if recovery is None else recovery.operation_id
    return facts if operation is None else {**facts, "recovery_required": {"operation_id": operation}}


def target_of(snapshot: Snapshot) -> PublishTarget:
    """Return where the branch of a snapshot is published."""
    branch = snapshot.branch
    return PublishTarget(snapshot.root, branch.name, branch.id, branch.lance_branch)
