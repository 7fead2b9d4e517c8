"""Recovery's effects: at every read-write open and in every Check, under the branch's lease.

In: the intents whose lease epoch is over. Out: each one finished, rolled forward or rolled back, audited, and
deleted. The decision is `decision.decide_recovery`; here are the fence before it, the Restores and the publish
after it. Running it twice changes nothing the second time. Foreign changes are never published and never
dropped.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from omnigraph.base.errors import ConflictError, FormatError, NotFoundError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import BranchId, CommitId, Incarnation, OperationId, TypeId, new_ulid
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import (
    LOOSE_OPERATIONS,
    Intent,
    IntentTable,
    WriterKind,
    delete_intent,
    is_pending,
    read_intents,
    unreadable_intent_error,
)
from omnigraph.graph.coordination.lease import Lease, acquire_lease
from omnigraph.graph.manifest.publish import (
    CommitDraft,
    ManifestChange,
    Publisher,
    PublishTarget,
    publish,
    target_of,
)
from omnigraph.graph.manifest.reader import Manifest, ManifestState, open_manifest
from omnigraph.graph.manifest.records import Pin, RecoveryRecord, StreamBatch, TableId, TableRecord
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
    """The branch that is recovered, its lease, and how to publish."""

    store: ObjectStore
    target: PublishTarget
    lease: Lease
    publisher: Publisher


@dataclass(frozen=True, slots=True)
class Recovered:
    """One intent that was dealt with."""

    intent: Intent
    action: RecoveryAction


def recover_branch(recoverer: Recoverer) -> tuple[Recovered, ...]:
    """Deal with every pending intent of the branch (on main also with those of branches that are gone)."""
    intents, unreadable = read_intents(recoverer.store)
    here = recoverer.target.branch_id
    for strange in unreadable:
        if strange.branch_id in (None, here):
            raise unreadable_intent_error(strange)
    # Whoever holds the lease and has armed nothing yet finds only what others left, whatever epoch they wrote down.
    mine = [intent for intent in intents if intent.branch_id == here]
    moved_first = sorted(mine, key=lambda intent: (not _has_moved(recoverer, intent), intent.op_id))
    done = [Recovered(intent, recover_intent(recoverer, intent)) for intent in moved_first]
    elsewhere = [intent for intent in intents if intent.branch_id != here]
    if elsewhere and recoverer.target.lance_branch is None:
        alive = {branch.id for branch in _open_manifest(recoverer).read_state().branches.values()}
        orphans = [intent for intent in elsewhere if intent.branch_id not in alive]
        done += [Recovered(intent, _discard(recoverer, intent)) for intent in orphans]
    return tuple(done)


def recover_intent(recoverer: Recoverer, intent: Intent, *, undo: bool = False) -> RecoveryAction:
    """Finish or undo one write of this branch. `undo`: never forward, because its files are known to be unsafe."""
    manifest = _open_manifest(recoverer)
    if _is_finished(manifest, intent):
        dataset = manifest.dataset
        make_version_durable(dataset.directory, dataset.version)
        return _conclude(recoverer, intent, RecoveryAction.FINISHED)
    guard = Guard(recoverer.lease.hold, operation_properties(intent.op_id, intent.commit_id, intent.kind))
    state = manifest.read_state()
    found = [_look(recoverer, intent, table, state) for table in intent.tables]
    found = [_fenced(recoverer, intent, look, state, guard) for look in found]
    found = [_checked(look, undo=undo) for look in found]
    action = decide_recovery(finished=False, branch_alive=True, tables=tuple(look.finding for look in found))
    if action is RecoveryAction.ROLLED_BACK:
        found = [_rolled_back(recoverer, intent, look, state, guard) for look in found]
    _publish(recoverer, intent, action, found)
    return _conclude(recoverer, intent, action)


@dataclass(frozen=True, slots=True)
class _Look:
    """One table of an intent as it is now. `dataset` None: it is gone. `pinned`: its row in the manifest, if any."""

    table: IntentTable
    dataset: Dataset | None
    history: TableHistory
    pinned: TableRecord | None
    finding: TableFinding
    ours: int | None

    @property
    def at_pin(self) -> bool:
        """Whether the manifest pins the very Lance branch that the intent wrote."""
        return self.pinned is not None and self.pinned.pin.branch == self.table.lance_branch


def _look(recoverer: Recoverer, intent: Intent, table: IntentTable, state: ManifestState) -> _Look:
    pinned = state.live_tables().get(TableId(table.id))
    try:
        dataset = open_dataset(recoverer.target.root.child(table.path), branch=table.lance_branch)
    except NotFoundError:
        empty = TableHistory(table.base, table.base, ())
        return _Look(table, None, empty, pinned, TableFinding(Moved.NO, table.preserving), None)
    history = read_history(dataset, table.base)
    ours = _find_ours(intent, table, history)
    finding = _finding(intent, table, history, ours)
    if ours is not None and pinned is not None and pinned.pin.branch == table.lance_branch:
        finding = replace(finding, overtaken=pinned.pin.version >= ours)
    return _Look(table, dataset, history, pinned, finding, ours)


def _find_ours(intent: Intent, table: IntentTable, history: TableHistory) -> int | None:
    """The highest version that this intent made; for a loose one, the last allowed operation."""
    if table.uuid is not None:
        return history.find_uuid(table.uuid)
    return history.last_of(LOOSE_OPERATIONS[WriterKind(intent.kind)], OperationId(intent.op_id))


def _finding(intent: Intent, table: IntentTable, history: TableHistory, ours: int | None) -> TableFinding:
    operation = OperationId(intent.op_id)
    if ours is None:
        return TableFinding(Moved.NO, table.preserving)
    if table.uuid is not None:
        moved = Moved.NEXT if ours == table.base + table.lead + 1 else Moved.ELSEWHERE
        return TableFinding(moved, table.preserving, history.restored_by(operation, above=ours))
    clean = history.only(LOOSE_OPERATIONS[WriterKind(intent.kind)], operation)
    undone = history.content_of(history.head) == table.base
    return TableFinding(Moved.NEXT if clean else Moved.ELSEWHERE, table.preserving, clean and undone)


def _fenced(recoverer: Recoverer, intent: Intent, look: _Look, state: ManifestState, guard: Guard) -> _Look:
    """Fence a table on which ours has not moved, and every table of a loose intent; then look again."""
    is_loose = look.table.uuid is None
    if look.dataset is None or (look.ours is not None and not is_loose):
        return look
    fence_table(look.dataset, guard, restore=_fence_target(look))
    return _look(recoverer, intent, look.table, state)


def _checked(look: _Look, *, undo: bool) -> _Look:
    """Check and sync the files of a table that ours moved: its writer may have died before it did."""
    if look.ours is None or look.dataset is None or look.finding.overtaken:
        return look
    damaged = undo
    if not undo and look.finding.moved is Moved.NEXT and not look.finding.rollback_begun:
        is_loose = look.table.uuid is None
        moved = look.dataset if is_loose else look.dataset.at_version(look.ours)
        try:
            make_durable_since(moved, look.table.base)
        except (IncompleteFileError, SyncError) as error:
            logger.warning("what %s moved at %s is undone: %s", look.table.id, moved.uri, error.message)
            damaged = True
    return replace(look, finding=replace(look.finding, damaged=damaged))


def _fence_target(look: _Look) -> int | None:
    """HEAD, so that nothing foreign is hidden; but the pin when only fences and zombies of ours lie above it."""
    if look.ours is not None or look.dataset is None:
        return None
    if look.table.is_new:
        below = look.table.base  # nobody has published it, so this is all there was before
    elif look.pinned is not None and look.at_pin:
        below = look.pinned.pin.version
    else:
        return None
    above_pin = read_history(look.dataset, below)
    return None if above_pin.foreign_above(above_pin.base) else above_pin.base


def _rolled_back(
    recoverer: Recoverer, intent: Intent, look: _Look, state: ManifestState, guard: Guard
) -> _Look:
    """Restore a table that ours moved to the version just before ours, unless something foreign lies above."""
    if look.dataset is None or look.ours is None or look.finding.overtaken:
        return look
    is_loose = look.table.uuid is None
    before = look.table.base if is_loose else look.ours - look.table.lead - 1
    is_undone = look.history.content_of(look.history.head) == look.history.content_of(before)
    is_foreign = look.finding.moved is Moved.ELSEWHERE if is_loose else look.history.foreign_above(look.ours)
    if is_undone or is_foreign:
        return look
    failpoint(Failpoint.ROLLBACK_BEFORE)
    fence_table(look.dataset, guard, restore=before)
    failpoint(Failpoint.ROLLBACK_AFTER)
    return _look(recoverer, intent, look.table, state)


def _publish(recoverer: Recoverer, intent: Intent, action: RecoveryAction, found: list[_Look]) -> None:
    """Make the outcome visible: the write itself when it goes forward, fences in any case, and the audit row."""
    now = recoverer.publisher.clock.now_us()
    forward = action is RecoveryAction.ROLLED_FORWARD
    tables = [moved for look in found if (moved := _table_after(recoverer, look, forward)) is not None]
    outcomes = {look.table.id: _describe(look, action) for look in found}
    record = RecoveryRecord(OperationId(intent.op_id), intent.kind, intent.actor, action.value, now, outcomes)
    draft = _draft(intent, forward, now) if forward or tables else None
    change = ManifestChange(
        commit=draft, tables=tuple(tables), recovery=record, rows=tuple(intent.rows) if forward else ()
    )
    failpoint(Failpoint.RECOVERY_PUBLISH_BEFORE)
    publish(recoverer.target, change, (), recoverer.publisher)


def _table_after(recoverer: Recoverer, look: _Look, forward: bool) -> TableRecord | None:
    """The row to publish for one table, or None when its pin stays where it is."""
    record = _first_record(look.table) if look.table.is_new else look.pinned
    if record is None or look.dataset is None:
        return None
    if forward and look.ours is not None:
        version = look.ours if look.table.uuid is not None else look.history.head
        pin = Pin(look.table.lance_branch, version)
        renamed = replace(record, alias=look.table.alias or record.alias)
        return _moved(renamed, pin, recoverer.target.branch_id, look.table.result_rows)
    if look.pinned is None or not look.at_pin:
        return None
    above_pin = read_history(look.dataset, look.pinned.pin.version)
    # Lance commits an index without our mark. The Restore above it, and that nothing else is there, make it ours.
    is_undone = look.table.uuid is None and look.finding.rollback_begun and above_pin.base == look.table.base
    if above_pin.head == above_pin.base or not (is_undone or can_publish(above_pin)):
        return None
    pin = Pin(look.table.lance_branch, above_pin.head)
    return _moved(look.pinned, pin, look.pinned.owner, look.pinned.row_count)


def _first_record(table: IntentTable) -> TableRecord:
    """The row of a table that the branch did not have before the write."""
    type_id, _, incarnation = table.id.partition(":")
    pin = Pin(table.lance_branch, table.base)
    return TableRecord(
        TypeId(type_id),
        Incarnation(incarnation),
        table.alias or "",
        table.path,
        pin,
        BranchId(table.owner),
        0,
    )


def _moved(record: TableRecord, pin: Pin, owner: BranchId, rows: int) -> TableRecord:
    return replace(record, pin=pin, owner=owner, row_count=rows)


def _draft(intent: Intent, forward: bool, now: int) -> CommitDraft:
    if not forward:
        return CommitDraft(CommitId(new_ulid()), "recovery", OperationId(intent.op_id), RECOVERY_ACTOR, now)
    return CommitDraft(
        id=CommitId(intent.commit_id),
        operation=intent.kind,
        operation_id=OperationId(intent.op_id),
        actor=intent.actor,
        created_us=intent.created_us,
        counts=intent.counts,
        merged_parent=None if intent.merged_parent is None else CommitId(intent.merged_parent),
        pins=None
        if intent.pins is None
        else {TableId(t): Pin(p.branch, p.version) for t, p in intent.pins.items()},
        stream=None if intent.stream is None else StreamBatch(intent.stream.query, intent.stream.batch),
    )


def _describe(look: _Look, action: RecoveryAction) -> str:
    if look.dataset is None:
        return "gone"
    if look.history.foreign_above(look.table.base if look.ours is None else look.ours):
        return "drift"
    if look.ours is None:
        return "fenced"
    return action.value


def _discard(recoverer: Recoverer, intent: Intent) -> RecoveryAction:
    """The intent's branch is gone, so nothing it moved can be seen: audit it on main."""
    action = decide_recovery(finished=False, branch_alive=False, tables=())
    now = recoverer.publisher.clock.now_us()
    outcomes = {table.id: "discarded" for table in intent.tables}
    record = RecoveryRecord(OperationId(intent.op_id), intent.kind, intent.actor, action.value, now, outcomes)
    failpoint(Failpoint.RECOVERY_PUBLISH_BEFORE)
    publish(recoverer.target, ManifestChange(recovery=record), (), recoverer.publisher)
    return _conclude(recoverer, intent, action)


