"""Looks at every table that a branch owns: is its head where the branch publishes it, and what lies in between?

In: a snapshot. Out: one `TableInspection` per table; a table that cannot be read has an error and does not stop the
others. Nothing here writes, takes a lease or recovers. A table that a branch has not written yet belongs to another
branch.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import pyarrow as pa

from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError, RefusedError
from omnigraph.base.ids import OperationId
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import PendingIntent, PendingState, list_pending
from omnigraph.graph.manifest.records import TableId, TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.graph.recovery.fence import read_history
from omnigraph.graph.recovery.history import OPERATION_PROPERTY, TableHistory
from omnigraph.maintenance.row_counts import RowCounts, compare_rows
from omnigraph.pipeline.runner import maintenance_concurrency
from omnigraph.schema.catalog import display_order
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.transactions import Operation, TransactionGap, TransactionRecord, VersionRecord
from omnigraph.storage.location import Location

MAINTENANCE: Final = frozenset({Operation.RESERVE_FRAGMENTS, Operation.REWRITE})
"""What keeps every row as it is, whoever does it."""
_KEEPS_ROWS: Final = MAINTENANCE | {Operation.CREATE_INDEX, Operation.UPDATE_CONFIG, Operation.RESTORE}


class Classification(StrEnum):
    """What kind of drift a table has."""

    NO_DRIFT = "no_drift"
    """The newest version is the published one."""
    VERIFIED_MAINTENANCE = "verified_maintenance"
    """Files were only rearranged."""
    SUSPICIOUS = "suspicious"
    """Anything else: rows, columns, indexes, settings, restores."""
    UNVERIFIABLE = "unverifiable"
    """What was done cannot be told."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The judgement of one table.

    `ours`: everything above the pin carries our mark, so that it is what a writer or recovery left, and the published
    content is put back. `unpublished`: writes of ours that never finished and whose rows the head has.
    """

    classification: Classification
    operations: tuple[str, ...] = ()
    ours: bool = False
    unpublished: tuple[OperationId, ...] = ()


def classify_drift(history: TableHistory) -> Drift:
    """Judge everything above the history's base, which is the published version."""
    if history.head == history.base:
        return Drift(Classification.NO_DRIFT)
    operations = tuple(_name(record) for record in history.records)
    if history.head < history.base:
        return Drift(Classification.UNVERIFIABLE, operations)
    if all(_operation_of(record) is not None for record in history.records):
        return Drift(Classification.VERIFIED_MAINTENANCE, operations, ours=True)
    unpublished = _unpublished(history)
    if any(isinstance(record, TransactionGap) for record in history.records):
        return Drift(Classification.UNVERIFIABLE, operations, unpublished=unpublished)
    counted = (record for record in history.records if not _is_fence(history, record))
    is_maintenance = all(isinstance(r, TransactionRecord) and r.operation in MAINTENANCE for r in counted)
    classification = Classification.VERIFIED_MAINTENANCE if is_maintenance else Classification.SUSPICIOUS
    return Drift(classification, operations, unpublished=unpublished)


def _name(record: VersionRecord) -> str:
    match record:
        case TransactionRecord():
            return record.operation.value
        case TransactionGap():
            return record.reason.value


def _operation_of(record: VersionRecord) -> OperationId | None:
    found = record.properties.get(OPERATION_PROPERTY) if isinstance(record, TransactionRecord) else None
    return None if found is None else OperationId(found)


def _is_fence(history: TableHistory, record: VersionRecord) -> bool:
    """A Restore of ours that gave the table the content it had."""
    return (
        isinstance(record, TransactionRecord)
        and record.operation is Operation.RESTORE
        and _operation_of(record) is not None
        and history.content_of(record.version) == history.content_of(record.version - 1)
    )


def _unpublished(history: TableHistory) -> tuple[OperationId, ...]:
    """The writes of ours whose rows are part of the head's content, oldest first.

    The content is followed down from the head: a Restore leads to what it restored, anything else to the version below.
    """
    by_version = {record.version: record for record in history.records}
    found: list[OperationId] = []
    version = history.head
    while (record := by_version.get(version)) is not None:
        operation = _operation_of(record)
        if isinstance(record, TransactionRecord) and record.operation is Operation.RESTORE:
            assert record.restored_version is not None, "a Restore says which version"
            version = record.restored_version if record.restored_version < version else version - 1
            continue
        if operation is not None and isinstance(record, TransactionRecord):
            found += [] if record.operation in _KEEPS_ROWS else [operation]
        version -= 1
    return tuple(dict.fromkeys(reversed(found)))


