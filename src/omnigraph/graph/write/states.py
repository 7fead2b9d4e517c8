"""Define the states of a write as types: Staged → Checked → Armed → Committed.

Each state is built only from the state before it. So code that publishes something that was not committed, or commits
something that was not armed, does not pass the type checker. This module also builds the intent of a write. It does
no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from omnigraph.base.ids import CommitId, OperationId
from omnigraph.graph.coordination.intent import INTENT_VERSION, Intent, IntentTable
from omnigraph.graph.manifest.publish import ManifestChange, PublishTarget, encode_rows
from omnigraph.graph.manifest.records import Pin, StreamBatch, TableId, TableRecord, WriteOperation
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import StagedFile, operation_files
from omnigraph.storage.lance.stage import StagedTransaction

MultiCommitRun = Callable[[Dataset, Callable[[], None]], Dataset]
"""Lance commits by itself on a handle and calls the second argument before each durable step. Returns the new HEAD."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEffect:
    """What a write does to one table, on top of the version of `dataset`, from which it was staged.

    `alias` is the new name of the table if the write renames it. `is_new`: the dataset exists, but this branch has no
    row for it yet. `preserving`: readers see the same content before and after.
    """

    table: TableRecord
    dataset: Dataset = field(repr=False)
    result_rows: int
    preserving: bool = False
    forked_from: Pin | None = None
    alias: str | None = None
    is_new: bool = False

    @property
    def base(self) -> Pin:
        """The version that the write must replace."""
        return Pin(self.dataset.branch, self.dataset.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTransactionEffect(TableEffect):
    """One table whose change is one staged transaction.

    `lead` is a transaction that is committed directly before: new columns before the rows that have values in them.
    """

    transaction: StagedTransaction
    lead: StagedTransaction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiCommitEffect(TableEffect):
    """One table that Lance changes by itself, in several commits, when `run` is called. Its content stays the same.

    `files` are the files that were written for it.
    """

    run: MultiCommitRun
    files: tuple[StagedFile, ...] = ()


Effect = SingleTransactionEffect | MultiCommitEffect


def staged_files(effect: Effect, base: Dataset) -> tuple[StagedFile, ...]:
    """Return the files that were written for one table; `base` is open on the version that they were staged from."""
    if isinstance(effect, MultiCommitEffect):
        return effect.files
    transactions = [staged for staged in (effect.lead, effect.transaction) if staged is not None]
    files = (file for staged in transactions for file in operation_files(base.native, staged.native.operation))
    return tuple(dict.fromkeys(files))


@dataclass(frozen=True, slots=True)
class ExpectedHead:
    """A table whose head is part of the decision of a write, in addition to its pin."""

    table: TableRecord
    head: Pin


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWrite:
    """All files are written and no head has moved. `reads` are the tables that the write was validated against.

    `heads` are the heads that must not have moved since. `if_commit` is the head of the branch that the caller
    requires. A write without effects only publishes pins of existing versions. `counter_catalog` is the catalog, with
    the counters of all branches, from which the write assigns ids to new types and properties. A merge has the head
    that it merges as `merged_parent`, and the pins of its tables.
    """

    kind: WriteOperation
    operation: OperationId
    commit: CommitId
    actor: str
    snapshot: Snapshot
    effects: tuple[Effect, ...]
    reads: frozenset[TableId]
    began: float
    counts: Mapping[str, int] = field(default_factory=dict)
    extra_changes: ManifestChange = field(default_factory=ManifestChange)
    if_commit: CommitId | None = None
    stream: StreamBatch | None = None
    heads: tuple[ExpectedHead, ...] = ()
    counter_catalog: Catalog | None = None
    merged_parent: CommitId | None = None
    merged_pins: Mapping[TableId, Pin] | None = None

    def adopted_tables(self) -> tuple[TableRecord, ...]:
        """Return the tables whose new pin is an existing version that this branch does not reference yet."""
        pins = {table.id: table.pin for table in self.snapshot.tables.values()}
        own = {head.table.id for head in self.heads}
        moved = (table for table in self.extra_changes.tables if pins.get(table.id) != table.pin)
        return tuple(table for table in moved if table.id not in own)

    @property
    def needs_graph_lease(self) -> bool:
        """Return whether the write assigns ids, or rests on files that this branch does not reference yet."""
        is_new = any(effect.is_new for effect in self.effects)
        return self.counter_catalog is not None or is_new or bool(self.adopted_tables())


@dataclass(frozen=True, slots=True)
class Checked:
    """A staged write that can be applied to the branch as it is now, and the lease is held.

    `handles` are open on the bases of the effects. `observed` is the snapshot that the write was checked against.
    """

    staged: StagedWrite
    handles: tuple[Dataset, ...]
    observed: Snapshot


@dataclass(frozen=True, slots=True)
class Armed:
    """The intent is written: if this process stops from here on, recovery finishes or undoes the write."""

    checked: Checked
    intent: Intent

    @property
    def staged(self) -> StagedWrite:
        return self.checked.staged


@dataclass(frozen=True, slots=True)
class Committed:
    """The head of every table has moved by exactly the intended change. No reader sees it yet."""

    armed: Armed
    tables: tuple[TableRecord, ...]


def make_intent(staged: StagedWrite, target: PublishTarget, lease_epoch: int, created_us: int) -> Intent:
    """Return the intent of a write that is about to move heads."""
    extra = staged.extra_changes
    is_plain = not (extra.commit or extra.branches or extra.removed or extra.recovery)
    assert is_plain, "a write changes no branch row and no audit row"
    return Intent(
        v=INTENT_VERSION,
        op_id=staged.operation,
        kind=staged.kind,
        actor=staged.actor,
        commit_id=staged.commit,
        branch=target.branch,
        branch_id=target.branch_id,
        lease_epoch=lease_epoch,
        schema_hash=staged.snapshot.schema.hash,
        head=staged.snapshot.head,
        created_us=created_us,
        tables=[_table(effect, target) for effect in staged.effects],
        counts=dict(staged.counts),
        merged_parent=staged.merged_parent,
        pins=None if staged.merged_pins is None else dict(staged.merged_pins),
        stream=staged.stream,
        rows=encode_rows(extra),
    )


def _table(effect: Effect, target: PublishTarget) -> IntentTable:
    return IntentTable(
        id=effect.table.id,
        path=effect.table.path,
        lance_branch=effect.base.branch,
        owner=target.branch_id,
        base=effect.base.version,
        uuid=effect.transaction.uuid if isinstance(effect, SingleTransactionEffect) else None,
        preserving=effect.preserving,
        forked_from=effect.forked_from,
        result_rows=effect.result_rows,
        alias=effect.table.alias if effect.is_new else effect.alias,
        lead=int(isinstance(effect, SingleTransactionEffect) and effect.lead is not None),
        is_new=effect.is_new,
    )
