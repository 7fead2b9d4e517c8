"""Run the one write path: Stage, Lease, Check, Arm, Commit, Publish, Disarm. The heads of tables move only here.

In: a function that stages from a snapshot. Out: a commit, None if there was nothing to write, or an error that
says whether the write was applied. A crash before Arm leaves unreferenced files. A crash after Arm leaves an intent,
from which the next check or open finishes the write or undoes it. See docs/dev/write-path.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace

from omnigraph.base import limits
from omnigraph.base.errors import Applied, ConflictError, ErrorKind, Fact, OmnigraphError, StorageError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.hints import action, hint
from omnigraph.base.interrupts import commit_phase, raise_if_interrupted
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.group import has_writer, share_lease
from omnigraph.graph.coordination.intent import delete_intent, write_intent
from omnigraph.graph.coordination.lease import Lease, LeaseLostError, hold_lease
from omnigraph.graph.manifest.newest import note_table
from omnigraph.graph.manifest.publish import CommitDraft, Publisher, PublishTarget, publish, target_of
from omnigraph.graph.manifest.records import CommitRecord, Pin, StreamBatch, TableRecord, WriteOperation
from omnigraph.graph.manifest.requirements import PinIs, Requirement, SchemaIs, precondition_failed, read_set_conflict
from omnigraph.graph.manifest.snapshot import Snapshot, graph_replaced, read_snapshot
from omnigraph.graph.recovery.decide import RecoveryAction
from omnigraph.graph.recovery.run import Recoverer, recover_branch, recover_intent
from omnigraph.graph.write import check, states
from omnigraph.graph.write.multi_commit import require_only_own_commits
from omnigraph.graph.write.stage import StagingArea, WritableTable, discard_forks_on_error
from omnigraph.storage.lance.commit import commit_staged
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import IncompleteFileError, require_staged
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.sync import SyncError

logger = logging.getLogger("omnigraph.commit")


Restage = Callable[[StagingArea, states.StagedWrite], states.StagedWrite | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """Who writes, and the functions that stage the write.

    `restage` is called under the lease if something that the write read has changed since it was staged. It validates
    the staged files again, or stages again. Without `restage` such a write fails with `read_set_conflict`. Both
    functions return None if there is nothing to write. With `stream`, a batch that the branch has already committed is
    not written again. A write that `is_short` is staged under the lease if another thread of this process writes to the
    branch, because the other threads change what it would read before its turn.
    """

    kind: WriteOperation
    actor: str
    stage: Callable[[StagingArea], states.StagedWrite | None]
    restage: Restage | None = None
    stream: StreamBatch | None = None
    is_short: bool = False


class TableContentionError(ConflictError):
    """A writer that lost its lease moved the heads of tables again each time they were restored."""

    applied = Applied.NO


class RecoveryRequiredError(OmnigraphError):
    """A write stopped after it was armed; the next check or open finishes it or undoes it."""

    kind = ErrorKind.UNAVAILABLE
    applied = Applied.UNKNOWN


@contextmanager
def not_applied_by_default() -> Iterator[None]:
    """Set `applied` to no on an error that does not say whether the write was applied."""
    try:
        yield
    except OmnigraphError as error:
        if error.applied is None:
            error.applied = Applied.NO
        raise


@not_applied_by_default()  # The write is not armed: all later errors set `applied` themselves.
def write(
    root: Location, branch: str, request: WriteRequest, environment: WriteEnvironment | None = None
) -> CommitRecord | None:
    """Run one write from Stage to Disarm; return its commit, None if there was nothing to write.

    Every error says whether the write was applied.
    """
    environment = environment or WriteEnvironment()
    snapshot = read_snapshot(root, branch, storage_format=environment.storage_format)
    if _is_committed(request.stream, snapshot):
        return None
    clock = environment.clock
    area = StagingArea(
        snapshot=snapshot,
        kind=request.kind,
        actor=request.actor,
        clock=clock,
        began=clock.monotonic(),
        stream=request.stream,
    )
    store = ObjectStore(root)
    purpose = f"{request.kind} {area.operation}"
    if request.is_short and has_writer(store, snapshot.branch.id, environment.terms):
        with share_lease(store, snapshot.branch.id, purpose, environment.terms) as lease:
            session = _session(store, area, lease, environment)
            staged = session.stage(request, area)
            return None if staged is None else session.run(request, staged)
    with discard_forks_on_error(area.forks):
        staged = request.stage(area)
    if staged is None:
        return None
    with ExitStack() as leases:
        graph_lease = None
        with discard_forks_on_error(area.forks):
            if staged.needs_graph_lease:
                # Cleanup holds the graph's lease, so it cannot delete an adopted version or a new table between the
                # check and the publish. Only the holder of this lease assigns ids.
                graph_lease = leases.enter_context(hold_lease(store, None, purpose, environment.terms))
                leases.enter_context(graph_lease.renewing())
            lease = leases.enter_context(share_lease(store, snapshot.branch.id, purpose, environment.terms))
        return replace(_session(store, area, lease, environment), graph_lease=graph_lease).run(request, staged)


def _session(store: ObjectStore, area: StagingArea, lease: Lease, environment: WriteEnvironment) -> _Session:
    target = target_of(area.snapshot)
    return _Session(store=store, target=target, lease=lease, environment=environment, forks=area.forks)


def commit_new_branch(
    staged: states.StagedWrite, target: PublishTarget, lease: Lease, environment: WriteEnvironment
) -> CommitRecord:
    """Commit and publish a write on a branch that no process can read yet, under the graph's lease.

    It needs no intent: all tables are forks of this write, so a crash leaves only files that nothing references.
    """
    check.require_recent_staging(staged, environment.clock)
    session = _Session(store=ObjectStore(target.root), target=target, lease=lease, environment=environment, forks=[])
    handles = check.open_bases(staged)
    for effect, handle in zip(staged.effects, handles, strict=True):
        assert effect.forked_from is not None, "the branch owns no table yet"
        if handle.version != effect.base.version:
            raise check.moved_head(effect.table, effect.base, handle)
    session.require_files(staged, handles)
    tables = session.commit_tables(staged, handles)
    return session.publish_tables(staged, tables, environment.clock.now_us(), None)


def _is_committed(stream: StreamBatch | None, snapshot: Snapshot) -> bool:
    """Return whether the branch has committed this batch: a restarted streaming query sends its last batch again."""
    return stream is not None and snapshot.manifest.has_stream_batch(stream)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """One write while it holds the lease of its branch, and `graph_lease` if it needs that of the graph too."""

    store: ObjectStore
    target: PublishTarget
    lease: Lease
    environment: WriteEnvironment
    forks: list[WritableTable]
    graph_lease: Lease | None = None

    @property
    def publisher(self) -> Publisher:
        return self.environment.publisher(self.lease)

    def stage(self, request: WriteRequest, area: StagingArea) -> states.StagedWrite | None:
        """Stage a short write from the newest snapshot, which no other writer changes while the lease is held."""
        with discard_forks_on_error(self.forks), self.lease.renewing():
            staged = request.stage(replace(area, snapshot=self._refresh(area.snapshot)))
        assert staged is None or not staged.needs_graph_lease, "a short write changes only existing tables"
        return staged

    def run(self, request: WriteRequest, staged: states.StagedWrite) -> CommitRecord | None:
        with discard_forks_on_error(self.forks):
            checked = self._check(request, staged)
            if self.graph_lease is not None:
                self.graph_lease.hold()
            raise_if_interrupted()
        if checked is None:
            return None
        failpoint(Failpoint.CHECKED)
        return self._commit(checked)

    @commit_phase()
    def _commit(self, checked: states.Checked) -> CommitRecord:
        """Arm, commit and publish; recover after an error."""
        if not checked.staged.effects:
            # Only pointers to existing versions change. Nothing is durable before the publish, so it needs no intent.
            return self.publish_tables(checked.staged, (), self.environment.clock.now_us(), checked.observed)
        armed = self._arm(checked)
        try:
            tables = self.commit_tables(armed.staged, armed.checked.handles)
            published = self._publish(states.Committed(armed, tables))
        except LeaseLostError as lost:
            raise _recovery_required(armed) from lost
        except (IncompleteFileError, SyncError) as error:
            raise self._undo(armed, error) from error
        except OmnigraphError as error:
            published = self._recover(armed, error)
        self._disarm(armed)
        return published

    def _check(self, request: WriteRequest, staged: states.StagedWrite) -> states.Checked | None:
        """Recover, compare, restore heads, and stage again where the request allows it."""
        for _ in range(limits.RESTAGE_ATTEMPTS_MAX):
            current = self._refresh(staged.snapshot)
            if _is_committed(staged.stream, current):
                return None
            if staged.if_commit is not None and current.head != staged.if_commit:
                raise precondition_failed(staged.if_commit, current.head)
            conflict = check.find_read_set_conflict(staged, current) or check.find_id_conflict(staged, current)
            if conflict is not None:
                if request.restage is None:
                    raise conflict
                restaged = self._restage(request.restage, staged, current)
                if restaged is None:
                    return None
                staged = restaged
            check.require_recent_staging(staged, self.environment.clock)
            check.require_unmoved_heads(staged)
            check.require_existing_versions(staged)
            handles = check.open_bases(staged)
            if not self._restore_heads(staged, handles):
                self.require_files(staged, handles)
                return states.Checked(staged, handles, current)
        raise TableContentionError(
            f"tables of branch '{self.target.branch}' changed again each time they were restored",
            code="tables_unsettled",
            hint="Nothing was written. Stop the writer that lost its lease and still runs, then retry.",
            facts={"branch": self.target.branch},
        )

    def _restage(self, restage: Restage, staged: states.StagedWrite, current: Snapshot) -> states.StagedWrite | None:
        # It is a new operation: a fork is named after its operation, and no name is used again.
        area = StagingArea(
            snapshot=current,
            kind=staged.kind,
            actor=staged.actor,
            clock=self.environment.clock,
            began=staged.began,
            stream=staged.stream,
            commit=staged.commit,
            forks=self.forks,
        )
        with self.lease.renewing():  # Checking a large load again can take longer than a lease.
            restaged = restage(area, staged)
        conflict = None if restaged is None else check.find_read_set_conflict(restaged, current)
        if conflict is not None:
            raise conflict
        return restaged

    def require_files(self, staged: states.StagedWrite, handles: tuple[Dataset, ...]) -> None:
        """Require that the store has every staged file, as this process reads the store."""
        # A large load has many files, and a remote store needs one request for each.
        with nullcontext() if self.store.location.is_local else self.lease.renewing():
            for effect, handle in zip(staged.effects, handles, strict=True):
                require_staged(handle.directory, states.staged_files(effect, handle))

    def _refresh(self, snapshot: Snapshot) -> Snapshot:
        """Recover the writes that others left unfinished, then read the branch again."""
        recover_branch(self._recoverer())
        current = read_snapshot(snapshot.root, snapshot.branch.name, storage_format=self.environment.storage_format)
        if current.branch.id != self.target.branch_id:
            raise read_set_conflict(f"branch:{self.target.branch}", self.target.branch_id, current.branch.id)
        if current.identities != snapshot.identities and current.manifest.find_commit(snapshot.head) is None:
            raise graph_replaced(current.root, snapshot.head, current.head)
        return current

    def _restore_heads(self, staged: states.StagedWrite, handles: tuple[Dataset, ...]) -> bool:
        """Restore every written table whose head is not its base; return whether there was one."""
        moved = [
            (effect, handle)
            for effect, handle in zip(staged.effects, handles, strict=True)
            if handle.version != effect.base.version
        ]
        for effect, handle in moved:
            if effect.is_new:  # It is not published yet, so nothing published can be restored.
                raise check.moved_head(effect.table, effect.base, handle)
            check.restore_head(self.target, effect.table, handle, self.publisher)
        return bool(moved)

    def _arm(self, checked: states.Checked) -> states.Armed:
        intent = states.make_intent(checked.staged, self.target, self.lease.epoch, self.environment.clock.now_us())
        self.lease.hold()
        failpoint(Failpoint.ARM_BEFORE)
        write_intent(self.store, intent)
        failpoint(Failpoint.ARM_AFTER)
        return states.Armed(checked, intent)

    def commit_tables(self, staged: states.StagedWrite, handles: tuple[Dataset, ...]) -> tuple[TableRecord, ...]:
        """Move the head of every table of the write, and return the rows that publish them."""
        tables = []
        for effect, handle in zip(staged.effects, handles, strict=True):
            self.lease.hold()
            failpoint(Failpoint.COMMIT_BEFORE)
            committed = self._commit_table(staged, effect, handle)
            failpoint(Failpoint.COMMIT_AFTER)
            pin = Pin(committed.branch, committed.version)
            note_table(staged.snapshot.identities.of(pin), committed)
            tables.append(
                replace(
                    effect.table,
                    alias=effect.alias or effect.table.alias,
                    pin=pin,
                    owner=self.target.branch_id,
                    row_count=effect.result_rows,
                )
            )
        return tuple(tables)

    def _commit_table(self, staged: states.StagedWrite, effect: states.Effect, handle: Dataset) -> Dataset:
        if isinstance(effect, states.SingleTransactionEffect):
            if effect.lead is not None:
                handle = commit_staged(handle, effect.lead)
                self.lease.hold()
                failpoint(Failpoint.COMMIT_BETWEEN)
            return commit_staged(handle, effect.transaction)
        committed = effect.run(handle, self.lease.hold)
        require_only_own_commits(effect, staged.kind, staged.operation, committed)
        return committed

    def _publish(self, committed: states.Committed) -> CommitRecord:
        checked, intent = committed.armed.checked, committed.armed.intent
        return self.publish_tables(checked.staged, committed.tables, intent.created_us, checked.observed)

    def publish_tables(
        self, staged: states.StagedWrite, tables: tuple[TableRecord, ...], created_us: int, observed: Snapshot | None
    ) -> CommitRecord:
        """Publish the commit of the write with its tables and its other manifest rows."""
        draft = CommitDraft(
            id=staged.commit,
            operation=staged.kind,
            operation_id=staged.operation,
            actor=staged.actor,
            created_us=created_us,
            counts=staged.counts,
            merged_parent=staged.merged_parent,
            pins=staged.merged_pins,
            stream=staged.stream,
        )
        change = replace(staged.extra_changes, commit=draft, tables=(*tables, *staged.extra_changes.tables))
        requirements: list[Requirement] = [SchemaIs(staged.snapshot.schema.hash)]
        requirements += [
            PinIs(effect.table.id, None if effect.is_new else effect.table.pin) for effect in staged.effects
        ]
        requirements += [PinIs(expected.table.id, expected.table.pin) for expected in staged.heads]
        commit = publish(self.target, change, tuple(requirements), self.publisher, observed)
        assert commit is not None, "the change has a commit"
        return commit

    def _recover(self, armed: states.Armed, error: OmnigraphError) -> CommitRecord:
        """Finish or undo the write after an error, while this process holds the lease.

        Raise the error with `applied` set if the write was undone.
        """
        try:
            recover_intent(self._recoverer(), armed.intent)
            commit = self.target.open_manifest(self.environment.storage_format).find_commit(armed.staged.commit)
        except OmnigraphError as failure:
            raise _recovery_required(armed) from failure
        if commit is None:
            error.applied = Applied.NO
            raise error
        return commit

    def _undo(self, armed: states.Armed, error: StorageError) -> OmnigraphError:
        """Undo a write with a file that is truncated or was not synced, unless the write is already visible."""
        try:
            action = recover_intent(self._recoverer(), armed.intent, undo=True)
        except OmnigraphError:
            return _recovery_required(armed, error)
        error.applied = Applied.UNKNOWN if action is RecoveryAction.FINISHED else Applied.NO
        return error

    def _disarm(self, armed: states.Armed) -> None:
        """Delete the intent. A failure is only a warning: the next check or open deletes it."""
        try:
            self.lease.hold()
            failpoint(Failpoint.DISARM_BEFORE)
            delete_intent(self.store, armed.staged.operation)
            failpoint(Failpoint.DISARM_AFTER)
        except OmnigraphError as error:
            logger.warning("the intent of %s is left for the next open: %s", armed.staged.operation, error.message)

    def _recoverer(self) -> Recoverer:
        return Recoverer(self.store, self.target, self.publisher)


def _recovery_required(armed: states.Armed, cause: OmnigraphError | None = None) -> RecoveryRequiredError:
    operation = armed.staged.operation
    reason = "" if cause is None else f": {cause.message}"
    facts: dict[str, Fact] = {"recovery_required": {"operation_id": operation}}
    if cause is not None:
        facts["cause"] = cause.code
    return RecoveryRequiredError(
        f"the write {operation} was interrupted, and it is unknown whether it was applied{reason}",
        code="recovery_required",
        hint=hint("The next open finishes or undoes it. Run {} to see it.", action("recovery list")),
        facts=facts,
    )
