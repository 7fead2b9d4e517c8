"""The one write path: Stage, Lease, Check, Arm, Commit, Publish, Disarm. Every head of every table moves here.

In: a function that stages from a snapshot. Out: `Published`, or None when there was nothing to do, or an error
that says whether the write was applied. A crash before Arm leaves unreferenced files; after it, an intent from
which the next check or open finishes the write or undoes it. See docs/dev/write-path.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from omnigraph.base import limits
from omnigraph.base.errors import Applied, ConflictError, ErrorKind, Fact, OmnigraphError, StorageError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import CommitId, OperationId, new_ulid
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import WriterKind, delete_intent, write_intent
from omnigraph.graph.coordination.lease import Lease, LeaseLostError, acquire_lease
from omnigraph.graph.manifest.publish import (
    CommitDraft,
    ObservedState,
    Publication,
    PublishTarget,
    publish,
    target_of,
)
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import Pin, StreamBatch, TableRecord, pin_text
from omnigraph.graph.manifest.requirements import (
    PinIs,
    Requirement,
    SchemaIs,
    precondition_failed,
    read_set_conflict,
)
from omnigraph.graph.manifest.snapshot import Snapshot, graph_replaced, read_snapshot, refresh_snapshot
from omnigraph.graph.recovery.decide import RecoveryAction
from omnigraph.graph.recovery.run import Recoverer, recover_branch, recover_intent
from omnigraph.graph.write.check import (
    Healer,
    find_given,
    find_stale,
    open_base,
    refuse_collected,
    refuse_moved_base,
    refuse_moved_heads,
    refuse_old_staging,
)
from omnigraph.graph.write.multi_commit import refuse_displaced
from omnigraph.graph.write.stage import StagingArea, WritableTable, discarding
from omnigraph.graph.write.states import (
    Armed,
    Committed,
    Effect,
    Published,
    SingleTransactionEffect,
    StagedWrite,
    make_intent,
    staged_files,
)
from omnigraph.storage.lance.commit import commit_staged
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import IncompleteFileError, require_staged
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.sync import SyncError

logger = logging.getLogger("omnigraph.commit")


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Who writes, and how it stages.

    `restage` is called under the lease when what the write had read moved meanwhile: it revalidates what was staged, or
    stages again. Without it such a write fails with `read_set_conflict`. Either may answer None: nothing to do.
    A write of a `stream` batch that the branch has a commit for already does nothing.
    """

    kind: WriterKind
    actor: str
    stage: Callable[[StagingArea], StagedWrite | None]
    restage: Callable[[StagingArea, StagedWrite], StagedWrite | None] | None = None
    stream: StreamBatch | None = None


class UnsettledTableError(ConflictError):
    """Heads that only our own fences moved did not stay put while they were checked."""

    applied = Applied.NO


class RecoveryRequiredError(OmnigraphError):
    """A write stopped after it was armed; the next check or open finishes it or undoes it."""

    kind = ErrorKind.UNAVAILABLE
    applied = Applied.UNKNOWN


def write(
    root: Location, branch: str, request: WriteRequest, world: WriteEnvironment | None = None
) -> Published | None:
    """Run one write from Stage to Disarm. Every error says whether the write was applied."""
    try:
        return _write(root, branch, request, world or WriteEnvironment())
    except OmnigraphError as error:
        if error.applied is None:
            error.applied = Applied.NO  # it was not armed: everything after that says so itself
        raise


def _write(root: Location, branch: str, request: WriteRequest, how: WriteEnvironment) -> Published | None:
    snapshot = read_snapshot(root, branch, rules=how.rules)
    if _is_repeated(request.stream, snapshot):
        return None
    operation, commit = OperationId(new_ulid()), CommitId(new_ulid())
    began = how.clock.monotonic()
    kind, actor = request.kind, request.actor
    stage = StagingArea(snapshot, kind, actor, operation, commit, how.clock, request.stream, began)
    with discarding(stage.forks):
        staged = request.stage(stage)
    if staged is None:
        return None
    store = ObjectStore(root)
    purpose = f"{request.kind} {operation}"
    # Cleanup holds the graph's lease: so no version that is adopted, and no table that is new here, goes between the
    # look at it and the publish. And whoever gives ids gives them alone.
    with _graph_lease(store, purpose, how) if staged.needs_graph else nullcontext() as graph:
        with discarding(stage.forks):
            lease = acquire_lease(store, snapshot.branch.id, purpose, how.terms)
        try:
            return _Session(store, target_of(snapshot), lease, how, stage.forks, graph).run(request, staged)
        finally:
            lease.release()