NOT_CHECKED: Final = ("constraints", "endpoints")
"""What nobody checks of rows that a foreign tool wrote: the rules of the schema, and that edges end at nodes."""


@dataclass(frozen=True, slots=True)
class Obstacles:
    """Why a foreign change cannot be published, and why it cannot be discarded; empty when it can."""

    publish: str = ""
    discard: str = ""


UNDER_WAY = "a write is under way on this table; look again when it is done"


@dataclass(frozen=True, slots=True)
class TableInspection:
    """One table as it was found. `head` None: it cannot be opened. `changes` None: they are not known."""

    table: TableRecord
    head: Dataset | None
    drift: Drift
    changes: RowCounts | None = None
    obstacles: Obstacles = field(default_factory=Obstacles)
    not_checked: tuple[str, ...] = ()

    @property
    def head_version(self) -> int | None:
        return None if self.head is None else self.head.version


_PENDING: Final = (
    "Nothing was changed. Run `omnigraph optimize` or `omnigraph repair --confirm`, which finish or undo that write "
    "first, or call omnigraph.open() from Python. `omnigraph recovery list` shows it"
)
_UNREADABLE: Final = (
    "Nothing was changed. If a newer release of Omnigraph wrote it, run that release; otherwise move the file out of "
    "`__recovery/`, then run `omnigraph repair`"
)


def refuse_pending(root: Location, command: str) -> tuple[PendingIntent, ...]:
    """Raise while a write must be recovered first; those at work are given back."""
    found = list_pending(root)
    waiting = [one for one in found if one.state is not PendingState.LIVE]
    if waiting:
        # One that cannot be read comes first: the others wait for it.
        first = min(waiting, key=lambda one: one.state is not PendingState.UNREADABLE)
        is_unreadable = first.state is PendingState.UNREADABLE
        what = f"cannot be read: {first.why}" if is_unreadable else "belongs to a write that was interrupted"
        raise RefusedError(
            f"{command} is refused: the recovery intent {first.path} {what}",
            code="recovery_pending",
            hint=_UNREADABLE if is_unreadable else _PENDING,
            facts={"path": first.path, "operation_id": first.intent.op_id if first.intent else None},
        )
    return found


def owned_tables(snapshot: Snapshot) -> tuple[TableRecord, ...]:
    """The tables whose published Lance branch is this branch's own, nodes first, each by name."""
    owned = [table for table in snapshot.tables.values() if table.owner == snapshot.branch.id]
    return tuple(sorted(owned, key=lambda table: display_order(table.alias)))


def inspect_heads(snapshot: Snapshot) -> tuple[TableInspection, ...]:
    """The heads and what lies above the pins, from transactions alone."""
    with ThreadPoolExecutor(maintenance_concurrency()) as threads:
        return tuple(threads.map(lambda table: _look(snapshot.root, table), owned_tables(snapshot)))


@dataclass(frozen=True, slots=True)
class StableInspection:
    """The heads of a branch against one snapshot. `busy`: the tables that a writer at work is moving."""

    snapshot: Snapshot
    looks: tuple[TableInspection, ...]
    busy: frozenset[TableId]

    @property
    def drifted(self) -> tuple[TableInspection, ...]:
        """What is ahead, and nobody's write under way."""
        ahead = (look for look in self.looks if look.drift.classification is not Classification.NO_DRIFT)
        return tuple(look for look in ahead if look.table.id not in self.busy)


def inspect_until_stable(
    snapshot: Snapshot, pending: Callable[[], tuple[PendingIntent, ...]], world: WriteEnvironment
) -> StableInspection:
    """Look until a head that is ahead is certainly no write that is about to be published.

    A writer announces itself before it moves a head, and publishes before it says that it is done. So a head that is
    ahead, with nobody who announced it, and a manifest that stays as it was afterwards: that is drift.
    """
    name = snapshot.branch.name
    for _ in range(limits.REPAIR_LOOKS_MAX):
        looks = inspect_heads(snapshot)
        steady = StableInspection(snapshot, looks, frozenset())
        if not steady.drifted:
            return steady
        live = tuple(one for one in pending() if one.state is PendingState.LIVE)
        busy = frozenset(look.table.id for look in steady.drifted if is_under_way(look, live))
        steady = StableInspection(snapshot, looks, busy)
        now = read_snapshot(snapshot.root, name, rules=world.rules)
        if not busy and now.version == snapshot.version:
            return steady
        snapshot = now
        world.clock.sleep(limits.REPAIR_LOOK_SECONDS)
    return steady


