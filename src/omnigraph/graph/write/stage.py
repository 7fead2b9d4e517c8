"""The Stage of a write: from a pinned snapshot, all the expensive work, without moving any head.

A table that the branch has not written yet is forked here, since files staged on another Lance branch would
make the fork unreadable. A crash leaves only files, and at most a Lance branch, that nothing references.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.errors import NotFoundError, OmnigraphError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import BranchId, CommitId, OperationId
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.publish import ManifestChange
from omnigraph.graph.manifest.records import Pin, StreamBatch, TableId, TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot, open_table
from omnigraph.graph.recovery.history import operation_properties
from omnigraph.graph.write.multi_commit import TableMaintenance, upkeep_run
from omnigraph.graph.write.states import (
    Effect,
    FoundHead,
    MultiCommitEffect,
    MultiCommitRun,
    SingleTransactionEffect,
    StagedWrite,
)
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.lance.commit import AUTO_CLEANUP_PREFIX, commit_branch
from omnigraph.storage.lance.compaction import FragmentRewrite, write_deletion_file
from omnigraph.storage.lance.dataset import Dataset, make_durable_since, open_dataset
from omnigraph.storage.lance.delete import delete_branch
from omnigraph.storage.lance.stage import StagedTransaction, stage_restore, stage_settings_removal

logger = logging.getLogger("omnigraph.stage")


@dataclass(frozen=True, slots=True)
class WritableTable:
    """A table open where this branch may write it: on its own Lance branch, at the pinned content."""

    table: TableRecord
    dataset: Dataset
    forked_from: Pin | None


def discard_fork(target: WritableTable) -> None:
    """Delete a fork that this very write made and does not need; a table that was not forked stays as it is."""
    if target.forked_from is None or target.dataset.branch is None:
        return
    try:
        main = open_dataset(target.dataset.location)
        failpoint(Failpoint.FORK_DISCARD_BEFORE)
        delete_branch(main, target.dataset.branch)
    except OmnigraphError as error:
        logger.warning("the fork %s is left for cleanup: %s", target.dataset.branch, error.message)


@contextmanager
def discarding(forks: Sequence[WritableTable]) -> Iterator[None]:
    """Whatever ends the work in it, also Ctrl-C, leaves no fork behind: no intent names one yet."""
    done = False
    try:
        yield
        done = True
    finally:
        if not done:
            discard_forks(forks)


def discard_forks(forks: Sequence[WritableTable]) -> None:
    """Delete forks that a write made and that nothing names."""
    for fork in forks:
        discard_fork(fork)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a write did, beside its effects: counts for the commit, other manifest rows, a wanted head, found heads.

    `counted`: from which catalog it gave ids.
    """

    counts: Mapping[str, int]
    extra_changes: ManifestChange = field(default_factory=ManifestChange)
    if_commit: CommitId | None = None
    heads: tuple[FoundHead, ...] = ()
    counted: Catalog | None = None


