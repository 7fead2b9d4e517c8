"""The states of a write, as types: Staged → Armed → Committed → Published. Each is made only from the one before.

Publishing something that was not committed, or committing something that was not armed, cannot be written down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from omnigraph.base.ids import CommitId, OperationId
from omnigraph.graph.coordination.intent import (
    INTENT_VERSION,
    Intent,
    IntentTable,
    PinObject,
    StreamObject,
    WriterKind,
)
from omnigraph.graph.coordination.lease import Lease
from omnigraph.graph.manifest.encoding import (
    Row,
    encode_commit,
    encode_schema,
    encode_table,
    encode_tombstone,
)
from omnigraph.graph.manifest.publish import ManifestChange, ObservedState, Publication, PublishTarget
from omnigraph.graph.manifest.records import Pin, StreamBatch, TableId, TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import StagedFile, operation_files
from omnigraph.storage.lance.stage import StagedTransaction

MultiCommitRun = Callable[[Dataset, Callable[[], None]], Dataset]
"""Lets Lance commit by itself on a handle, calling the second argument before each durable step; the new HEAD."""


@dataclass(frozen=True, slots=True)
class SingleTransactionEffect:
    """One table whose change is one staged transaction on top of `base`. `alias`: its name from then on, if another.

    `lead`: a transaction that is committed directly before it, as other columns come before rows that have them.
    `is_new`: the table is there and this branch has no row for it yet.
    """

    table: TableRecord
    base: Pin
    transaction: StagedTransaction
    result_rows: int
    preserving: bool = False
    forked_from: Pin | None = None
    alias: str | None = None
    lead: StagedTransaction | None = None
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class MultiCommitEffect:
    """One table that Lance changes by itself, without changing its content, when `run` is called.

    `files` are those that were written for it.
    """

    table: TableRecord
    base: Pin
    run: MultiCommitRun
    forked_from: Pin | None = None
    files: tuple[StagedFile, ...] = ()

    @property
    def result_rows(self) -> int:
        return self.table.row_count

    @property
    def preserving(self) -> bool:
        return True

    @property
    def alias(self) -> str | None:
        return None

    @property
    def is_new(self) -> bool:
        return False


Effect = SingleTransactionEffect | MultiCommitEffect


def staged_files(effect: Effect, base: Dataset) -> tuple[StagedFile, ...]:
    """The files that were written for one table; `base` is open on the version that they were staged from."""
    if isinstance(effect, MultiCommitEffect):
        return effect.files
    transactions = (effect.lead, effect.transaction)
    files = (
        file
        for staged in transactions
        if staged is not None
        for file in operation_files(base.native, staged.native.operation)
    )
    return tuple(dict.fromkeys(files))


@dataclass(frozen=True, slots=True)
class FoundHead:
    """A table whose newest version is part of what was decided on, beside its pin."""

    table: TableRecord
    head: Pin


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """All the expensive work is done and no head has moved. `reads` are the tables it was validated against.

    `heads` are the heads that must not have moved since. Without effects only pointers move, to what is there already.
    `counted`: the catalog, with the counters of all branches, from which it gives ids to what is new.
    """

    kind: WriterKind
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
    heads: tuple[FoundHead, ...] = ()
    counted: Catalog | None = None

    def adopted(self) -> tuple[TableRecord, ...]:
        """Tables that are to point at a version which is there already: another one, or that of a type which is new."""
        pins = {table.id: table.pin for table in self.snapshot.tables.values()}
        own = {found.table.id for found in self.heads}
        moved = (table for table in self.extra_changes.tables if pins.get(table.id) != table.pin)
        return tuple(table for table in moved if table.id not in own)

    @property
    def needs_graph(self) -> bool:
        """Whether it gives ids, or rests on files that cleanup could collect: this branch does not name them yet."""
        is_new = any(effect.is_new for effect in self.effects)
        return self.counted is not None or is_new or bool(self.adopted())


@dataclass(frozen=True, slots=True)
class Armed:
    """The lease is held and the intent is written. `handles` are open on the bases that were checked against `seen`."""

    staged: StagedWrite
    lease: Lease
    intent: Intent
    handles: tuple[Dataset, ...]
    seen: ObservedState


@dataclass(frozen=True, slots=True)
class Committed:
    """Every table's head has moved by exactly what was intended; nobody sees it yet."""

    armed: Armed
    tables: tuple[TableRecord, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """The write is visible, all of it."""

    staged: StagedWrite
    publication: Publication


def make_intent(staged: StagedWrite, target: PublishTarget, lease_epoch: int, created_us: int) -> Intent:
    """The intent of a write that is about to move heads."""
    extra_changes, merge = staged.extra_changes, staged.extra_changes.commit
    is_plain = not (extra_changes.branches or extra_changes.removed or extra_changes.recovery)
    assert is_plain, "a write changes no branch and audits nothing"
    pins = None if merge is None or merge.pins is None else merge.pins
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
        merged_parent=None if merge is None else merge.merged_parent,
        pins=None
        if pins is None
        else {table: PinObject(pin.branch, pin.version) for table, pin in pins.items()},
        stream=None if staged.stream is None else StreamObject(staged.stream.query, staged.stream.batch),
        rows=_rows(staged.extra_changes),
    )


def _table(effect: Effect, target: PublishTarget) -> IntentTable:
    origin = effect.forked_from
    return IntentTable(
        id=effect.table.id,
        path=effect.table.path,
        lance_branch=effect.base.branch,
        owner=target.branch_id,
        base=effect.base.version,
        uuid=effect.transaction.uuid if isinstance(effect, SingleTransactionEffect) else None,
        preserving=effect.preserving,
        forked_from=None if origin is None else PinObject(origin.branch, origin.version),
        result_rows=effect.result_rows,
        alias=effect.table.alias if effect.is_new else effect.alias,
        lead=int(isinstance(effect, SingleTransactionEffect) and effect.lead is not None),
        is_new=effect.is_new,
    )


def _rows(extra_changes: ManifestChange) -> list[Row]:
    rows = [encode_table(table) for table in extra_changes.tables]
    rows += [encode_tombstone(stone) for stone in extra_changes.tombstones]
    rows += [] if extra_changes.schema is None else [encode_schema(extra_changes.schema)]
    rows += [encode_commit(ancestor) for ancestor in extra_changes.ancestors]
    return rows + list(extra_changes.rows)