def is_under_way(look: TableInspection, live: tuple[PendingIntent, ...]) -> bool:
    """Whether one of these writes has announced that it moves this table."""
    tables = (table for one in live if one.intent is not None for table in one.intent.tables)
    here = (look.table.path, look.table.pin.branch)
    return any((table.path, table.lance_branch) == here for table in tables)


def inspect_rows(snapshot: Snapshot, look: TableInspection) -> TableInspection:
    """The same look with what publishing would change, and what speaks against publishing or discarding."""
    head = look.head
    if head is None:
        return look
    if look.drift.classification is Classification.NO_DRIFT:
        return replace(look, changes=RowCounts(0, 0, 0))
    published, gone = _open_published(head, look.table)
    if head.version < look.table.pin.version:
        below = gone or "its head is below the published version"
        return replace(look, obstacles=Obstacles(below, below))
    if look.drift.classification is Classification.VERIFIED_MAINTENANCE:
        # What is ours is taken back, and that needs the published version.
        obstacles = Obstacles(gone if look.drift.ours else "", gone)
        return replace(look, changes=RowCounts(0, 0, 0), obstacles=obstacles)
    against = _unfinished(snapshot, look) or _misfit(snapshot, look.table, head)
    changes: RowCounts | None = None
    try:
        changes = compare_rows(published, head)
        if changes.duplicates:
            against = against or f"{changes.duplicates} rows have the id of another row"
    except OmnigraphError as error:
        against = against or error.message
    known = None if published is None else changes
    return replace(look, changes=known, obstacles=Obstacles(against, gone), not_checked=NOT_CHECKED)


def _look(root: Location, table: TableRecord) -> TableInspection:
    try:
        head = open_dataset(root.child(table.path), branch=table.pin.branch)
        return TableInspection(table, head, classify_drift(read_history(head, table.pin.version)))
    except OmnigraphError as error:
        unknown = Drift(Classification.UNVERIFIABLE)
        return TableInspection(table, None, unknown, obstacles=Obstacles(error.message, error.message))


def _open_published(head: Dataset, table: TableRecord) -> tuple[Dataset | None, str]:
    try:
        return head.at_version(table.pin.version), ""
    except OmnigraphError as error:
        return None, f"the published version {table.pin.version} cannot be opened: {error.message}"


def _unfinished(snapshot: Snapshot, look: TableInspection) -> str:
    """Publishing would show half of a write that did not finish, or one that recovery took back."""
    for operation in look.drift.unpublished:
        recovery = snapshot.manifest.find_recovery(operation)
        what = (
            "never finished" if recovery is None else f"was {recovery.action.replace('_', ' ')} by recovery"
        )
        return f"it has rows of the write {operation}, which {what}"
    return ""


def _misfit(snapshot: Snapshot, table: TableRecord, head: Dataset) -> str:
    """How the columns of the head differ from those of the accepted schema."""
    wanted = next(arrow_schema(one) for one in snapshot.schema.catalog.types if one.alias == table.alias)
    expected, actual = _columns(wanted), _columns(head.schema)
    missing = [name for name in expected if name not in actual]
    strange = [name for name in actual if name not in expected]
    other = [name for name in expected if name in actual and expected[name] != actual[name]]
    parts = [
        f"{word} {', '.join(names)}"
        for word, names in (("it lacks", missing), ("it has also", strange), ("it has changed", other))
        if names
    ]
    if not parts and list(expected) != list(actual):
        parts = ["they are in another order"]
    return f"its columns are not those of the schema: {'; '.join(parts)}" if parts else ""


def _columns(schema: pa.Schema) -> dict[str, object]:
    """What matters of each column: type, whether it may be null, and what the schema noted on it."""
    columns: dict[str, object] = {}
    for column in schema:
        extension = column.type.extension_name if isinstance(column.type, pa.BaseExtensionType) else None
        storage = column.type.storage_type if isinstance(column.type, pa.BaseExtensionType) else column.type
        noted = dict(column.metadata or {})
        named = noted.pop(b"ARROW:extension:name", b"").decode() or extension
        columns[column.name] = (storage, column.nullable, named, tuple(sorted(noted.items())))
    return columns