@contextmanager
def _graph_lease(store: ObjectStore, purpose: str, how: WriteEnvironment) -> Iterator[Lease]:
    lease = acquire_lease(store, None, purpose, how.terms)
    try:
        with lease.kept():
            yield lease
    finally:
        lease.release()


def commit_unseen(
    staged: StagedWrite, target: PublishTarget, lease: Lease, world: WriteEnvironment
) -> Published:
    """Commit and publish a write on a branch that no process can see yet, under the graph's lease.

    There is no intent: all tables are forks of this write, so a crash leaves only what nothing names.
    """
    refuse_old_staging(staged, world.clock)
    session = _Session(ObjectStore(target.root), target, lease, world, [])
    handles = tuple(open_base(staged, effect) for effect in staged.effects)
    for effect, handle in zip(staged.effects, handles, strict=True):
        assert effect.forked_from is not None, "the branch owns no table yet"
        if handle.version != effect.base.version:
            actual = pin_text(Pin(handle.branch, handle.version))
            raise read_set_conflict(f"the head of {effect.table.alias}", pin_text(effect.base), actual)
    return session.publish_unseen(staged, handles)


def _is_repeated(stream: StreamBatch | None, snapshot: Snapshot) -> bool:
    """Whether the branch has committed this batch: a query that was restarted gives its last one again."""
    return stream is not None and snapshot.manifest.has_stream_batch(stream)


