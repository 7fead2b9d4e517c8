"""Stage a write from a pinned snapshot: all files are written here, and no head moves.

In: a snapshot and the ids that everything staged carries. Out: a `StagedWrite`. A table that another branch owns is
forked here, because a fork cannot read files that were staged on another Lance branch. A crash leaves only files, and
at most a Lance branch, that nothing references.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from omnigraph.base.clock import Clock
from omnigraph.base.errors import NotFoundError, OmnigraphError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import BranchId, CommitId, OperationId, new_ulid
from omnigraph.graph.manifest.publish import ManifestChange
from omnigraph.graph.manifest.records import Pin, StreamBatch, TableId, TableRecord, WriteOperation
from omnigraph.graph.manifest.snapshot import Snapshot, open_own_table
from omnigraph.graph.recovery.history import operation_properties
from omnigraph.graph.write.multi_commit import TableMaintenance, make_maintenance_run
from omnigraph.graph.write.states import Effect, MultiCommitEffect, MultiCommitRun, SingleTransactionEffect, StagedWrite
from omnigraph.storage.lance.commit import AUTO_CLEANUP_PREFIX, commit_branch
from omnigraph.storage.lance.compaction import FragmentRewrite, write_deletion_file
from omnigraph.storage.lance.dataset import Dataset, make_durable_since, open_dataset
from omnigraph.storage.lance.delete import delete_branch
from omnigraph.storage.lance.stage import StagedTransaction, stage_restore, stage_settings_removal

logger = logging.getLogger("omnigraph.stage")


@dataclass(frozen=True, slots=True)
class WritableTable:
    """A table open on a Lance branch that this branch may write, at the pinned content."""

    table: TableRecord
    dataset: Dataset
    forked_from: Pin | None

    @property
    def base(self) -> Pin:
        """The version on which the write is staged."""
        return Pin(self.dataset.branch, self.dataset.version)


def discard_fork(target: WritableTable) -> None:
    """Delete a fork that this write created and does not need. A table that was not forked is not changed."""
    if target.forked_from is None or target.dataset.branch is None:
        return
    try:
        main = open_dataset(target.dataset.location)
        failpoint(Failpoint.FORK_DISCARD_BEFORE)
        delete_branch(main, target.dataset.branch)
    except OmnigraphError as error:
        logger.warning("the fork %s is left for cleanup: %s", target.dataset.branch, error.message)


@contextmanager
def discard_forks_on_error(forks: Sequence[WritableTable]) -> Iterator[None]:
    """Delete the forks if the block fails or is interrupted: no intent names them yet."""
    try:
        yield
    except BaseException:  # also Ctrl-C
        discard_forks(forks)
        raise


def discard_forks(forks: Sequence[WritableTable]) -> None:
    """Delete forks that a write created and that nothing references."""
    for fork in forks:
        discard_fork(fork)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingArea:
    """One attempt to stage a write: a snapshot, and the ids that everything staged carries.

    `began` is the time, on the monotonic clock, when the first attempt started to write files. `forks` are the forks
    that the write has created so far. `fork_owner` is the branch whose id is in the names of forks (default: the branch
    of the snapshot). Cleanup keeps a young fork of a live branch. A branch that is created with its first write is not
    live yet, so its forks carry the id of its base.
    """

    snapshot: Snapshot
    kind: WriteOperation
    actor: str
    clock: Clock
    began: float
    stream: StreamBatch | None = None
    operation: OperationId = field(default_factory=lambda: OperationId(new_ulid()))
    commit: CommitId = field(default_factory=lambda: CommitId(new_ulid()))
    forks: list[WritableTable] = field(default_factory=list)
    fork_owner: BranchId | None = None

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of every Lance transaction of this write."""
        return operation_properties(self.operation, self.commit, self.kind)

    def table(self, alias: str) -> TableRecord:
        """Return the pinned table of a type, `node:T` or `edge:E`."""
        record = self.snapshot.tables.get(alias)
        if record is None:
            raise NotFoundError(
                f"branch '{self.snapshot.branch.name}' has no table '{alias}'",
                code="table_missing",
                hint=hint("Run {} to list the tables.", action("snapshot")),
                facts={"table": alias},
            )
        return record

    def read(self, alias: str) -> Dataset:
        """Open the table at its pin for reading."""
        return open_own_table(self.snapshot, self.table(alias))

    def open_for_write(self, alias: str) -> WritableTable:
        """Open the table for writing; fork it first if another branch owns the pinned Lance branch."""
        record = self.table(alias)
        if record.owner == self.snapshot.branch.id:
            return WritableTable(record, self.read(alias), None)
        return self.fork(record)

    def keep_fork(self, alias: str) -> WritableTable:
        """Open as `open_for_write`, but keep the fork if the write fails: the caller reuses or discards it."""
        target = self.open_for_write(alias)
        self.forks[:] = [fork for fork in self.forks if fork is not target]
        return target

    def fork(self, record: TableRecord) -> WritableTable:
        """Create a Lance branch of the table for this branch, from the pinned version."""
        dataset = open_own_table(self.snapshot, record)
        failpoint(Failpoint.FORK_BEFORE)
        fork = commit_branch(dataset, f"g-{self.fork_owner or self.snapshot.branch.id}-{self.operation}")
        target = WritableTable(record, fork, record.pin)
        self.forks.append(target)
        failpoint(Failpoint.FORK_AFTER)
        return target

    def transaction_effect(
        self,
        target: WritableTable,
        transaction: StagedTransaction,
        result_rows: int,
        lead: StagedTransaction | None = None,
    ) -> SingleTransactionEffect:
        """Return the effect of one staged transaction, or of two consecutive ones, with our properties."""
        return SingleTransactionEffect(
            table=target.table,
            dataset=target.dataset,
            result_rows=result_rows,
            forked_from=target.forked_from,
            transaction=transaction.with_properties(self.properties),
            lead=None if lead is None else lead.with_properties(self.properties),
        )

    def write_deletion_files(self, target: WritableTable, group: FragmentRewrite) -> FragmentRewrite:
        """Return the group with deletion files for the rows that other writers deleted since it was read."""
        written = []
        for fragment in group.written:
            positions = group.deleted.get(fragment.id)
            if positions is not None and group.live_rows(fragment) and fragment.deletion_file is None:
                failpoint(Failpoint.REWRITE_DELETIONS_BEFORE)
                fragment = write_deletion_file(target.dataset, fragment, positions)  # noqa: PLW2901
            written.append(fragment)
        return replace(group, written=tuple(written))

    def maintenance_effect(self, target: WritableTable, change: TableMaintenance) -> MultiCommitEffect:
        """Return the effect of finished maintenance. Commits carry our properties where Lance allows it."""
        groups = tuple(self.write_deletion_files(target, group) for group in change.groups)
        change = replace(change, groups=groups)
        effect = self.multi_commit_effect(target, make_maintenance_run(change, self.properties))
        return replace(effect, files=change.files())

    def multi_commit_effect(self, target: WritableTable, run: MultiCommitRun) -> MultiCommitEffect:
        """Return the effect of a run in which Lance commits by itself."""
        return MultiCommitEffect(
            table=target.table,
            dataset=target.dataset,
            result_rows=target.table.row_count,
            preserving=True,
            forked_from=target.forked_from,
            run=run,
        )

    def restore_effect(self, table: TableRecord, head: Dataset) -> SingleTransactionEffect:
        """Return the effect that restores the published content of a table that this branch owns."""
        target = WritableTable(table, head, None)
        effect = self.transaction_effect(target, stage_restore(head, table.pin.version), table.row_count)
        return replace(effect, preserving=True)

    def publish_head_effect(self, table: TableRecord, head: Dataset) -> SingleTransactionEffect | TableRecord:
        """Return the change that publishes the head of a table that this branch owns: usually only its row.

        Settings that let a commit delete old versions are never published: a version of our own removes them first. An
        external tool may have left a truncated file and does not sync, so the files are checked and synced here.
        """
        make_durable_since(head, table.pin.version)
        rows = head.count_rows()
        removal = stage_settings_removal(head, AUTO_CLEANUP_PREFIX)
        if removal is None:
            return replace(table, pin=Pin(head.branch, head.version), row_count=rows)
        # Recovery only rolls it forward: undoing it would be a commit under the settings that it removes.
        return replace(self.transaction_effect(WritableTable(table, head, None), removal, rows), preserving=True)

    def finish(
        self,
        effects: tuple[Effect, ...],
        reads: frozenset[TableId],
        counts: Mapping[str, int],
        extra_changes: ManifestChange | None = None,
    ) -> StagedWrite:
        """Return the staged write. The written tables are always part of the tables that it read.

        `extra_changes` are manifest rows that it publishes in addition to those of its effects.
        """
        written = {effect.table.id for effect in effects}
        return StagedWrite(
            kind=self.kind,
            operation=self.operation,
            commit=self.commit,
            actor=self.actor,
            snapshot=self.snapshot,
            effects=effects,
            reads=reads | written,
            began=self.began,
            counts=counts,
            extra_changes=extra_changes or ManifestChange(),
            stream=self.stream,
        )
