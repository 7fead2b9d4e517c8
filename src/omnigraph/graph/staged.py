"""The states of a write, as types: Staged → Armed → Committed → Published. Each is made only from the one before.

Publishing something that was not committed, or committing something that was not armed, cannot be written down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from omnigraph.base.ids import CommitId, OperationId
from omnigraph.graph.intent import Intent, WriterKind
from omnigraph.graph.lease import Lease
from omnigraph.graph.publish import Change, Publication, Seen
from omnigraph.graph.records import Pin, StreamBatch, TableId, TableRecord
from omnigraph.graph.snapshot import Snapshot
from omnigraph.schema import Catalog
from omnigraph.storage.dataset import Dataset
from omnigraph.storage.durability import StagedFile, operation_files
from omnigraph.storage.staging import StagedTransaction

LooseRun = Callable[[Dataset, Callable[[], None]], Dataset]
"""Lets Lance commit by itself on a handle, calling the second argument before each durable step; the new HEAD."""


@dataclass(frozen=True, slots=True)
class ExactEffect:
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
class LooseEffect:
    """One table that Lance changes by itself, without changing its content, when `run` is called.

    `files` are those that were written for it.
    """

    table: TableRecord
    base: Pin
    run: LooseRun
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


Effect = ExactEffect | LooseEffect


def staged_files(effect: Effect, base: Dataset) -> tuple[StagedFile, ...]:
    """The files that were written for one table; `base` is open on the version that they were staged from."""
    if isinstance(effect, LooseEffect):
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
class Staged:
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
    beside: Change = field(default_factory=Change)
    if_commit: CommitId | None = None
    stream: StreamBatch | None = None
    heads: tuple[FoundHead, ...] = ()
    counted: Catalog | None = None

    def adopted(self) -> tuple[TableRecord, ...]:
        """Tables that are to point at a version which is there already: another one, or that of a type which is new."""
        pins = {table.id: table.pin for table in self.snapshot.tables.values()}
        own = {found.table.id for found in self.heads}
        moved = (table for table in self.beside.tables if pins.get(table.id) != table.pin)
        return tuple(table for table in moved if table.id not in own)

    @property
    def needs_graph(self) -> bool:
        """Whether it gives ids, or rests on files that cleanup could collect: this branch does not name them yet."""
        is_new = any(effect.is_new for effect in self.effects)
        return self.counted is not None or is_new or bool(self.adopted())


@dataclass(frozen=True, slots=True)
class Armed:
    """The lease is held and the intent is written. `handles` are open on the bases that were checked against `seen`."""

    staged: Staged
    lease: Lease
    intent: Intent
    handles: tuple[Dataset, ...]
    seen: Seen


@dataclass(frozen=True, slots=True)
class Committed:
    """Every table's head has moved by exactly what was intended; nobody sees it yet."""

    armed: Armed
    tables: tuple[TableRecord, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """The write is visible, all of it."""

    staged: Staged
    publication: Publication