@dataclass(frozen=True, slots=True)
class _Session:
    """One write while it holds the lease; `graph` is the one of the whole graph, if it needs that too."""

    store: ObjectStore
    target: PublishTarget
    lease: Lease
    world: WriteEnvironment
    forks: list[WritableTable]
    graph: Lease | None = None

    def run(self, request: WriteRequest, staged: StagedWrite) -> Published | None:
        with discarding(self.forks):
            checked = self._check(request, staged)
            if self.graph is not None:
                self.graph.hold()
        if checked is None:
            return None
        failpoint(Failpoint.CHECKED)
        if not checked[0].effects:
            return self._point(*checked)
        armed = self._arm(*checked)
        try:
            published = self._publish(self._commit(armed))
        except LeaseLostError as lost:
            raise _recovery_required(armed) from lost
        except (IncompleteFileError, SyncError) as error:
            raise self._undone(armed, error) from error
        except OmnigraphError as error:
            published = self._settle(armed, error)
        self._disarm(armed)
        return published

    def publish_unseen(self, staged: StagedWrite, handles: tuple[Dataset, ...]) -> Published:
        """See `commit_unseen`."""
        self._require_files(staged, handles)
        tables = self._commit_tables(staged, handles)
        return self._publish_tables(staged, tables, self.world.clock.now_us(), None)

    def _check(
        self, request: WriteRequest, staged: StagedWrite
    ) -> tuple[StagedWrite, tuple[Dataset, ...], ObservedState] | None:
        """Recover, compare, heal, stage again where the rule allows it; the handles of the exact bases."""
        for _ in range(limits.RESTAGE_ATTEMPTS_MAX):
            now = self._refresh(staged.snapshot)
            if _is_repeated(staged.stream, now):
                return None
            if staged.if_commit is not None and now.head != staged.if_commit:
                raise precondition_failed(staged.if_commit, now.head)
            stale = find_stale(staged, now) or find_given(staged, now)
            if stale is not None:
                if request.restage is None:
                    raise stale.conflict()
                # A new operation id, because a fork is named after it and no name is used twice.
                operation = OperationId(new_ulid())
                kind, actor, clock, stream = staged.kind, staged.actor, self.world.clock, staged.stream
                began, forks = staged.began, self.forks
                again = StagingArea(now, kind, actor, operation, staged.commit, clock, stream, began, forks)
                with self.lease.kept():  # a large load is checked again for longer than a lease lasts
                    restaged = request.restage(again, staged)
                if restaged is None:
                    return None
                staged = restaged
                still = find_stale(staged, now)
                if still is not None:
                    raise still.conflict()
            refuse_old_staging(staged, self.world.clock)
            refuse_moved_heads(staged)
            refuse_collected(staged)
            handles = tuple(open_base(staged, effect) for effect in staged.effects)
            if not self._heal(staged, handles):
                self._require_files(staged, handles)
                return staged, handles, ObservedState(now.manifest, now.state)
        raise UnsettledTableError(
            f"tables of branch '{self.target.branch}' were moved again each time they were put right",
            code="tables_unsettled",
            hint="a writer that lost its lease may still be running; stop it, then retry",
            facts={"branch": self.target.branch},
        )

    def _require_files(self, staged: StagedWrite, handles: tuple[Dataset, ...]) -> None:
        """Require that everything which was staged is in the store, as this process reaches it."""
        # A large load has many files, and a remote store is asked for each.
        with nullcontext() if self.store.location.is_local else self.lease.kept():
            for effect, handle in zip(staged.effects, handles, strict=True):
                require_staged(handle.place, staged_files(effect, handle))

    def _refresh(self, known: Snapshot) -> Snapshot:
        """Deal with what others left unfinished, then read the branch as it is now."""
        recover_branch(self._recoverer())
        now = refresh_snapshot(known, self.world.rules)
        if now.branch.id != self.target.branch_id:
            raise read_set_conflict(f"branch:{self.target.branch}", self.target.branch_id, now.branch.id)
        if now.identities != known.identities and now.manifest.find_commit(known.head) is None:
            raise graph_replaced(now.root, known.head, now.head)
        return now

    def _heal(self, staged: StagedWrite, handles: tuple[Dataset, ...]) -> bool:
        """Put right every touched head that is not at its base; whether any was."""
        healer = Healer(self.target, self.lease.hold, self.world.publisher(self.lease))
        wrong = [
            (effect, handle)
            for effect, handle in zip(staged.effects, handles, strict=True)
            if handle.version != effect.base.version
        ]
        for effect, handle in wrong:
            refuse_moved_base(effect, handle)
            healer.heal(effect.table, handle)
        return bool(wrong)

    def _point(self, staged: StagedWrite, _: tuple[Dataset, ...], seen: ObservedState) -> Published:
        """Publish pointers to what is there already. Nothing is durable before the publish, so there is no intent."""
        return self._publish_tables(staged, (), self.world.clock.now_us(), seen)

    def _arm(self, staged: StagedWrite, handles: tuple[Dataset, ...], seen: ObservedState) -> Armed:
        intent = make_intent(staged, self.target, self.lease.epoch, self.world.clock.now_us())
        self.lease.hold()
        failpoint(Failpoint.ARM_BEFORE)
        write_intent(self.store, intent)
        failpoint(Failpoint.ARM_AFTER)
        return Armed(staged, self.lease, intent, handles, seen)

    def _commit(self, armed: Armed) -> Committed:
        return Committed(armed, self._commit_tables(armed.staged, armed.handles))

    def _commit_tables(self, staged: StagedWrite, handles: tuple[Dataset, ...]) -> tuple[TableRecord, ...]:
        tables = []
        for effect, handle in zip(staged.effects, handles, strict=True):
            self.lease.hold()
            failpoint(Failpoint.COMMIT_BEFORE)
            committed = self._commit_table(staged, effect, handle)
            failpoint(Failpoint.COMMIT_AFTER)
            tables.append(self._moved(effect, committed))
        return tuple(tables)

    def _commit_table(self, staged: StagedWrite, effect: Effect, handle: Dataset) -> Dataset:
        if isinstance(effect, SingleTransactionEffect):
            if effect.lead is not None:
                handle = commit_staged(handle, effect.lead)
                self.lease.hold()
                failpoint(Failpoint.COMMIT_BETWEEN)
            return commit_staged(handle, effect.transaction)
        committed = effect.run(handle, self.lease.hold)
        refuse_displaced(effect, staged.kind, staged.operation, committed)
        return committed

    def _moved(self, effect: Effect, committed: Dataset) -> TableRecord:
        return replace(
            effect.table,
            alias=effect.alias or effect.table.alias,
            pin=Pin(committed.branch, committed.version),
            owner=self.target.branch_id,
            row_count=effect.result_rows,
        )

    def _publish(self, committed: Committed) -> Published:
        armed = committed.armed
        return self._publish_tables(armed.staged, committed.tables, armed.intent.created_us, armed.seen)

    def _publish_tables(
        self,
        staged: StagedWrite,
        tables: tuple[TableRecord, ...],
        created_us: int,
        seen: ObservedState | None,
    ) -> Published:
        extra_changes = staged.extra_changes
        draft = CommitDraft(
            id=staged.commit,
            operation=staged.kind,
            operation_id=staged.operation,
            actor=staged.actor,
            created_us=created_us,
            counts=staged.counts,
            merged_parent=None if extra_changes.commit is None else extra_changes.commit.merged_parent,
            pins=None if extra_changes.commit is None else extra_changes.commit.pins,
            stream=staged.stream,
        )
        change = replace(extra_changes, commit=draft, tables=(*tables, *extra_changes.tables))
        requirements: list[Requirement] = [SchemaIs(staged.snapshot.schema.hash)]
        requirements += [
            PinIs(effect.table.id, None if effect.is_new else effect.table.pin) for effect in staged.effects
        ]
        requirements += [PinIs(found.table.id, found.table.pin) for found in staged.heads]
        publisher = self.world.publisher(self.lease)
        publication = publish(self.target, change, tuple(requirements), publisher, seen)
        return Published(staged, publication)

    def _settle(self, armed: Armed, error: OmnigraphError) -> Published:
        """Something failed after arming: finish or undo it now, while the lease is ours, and say which it was."""
        try:
            recover_intent(self._recoverer(), armed.intent)
            manifest = open_manifest(
                self.target.root, lance_branch=self.target.lance_branch, rules=self.world.rules
            )
            commit = manifest.find_commit(armed.staged.commit)
        except OmnigraphError as failure:
            raise _recovery_required(armed) from failure
        if commit is None:
            error.applied = Applied.NO
            raise error
        return Published(armed.staged, Publication(manifest.version, commit))

    def _undone(self, armed: Armed, error: StorageError) -> OmnigraphError:
        """A file is cut off or may not survive a power cut: undo the write, unless it is visible already."""
        try:
            action = recover_intent(self._recoverer(), armed.intent, undo=True)
        except OmnigraphError:
            return _recovery_required(armed, error)
        error.applied = Applied.UNKNOWN if action is RecoveryAction.FINISHED else Applied.NO
        return error

    def _disarm(self, armed: Armed) -> None:
        """Delete the intent. A failure is only a warning: the next check or open finishes it."""
        try:
            self.lease.hold()
            failpoint(Failpoint.DISARM_BEFORE)
            delete_intent(self.store, armed.staged.operation)
            failpoint(Failpoint.DISARM_AFTER)
        except OmnigraphError as error:
            logger.warning(
                "the intent of %s is left for the next open: %s", armed.staged.operation, error.message
            )

    def _recoverer(self) -> Recoverer:
        return Recoverer(self.store, self.target, self.lease, self.world.publisher(self.lease))


def _recovery_required(armed: Armed, cause: OmnigraphError | None = None) -> RecoveryRequiredError:
    operation = armed.staged.operation
    reason = "" if cause is None else f": {cause.message}"
    facts: dict[str, Fact] = {"recovery_required": {"operation_id": operation}}
    if cause is not None:
        facts["cause"] = cause.code
    return RecoveryRequiredError(
        f"the write {operation} was interrupted, and it is unknown whether it was applied{reason}",
        code="recovery_required",
        hint="The next open finishes or undoes it. Run `omnigraph recovery list` to see it.",
        facts=facts,
    )