def _conclude(recoverer: Recoverer, intent: Intent, action: RecoveryAction) -> RecoveryAction:
    became = f"it is commit {intent.commit_id}" if _is_there(recoverer, intent, action) else "it was undone"
    who = f"{intent.kind} {intent.op_id}, by {intent.actor}, on branch {intent.branch}"
    logger.warning("recovered a write that had stopped half-way (%s): %s", who, became)
    recoverer.lease.hold()
    failpoint(Failpoint.RECOVERY_DELETE_BEFORE)
    delete_intent(recoverer.store, OperationId(intent.op_id))
    return action


def _is_there(recoverer: Recoverer, intent: Intent, action: RecoveryAction) -> bool:
    """Whether the branch has the commit; what an earlier recovery finished may have been undone."""
    if action is RecoveryAction.FINISHED:
        return _open_manifest(recoverer).find_commit(CommitId(intent.commit_id)) is not None
    return action is RecoveryAction.ROLLED_FORWARD


def _has_moved(recoverer: Recoverer, intent: Intent) -> bool:
    state = _open_manifest(recoverer).read_state()
    return any(_look(recoverer, intent, table, state).ours is not None for table in intent.tables)


def _is_finished(manifest: Manifest, intent: Intent) -> bool:
    if manifest.find_commit(CommitId(intent.commit_id)) is not None:
        return True
    return manifest.find_recovery(OperationId(intent.op_id)) is not None


