"""Recover writes that stopped: at every read-write open and in every Check, under the lease of the branch.

In: the intents whose lease epoch is over. Out: each one finished, rolled forward or rolled back, with an audit row,
and deleted. `decide.decide_recovery` makes the decision; here are the fences before it, and the Restores and the
publish after it. A second run changes nothing. External changes are never published and never dropped.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from omnigraph.base.errors import ConflictError, FormatError, NotFoundError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import CommitId, Incarnation, TypeId, new_ulid
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import (
    MULTI_COMMIT_OPERATIONS,
    Intent,
    IntentTable,
    delete_intent,
    is_pending,
    read_intents,
    unreadable_intent_error,
)
from omnigraph.graph.coordination.lease import hold_lease
from omnigraph.graph.manifest.publish import CommitDraft, ManifestChange, Publisher, PublishTarget, publish, target_of
from omnigraph.graph.manifest.reader import Manifest, ManifestState
from omnigraph.graph.manifest.records import Pin, RecoveryRecord, TableRecord, WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.graph.recovery.decide import Moved, RecoveryAction, TableFinding, decide_recovery
from omnigraph.graph.recovery.fence import Guard, can_publish, fence_table, read_history
from omnigraph.graph.recovery.history import TableHistory, operation_properties
from omnigraph.storage.lance.dataset import Dataset, make_durable_since, open_dataset
from omnigraph.storage.lance.durability import IncompleteFileError, make_version_durable
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.sync import SyncError

logger = logging.getLogger("omnigraph.recovery")

RECOVERY_ACTOR: Final = "omnigraph:recovery"


@dataclass(frozen=True, slots=True)
class Recoverer:
    """The branch to recover, and how to publish under its lease."""

    store: ObjectStore
    target: PublishTarget
    publisher: Publisher

    def open_manifest(self) -> Manifest:
        """Open the newest manifest of the branch."""
        return self.target.open_manifest(self.publisher.storage_format)


@dataclass(frozen=True, slots=True)
class RecoveredWrite:
    """A write that was finished or undone."""

    intent: Intent
    action: RecoveryAction


def recover_on_open(
    root: Location, branch: str, environment: WriteEnvironment | None = None
) -> tuple[RecoveredWrite, ...]:
    """Finish or undo the writes of the branch that stopped. Change nothing while a writer holds the lease.

    An intent or a lock that cannot be read does not fail the open. Nor does a writer that holds the lease for longer
    than the wait: the next write recovers.
    """
    environment = environment or WriteEnvironment()
    store = ObjectStore(root)
    intents, _ = read_intents(store)
    if not intents:
        return ()
    try:
        snapshot = read_snapshot(root, branch, storage_format=environment.storage_format)
        if not any(_recovers(snapshot, intent) and is_pending(store, intent) for intent in intents):
            return ()
        target = target_of(snapshot)
        with hold_lease(store, target.branch_id, "recovery", environment.terms) as lease:
            return recover_branch(Recoverer(store, target, environment.publisher(lease)))
    except (FormatError, ConflictError) as error:
        logger.warning("recovery is left to the next writer: %s", error.message)
        return ()


def recover_every_branch(root: Location) -> tuple[RecoveredWrite, ...]:
    """Recover every branch that has intents. Main recovers the intents of deleted branches."""
    intents, _ = read_intents(ObjectStore(root))
    if not intents:
        return ()
    names = {record.id: name for name, record in read_snapshot(root).state.branches.items()}
    branches = {names.get(intent.branch_id, MAIN) for intent in intents} - {MAIN}
    recovered: list[RecoveredWrite] = []
    for name in (*sorted(branches), MAIN):
        with suppress(NotFoundError):  # The branch was deleted since, so main, which is last, recovers it.
            recovered += recover_on_open(root, name)
    return tuple(recovered)


def _recovers(snapshot: Snapshot, intent: Intent) -> bool:
    """Return whether a branch recovers an intent: its own, and main also those of deleted branches."""
    if intent.branch_id == snapshot.branch.id or snapshot.branch.lance_branch is not None:
        return intent.branch_id == snapshot.branch.id
    return all(intent.branch_id != branch.id for branch in snapshot.state.branches.values())


def recover_branch(recoverer: Recoverer) -> tuple[RecoveredWrite, ...]:
    """Finish or undo every pending intent of the branch; on main, discard those of deleted branches too."""
    intents, unreadable = read_intents(recoverer.store)
    branch_id = recoverer.target.branch_id
    for damaged in unreadable:
        if damaged.branch_id in (None, branch_id):
            raise unreadable_intent_error(damaged)
    # The caller holds the lease and has not armed yet, so every intent is of another write, whatever its epoch.
    of_branch = [intent for intent in intents if intent.branch_id == branch_id]
    moved_first = sorted(of_branch, key=lambda intent: (not _has_moved(recoverer, intent), intent.op_id))
    recovered = [RecoveredWrite(intent, recover_intent(recoverer, intent)) for intent in moved_first]
    of_others = [intent for intent in intents if intent.branch_id != branch_id]
    if of_others and recoverer.target.lance_branch is None:
        live_branches = {branch.id for branch in recoverer.open_manifest().read_state().branches.values()}
        orphans = [intent for intent in of_others if intent.branch_id not in live_branches]
        recovered += [RecoveredWrite(intent, _discard_orphan(recoverer, intent)) for intent in orphans]
    return tuple(recovered)


def recover_intent(recoverer: Recoverer, intent: Intent, *, undo: bool = False) -> RecoveryAction:
    """Finish or undo one write of this branch. `undo`: never roll it forward, because its files are unsafe."""
    manifest = recoverer.open_manifest()
    if _is_finished(manifest, intent):
        dataset = manifest.dataset
        make_version_durable(dataset.directory, dataset.version)
        return _delete_recovered(recoverer, intent, RecoveryAction.FINISHED)
    recovery = _IntentRecovery(recoverer, intent, manifest.read_state())
    tables = [recovery.inspect(table) for table in intent.tables]
    tables = [recovery.fence(table) for table in tables]
    tables = [_check_files(table, undo=undo) for table in tables]
    findings = tuple(table.finding for table in tables)
    action = decide_recovery(finished=False, branch_alive=True, tables=findings)
    if action is RecoveryAction.ROLLED_BACK:
        tables = [recovery.roll_back(table) for table in tables]
    recovery.publish(action, tables)
    return _delete_recovered(recoverer, intent, action)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableState:
    """One table of an intent as it is now.

    `dataset` is None if the table was deleted. `pinned` is its row in the manifest, if any. `own_version` is the
    highest version that the intent made, if any.
    """

    table: IntentTable
    dataset: Dataset | None
    history: TableHistory
    pinned: TableRecord | None
    finding: TableFinding
    own_version: int | None

    @property
    def is_multi_commit(self) -> bool:
        """Return whether Lance committed by itself."""
        return self.table.uuid is None

    @property
    def is_on_pinned_branch(self) -> bool:
        """Return whether the manifest pins the Lance branch that the intent wrote."""
        return self.pinned is not None and self.pinned.pin.branch == self.table.lance_branch

    @property
    def fence_target(self) -> int | None:
        """The version that a fence restores; None for HEAD, so that no external commit is hidden.

        It is the pin if only our own fences, or writers that lost their lease, committed above the pin.
        """
        if self.own_version is not None or self.dataset is None:
            return None
        if self.table.is_new:
            base = self.table.base  # No branch has published the table, so this is all of its content.
        elif self.pinned is not None and self.is_on_pinned_branch:
            base = self.pinned.pin.version
        else:
            return None
        return None if read_history(self.dataset, base).has_external_above(base) else base

    def describe(self, action: RecoveryAction) -> str:
        """Return the result for the audit row."""
        if self.dataset is None:
            return "gone"
        base = self.table.base if self.own_version is None else self.own_version
        if self.history.has_external_above(base):
            return "drift"
        return "fenced" if self.own_version is None else action.value


@dataclass(frozen=True, slots=True)
class _IntentRecovery:
    """The recovery of one intent. `state` is the manifest before it."""

    recoverer: Recoverer
    intent: Intent
    state: ManifestState

    @property
    def guard(self) -> Guard:
        intent = self.intent
        properties = operation_properties(intent.op_id, intent.commit_id, intent.kind)
        return Guard(self.recoverer.publisher.hold, properties)

    def inspect(self, table: IntentTable) -> _TableState:
        pinned = self.state.live_tables().get(table.id)
        try:
            dataset = open_dataset(self.recoverer.target.root.child(table.path), branch=table.lance_branch)
        except NotFoundError:
            empty = TableHistory(table.base, table.base, ())
            return _TableState(
                table=table,
                dataset=None,
                history=empty,
                pinned=pinned,
                finding=TableFinding(moved=Moved.NO, preserving=table.preserving),
                own_version=None,
            )
        history = read_history(dataset, table.base)
        own_version, finding = self._find_own_version(table, history)
        if own_version is not None and pinned is not None and pinned.pin.branch == table.lance_branch:
            finding = replace(finding, overtaken=pinned.pin.version >= own_version)
        return _TableState(
            table=table, dataset=dataset, history=history, pinned=pinned, finding=finding, own_version=own_version
        )

    def _find_own_version(self, table: IntentTable, history: TableHistory) -> tuple[int | None, TableFinding]:
        """Return the highest version that this intent made, and what that means for recovery."""
        operation = self.intent.op_id
        not_moved = TableFinding(moved=Moved.NO, preserving=table.preserving)
        if table.uuid is not None:
            version = history.find_uuid(table.uuid)
            if version is None:
                return None, not_moved
            moved = Moved.NEXT if version == table.base + table.lead + 1 else Moved.ELSEWHERE
            is_undone = history.has_restore_by(operation, above=version)
            return version, TableFinding(moved=moved, preserving=table.preserving, rollback_begun=is_undone)
        allowed = MULTI_COMMIT_OPERATIONS[WriteOperation(self.intent.kind)]
        version = history.last_version_by(allowed, operation)
        if version is None:
            return None, not_moved
        is_clean = history.has_only(allowed, operation)
        is_undone = history.content_version(history.head) == table.base
        moved = Moved.NEXT if is_clean else Moved.ELSEWHERE
        return version, TableFinding(moved=moved, preserving=table.preserving, rollback_begun=is_clean and is_undone)

    def fence(self, table: _TableState) -> _TableState:
        """Fence a table that the write has not moved, and every table on which Lance commits by itself."""
        has_moved = table.own_version is not None and not table.is_multi_commit
        if table.dataset is None or has_moved:
            return table
        fence_table(table.dataset, self.guard, restore=table.fence_target)
        return self.inspect(table.table)

    def roll_back(self, table: _TableState) -> _TableState:
        """Restore the version before the write, unless an external commit is above the write."""
        if table.dataset is None or table.own_version is None or table.finding.overtaken:
            return table
        history = table.history
        if table.is_multi_commit:
            before = table.table.base
            is_external = table.finding.moved is Moved.ELSEWHERE
        else:
            before = table.own_version - table.table.lead - 1
            is_external = history.has_external_above(table.own_version)
        is_undone = history.content_version(history.head) == history.content_version(before)
        if is_undone or is_external:
            return table
        failpoint(Failpoint.ROLLBACK_BEFORE)
        fence_table(table.dataset, self.guard, restore=before)
        failpoint(Failpoint.ROLLBACK_AFTER)
        return self.inspect(table.table)

    def publish(self, action: RecoveryAction, tables: list[_TableState]) -> None:
        """Publish the audit row, the fences, and the write itself if it is rolled forward."""
        intent, publisher = self.intent, self.recoverer.publisher
        now = publisher.clock.now_us()
        is_forward = action is RecoveryAction.ROLLED_FORWARD
        rows = [self._row_to_publish(table, is_forward=is_forward) for table in tables]
        records = tuple(record for record in rows if record is not None)
        results: dict[str, str] = {table.table.id: table.describe(action) for table in tables}
        audit = _audit_record(intent, action, now, results)
        if is_forward:
            draft = _draft_of(intent)
            change = ManifestChange(commit=draft, tables=records, recovery=audit, rows=tuple(intent.rows))
        elif records:
            draft = CommitDraft(
                id=CommitId(new_ulid()),
                operation=WriteOperation.RECOVERY,
                operation_id=intent.op_id,
                actor=RECOVERY_ACTOR,
                created_us=now,
            )
            change = ManifestChange(commit=draft, tables=records, recovery=audit)
        else:
            change = ManifestChange(recovery=audit)
        failpoint(Failpoint.RECOVERY_PUBLISH_BEFORE)
        publish(self.recoverer.target, change, (), publisher)

    def _row_to_publish(self, state: _TableState, *, is_forward: bool) -> TableRecord | None:
        """Return the row to publish for one table, or None if its pin does not change."""
        table, pinned = state.table, state.pinned
        record = _new_table_record(table) if table.is_new else pinned
        if record is None or state.dataset is None:
            return None
        if is_forward and state.own_version is not None:
            return replace(
                record,
                alias=table.alias or record.alias,
                pin=Pin(table.lance_branch, state.history.head if state.is_multi_commit else state.own_version),
                owner=self.recoverer.target.branch_id,
                row_count=table.result_rows,
            )
        if pinned is None or not state.is_on_pinned_branch:
            return None
        history = read_history(state.dataset, pinned.pin.version)
        # Lance commits an index without our properties. It is ours, because only a Restore of ours is above it.
        is_undone = state.is_multi_commit and state.finding.rollback_begun and history.base == table.base
        if history.head == history.base or not (is_undone or can_publish(history)):
            return None
        return replace(pinned, pin=Pin(table.lance_branch, history.head))


def _check_files(state: _TableState, *, undo: bool) -> _TableState:
    """Check and sync the files of a table that the write moved: its process may have stopped before it did."""
    if state.own_version is None or state.dataset is None or state.finding.overtaken:
        return state
    is_damaged = undo
    if not undo and state.finding.moved is Moved.NEXT and not state.finding.rollback_begun:
        moved = state.dataset if state.is_multi_commit else state.dataset.at_version(state.own_version)
        try:
            make_durable_since(moved, state.table.base)
        except (IncompleteFileError, SyncError) as error:
            logger.warning("undoing the write of %s at %s: %s", state.table.id, moved.uri, error.message)
            is_damaged = True
    return replace(state, finding=replace(state.finding, damaged=is_damaged))


def _new_table_record(table: IntentTable) -> TableRecord:
    """Return the row of a table that the branch did not have before the write."""
    type_id, _, incarnation = table.id.partition(":")
    return TableRecord(
        type_id=TypeId(type_id),
        incarnation=Incarnation(incarnation),
        alias=table.alias or "",
        path=table.path,
        pin=Pin(table.lance_branch, table.base),
        owner=table.owner,
        row_count=0,
    )


def _draft_of(intent: Intent) -> CommitDraft:
    return CommitDraft(
        id=intent.commit_id,
        operation=WriteOperation(intent.kind),
        operation_id=intent.op_id,
        actor=intent.actor,
        created_us=intent.created_us,
        counts=intent.counts,
        merged_parent=intent.merged_parent,
        pins=intent.pins,
        stream=intent.stream,
    )


def _discard_orphan(recoverer: Recoverer, intent: Intent) -> RecoveryAction:
    """Record on main an intent whose branch was deleted: no reader can see what it moved."""
    action = decide_recovery(finished=False, branch_alive=False, tables=())
    now = recoverer.publisher.clock.now_us()
    audit = _audit_record(intent, action, now, {table.id: "discarded" for table in intent.tables})
    failpoint(Failpoint.RECOVERY_PUBLISH_BEFORE)
    publish(recoverer.target, ManifestChange(recovery=audit), (), recoverer.publisher)
    return _delete_recovered(recoverer, intent, action)


def _audit_record(intent: Intent, action: RecoveryAction, now: int, tables: dict[str, str]) -> RecoveryRecord:
    return RecoveryRecord(
        operation_id=intent.op_id,
        operation=WriteOperation(intent.kind),
        actor=intent.actor,
        action=action.value,
        recovered_us=now,
        tables=tables,
    )


def _delete_recovered(recoverer: Recoverer, intent: Intent, action: RecoveryAction) -> RecoveryAction:
    is_committed = action is RecoveryAction.ROLLED_FORWARD
    event = "recovered an interrupted write"
    if action is RecoveryAction.FINISHED:  # It published before it stopped, or an earlier recovery undid it.
        event = "an interrupted write was already finished"  # so that no one expects a recovery row of this time
        is_committed = recoverer.open_manifest().find_commit(intent.commit_id) is not None
    result = f"it is commit {intent.commit_id}" if is_committed else "it was undone"
    origin = f"{intent.kind} {intent.op_id}, by {intent.actor}, on branch {intent.branch}"
    logger.warning("%s (%s): %s", event, origin, result)
    recoverer.publisher.hold()
    failpoint(Failpoint.RECOVERY_DELETE_BEFORE)
    delete_intent(recoverer.store, intent.op_id)
    return action


def _has_moved(recoverer: Recoverer, intent: Intent) -> bool:
    recovery = _IntentRecovery(recoverer, intent, recoverer.open_manifest().read_state())
    return any(recovery.inspect(table).own_version is not None for table in intent.tables)


def _is_finished(manifest: Manifest, intent: Intent) -> bool:
    if manifest.find_commit(intent.commit_id) is not None:
        return True
    return manifest.find_recovery(intent.op_id) is not None