@dataclass(frozen=True, slots=True)
class StagingArea:
    """One attempt at staging: a snapshot, and the ids that everything staged will carry.

    `began` is the time, on the monotonic clock, from which on its files were written, also in an attempt before it.
    `forks` are those that the write made so far. `fork_owner` is the branch whose id is in their names (default: the
    snapshot's): cleanup keeps a young fork of a live branch, which one that is created with its first write is not yet.
    """

    snapshot: Snapshot
    kind: WriterKind
    actor: str
    operation: OperationId
    commit: CommitId
    clock: Clock
    stream: StreamBatch | None = None
    began: float = field(default_factory=SYSTEM_CLOCK.monotonic)
    forks: list[WritableTable] = field(default_factory=list)
    fork_owner: BranchId | None = None

    def table(self, alias: str) -> TableRecord:
        """The pinned table of a type, `node:T` or `edge:E`."""
        record = self.snapshot.tables.get(alias)
        if record is None:
            raise NotFoundError(
                f"there is no table {alias} on branch {self.snapshot.branch.name}",
                code="table_missing",
                hint="`omnigraph snapshot` lists the tables",
                facts={"table": alias},
            )
        return record

    def read(self, alias: str) -> Dataset:
        """The table at its pin, to read from."""
        return open_table(self.snapshot.root, self.table(alias))

    def writable(self, alias: str) -> WritableTable:
        """The table where this branch may write it; forked first if another branch owns the pinned Lance branch."""
        record = self.table(alias)
        if record.owner == self.snapshot.branch.id:
            return WritableTable(record, self.read(alias), None)
        return self.forked(record)

    def keep_fork(self, alias: str) -> WritableTable:
        """As `writable`, but a fork outlives a write that fails: who asked for it uses it again, or discards it."""
        target = self.writable(alias)
        self.forks[:] = [fork for fork in self.forks if fork is not target]
        return target

    def forked(self, record: TableRecord) -> WritableTable:
        """The table on a Lance branch of our own, from the version that a branch has pinned."""
        dataset = open_table(self.snapshot.root, record)
        failpoint(Failpoint.FORK_BEFORE)
        fork = commit_branch(dataset, f"g-{self.fork_owner or self.snapshot.branch.id}-{self.operation}")
        made = WritableTable(record, fork, record.pin)
        self.forks.append(made)
        failpoint(Failpoint.FORK_AFTER)
        return made

    def transaction_effect(
        self,
        target: WritableTable,
        transaction: StagedTransaction,
        result_rows: int,
        lead: StagedTransaction | None = None,
    ) -> SingleTransactionEffect:
        """The effect of one staged transaction, or of two that follow each other, marked as ours."""
        ours = operation_properties(self.operation, self.commit, self.kind)
        base = Pin(target.dataset.branch, target.dataset.version)
        return SingleTransactionEffect(
            target.table,
            base,
            transaction.with_properties(ours),
            result_rows,
            forked_from=target.forked_from,
            lead=None if lead is None else lead.with_properties(ours),
        )

    def masked(self, target: WritableTable, group: FragmentRewrite) -> FragmentRewrite:
        """The group with deletion files for the rows that other writers deleted since it was read."""
        written = []
        for fragment in group.written:
            positions = group.deleted.get(fragment.id)
            if positions is not None and group.live_rows(fragment) and fragment.deletion_file is None:
                failpoint(Failpoint.REWRITE_DELETIONS_BEFORE)
                fragment = write_deletion_file(target.dataset, fragment, positions)  # noqa: PLW2901
            written.append(fragment)
        return replace(group, written=tuple(written))

    def maintenance_effect(self, target: WritableTable, change: TableMaintenance) -> MultiCommitEffect:
        """The effect of finished upkeep, marked as ours where Lance lets us."""
        groups = tuple(self.masked(target, group) for group in change.groups)
        masked = replace(change, groups=groups)
        run = upkeep_run(masked, operation_properties(self.operation, self.commit, self.kind))
        return replace(self.multi_commit_effect(target, run), files=masked.files())

    def multi_commit_effect(self, target: WritableTable, run: MultiCommitRun) -> MultiCommitEffect:
        """The effect of letting Lance commit by itself."""
        base = Pin(target.dataset.branch, target.dataset.version)
        return MultiCommitEffect(target.table, base, run, target.forked_from)

    def restore_effect(self, table: TableRecord, head: Dataset) -> SingleTransactionEffect:
        """The effect of giving a table that this branch owns its published content back, above whatever is there."""
        target = WritableTable(table, head, None)
        effect = self.transaction_effect(target, stage_restore(head, table.pin.version), table.row_count)
        return replace(effect, preserving=True)  # what readers see stays the same

    def publish_head_effect(self, table: TableRecord, head: Dataset) -> SingleTransactionEffect | TableRecord:
        """What publishing the head of a table that this branch owns takes: mostly just its row.

        Settings that let a commit collect old versions are never published: they are removed in a version of our own.
        Another tool may not have noticed that a file was cut off, and does not sync: that is done here.
        """
        make_durable_since(head, table.pin.version)
        rows = head.count_rows()
        stripped = stage_settings_removal(head, AUTO_CLEANUP_PREFIX)
        if stripped is None:
            return replace(table, pin=Pin(head.branch, head.version), row_count=rows)
        # Once begun it goes forward: taking it back would be a commit under those very settings.
        return replace(
            self.transaction_effect(WritableTable(table, head, None), stripped, rows), preserving=True
        )

    def finish(self, effects: tuple[Effect, ...], reads: frozenset[TableId], outcome: Outcome) -> StagedWrite:
        """Everything staged, ready for the lease. The written tables are always part of what was read."""
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
            counts=outcome.counts,
            extra_changes=outcome.extra_changes,
            if_commit=outcome.if_commit,
            stream=self.stream,
            heads=outcome.heads,
            counted=outcome.counted,
        )