def _open_manifest(recoverer: Recoverer) -> Manifest:
    return open_manifest(
        recoverer.target.root, lance_branch=recoverer.target.lance_branch, rules=recoverer.publisher.rules
    )


def recover_on_open(
    root: Location, branch: str, world: WriteEnvironment | None = None
) -> tuple[Recovered, ...]:
    """Finish or undo what crashed writers of the branch left; nothing is touched while a live writer is at work.

    An intent or a lock that cannot be understood does not stop the open, nor does a writer that is at work for longer
    than the wait: its own check recovers.
    """
    how = world or WriteEnvironment()
    store = ObjectStore(root)
    intents, _ = read_intents(store)
    if not intents:
        return ()
    try:
        return _recover_pending(store, read_snapshot(root, branch, rules=how.rules), intents, how)
    except (FormatError, ConflictError) as later:
        logger.warning("recovery is left to the next writer: %s", later.message)
        return ()


def recover_every_branch(root: Location) -> tuple[Recovered, ...]:
    """The same for every branch that a crashed writer left something on; main settles for those that are gone."""
    intents, _ = read_intents(ObjectStore(root))
    if not intents:
        return ()
    names = {record.id: name for name, record in read_snapshot(root).state.branches.items()}
    branches = {names.get(BranchId(intent.branch_id), MAIN) for intent in intents} - {MAIN}
    found: list[Recovered] = []
    for name in (*sorted(branches), MAIN):
        with suppress(NotFoundError):  # deleted meanwhile, so that it is main's, which comes last
            found += recover_on_open(root, name)
    return tuple(found)


def _recover_pending(
    store: ObjectStore, snapshot: Snapshot, intents: tuple[Intent, ...], how: WriteEnvironment
) -> tuple[Recovered, ...]:
    alive = frozenset(record.id for record in snapshot.manifest.read_state().branches.values())
    if not any(_is_pending_here(store, intent, snapshot, alive) for intent in intents):
        return ()
    target = target_of(snapshot)
    lease = acquire_lease(store, target.branch_id, "recovery", how.terms)
    try:
        return recover_branch(Recoverer(store, target, lease, how.publisher(lease)))
    finally:
        lease.release()


def _is_pending_here(
    store: ObjectStore, intent: Intent, snapshot: Snapshot, alive: frozenset[BranchId]
) -> bool:
    """Whether an intent waits for recovery, on this branch, or (seen from main) on a branch that is gone.

    Another branch that is alive is left alone: opening that one recovers it.
    """
    branch_id = BranchId(intent.branch_id)
    if branch_id != snapshot.branch.id and (snapshot.branch.lance_branch is not None or branch_id in alive):
        return False
    return is_pending(store, intent)
