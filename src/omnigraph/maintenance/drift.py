"""Inspects every table that a branch owns: is its head the published version, and which transactions are in between?

In: a snapshot. Out: one `TableInspection` per table; a table that cannot be read has an error and does not stop the
others. A table that a branch has not written yet belongs to another branch. `require_no_interrupted_writes` raises
while a write waits for recovery. Nothing here writes, takes a lease or recovers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import pyarrow as pa

from omnigraph.base import limits
from omnigraph.base.display import format_count
from omnigraph.base.errors import OmnigraphError, RefusedError
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import OperationId
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import PendingIntent, PendingState, list_pending
from omnigraph.graph.manifest.records import TableId, TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.graph.recovery.fence import read_history
from omnigraph.graph.recovery.history import OPERATION_PROPERTY, TableHistory
from omnigraph.maintenance.row_counts import RowCounts, compare_rows
from omnigraph.pipeline.runner import in_threads
from omnigraph.schema.catalog import display_order
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.transactions import Operation, TransactionGap, TransactionRecord, VersionRecord
from omnigraph.storage.location import Location

MAINTENANCE: Final = frozenset({Operation.RESERVE_FRAGMENTS, Operation.REWRITE})
"""The operations that change no row, also those of external tools."""
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
    """The changes cannot be read."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The drift of one table.

    `is_ours`: every version above the pin has Omnigraph's mark, so a writer or recovery left it, and repair restores
    the published content. `unpublished`: Omnigraph's writes that never finished and whose rows the head has.
    """

    classification: Classification
    operations: tuple[str, ...] = ()
    is_ours: bool = False
    unpublished: tuple[OperationId, ...] = ()


def classify_drift(history: TableHistory) -> Drift:
    """Classify the versions above the history's base, which is the published version."""
    if history.head == history.base:
        return Drift(Classification.NO_DRIFT)
    operations = tuple(
        record.operation.value if isinstance(record, TransactionRecord) else record.reason.value
        for record in history.records
    )
    if history.head < history.base:
        return Drift(Classification.UNVERIFIABLE, operations)
    if all(_operation_of(record) is not None for record in history.records):
        return Drift(Classification.VERIFIED_MAINTENANCE, operations, is_ours=True)
    unpublished = _unpublished(history)
    if any(isinstance(record, TransactionGap) for record in history.records):
        return Drift(Classification.UNVERIFIABLE, operations, unpublished=unpublished)
    counted = (record for record in history.records if not _is_fence(history, record))
    is_maintenance = all(isinstance(r, TransactionRecord) and r.operation in MAINTENANCE for r in counted)
    classification = Classification.VERIFIED_MAINTENANCE if is_maintenance else Classification.SUSPICIOUS
    return Drift(classification, operations, unpublished=unpublished)


def _operation_of(record: VersionRecord) -> OperationId | None:
    mark = record.properties.get(OPERATION_PROPERTY) if isinstance(record, TransactionRecord) else None
    return None if mark is None else OperationId(mark)


def _is_fence(history: TableHistory, record: VersionRecord) -> bool:
    """Whether it is a Restore by Omnigraph that did not change the content of the table."""
    return (
        isinstance(record, TransactionRecord)
        and record.operation is Operation.RESTORE
        and _operation_of(record) is not None
        and history.content_version(record.version) == history.content_version(record.version - 1)
    )


def _unpublished(history: TableHistory) -> tuple[OperationId, ...]:
    """Return Omnigraph's writes whose rows are part of the head's content, oldest first.

    The content is followed down from the head: a Restore leads to the version that it restored, any other operation to
    the version below.
    """
    by_version = {record.version: record for record in history.records}
    unpublished: list[OperationId] = []
    version = history.head
    while (record := by_version.get(version)) is not None:
        version -= 1
        if isinstance(record, TransactionRecord) and record.operation is Operation.RESTORE:
            assert record.restored_version is not None, "a Restore says which version"
            version = min(version, record.restored_version)
        elif isinstance(record, TransactionRecord) and record.operation not in _KEEPS_ROWS:
            operation = _operation_of(record)
            unpublished += [] if operation is None else [operation]
    return tuple(dict.fromkeys(reversed(unpublished)))


NOT_CHECKED: Final = ("constraints", "endpoints")
"""What repair does not check for rows of an external tool: rules of the schema, and that endpoints of edges exist."""


@dataclass(frozen=True, slots=True)
class Obstacles:
    """Why an external change cannot be published, and why it cannot be discarded; empty if it can."""

    publish: str = ""
    discard: str = ""


WRITE_IN_PROGRESS: Final = "a write to this table is in progress; run this again when it has finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInspection:
    """One inspected table. `head` None: it cannot be opened. `changes` None: they are not known."""

    table: TableRecord
    head: Dataset | None
    drift: Drift
    changes: RowCounts | None = None
    obstacles: Obstacles = field(default_factory=Obstacles)
    not_checked: tuple[str, ...] = ()

    @property
    def head_version(self) -> int | None:
        return None if self.head is None else self.head.version


def require_no_interrupted_writes(root: Location, command: str) -> tuple[PendingIntent, ...]:
    """Raise while a write waits for recovery; return the intents of running writes."""
    intents = list_pending(root)
    waiting = [intent for intent in intents if intent.state is not PendingState.LIVE]
    if not waiting:
        return intents
    # An unreadable intent is reported first: recovery of the others waits for it.
    first = min(waiting, key=lambda intent: intent.state is not PendingState.UNREADABLE)
    if first.state is PendingState.UNREADABLE:
        problem = f"cannot be read: {first.problem}"
        advice = hint(
            "Nothing was changed. If a newer release of Omnigraph wrote it, run that release; otherwise move the file "
            "out of `__recovery/`, then run {}.",
            action("repair"),
        )
    else:
        problem = "belongs to a write that was interrupted"
        advice = hint(
            "Nothing was changed. Run {} or {}: without a dry run, they finish or undo that write first. {} shows it.",
            action("optimize"),
            action("repair", dry_run=False),
            action("recovery list"),
        )
    raise RefusedError(
        f"{command} is refused: the recovery intent {first.path} {problem}",
        code="recovery_pending",
        hint=advice,
        facts={"path": first.path, "operation_id": first.intent.op_id if first.intent else None},
    )


def owned_tables(snapshot: Snapshot) -> tuple[TableRecord, ...]:
    """Return the tables whose published Lance branch belongs to this branch, nodes first, each by name."""
    owned = [table for table in snapshot.tables.values() if table.owner == snapshot.branch.id]
    return tuple(sorted(owned, key=lambda table: display_order(table.alias)))


def inspect_heads(snapshot: Snapshot) -> tuple[TableInspection, ...]:
    """Read the heads and the transactions above the pins; no rows."""
    return tuple(in_threads(lambda table: _inspect_head(snapshot.root, table), owned_tables(snapshot)))


@dataclass(frozen=True, slots=True)
class StableInspection:
    """The heads of a branch compared with one snapshot. `busy`: the tables that a running writer moves."""

    snapshot: Snapshot
    inspections: tuple[TableInspection, ...]
    busy: frozenset[TableId]

    @property
    def drifted(self) -> tuple[TableInspection, ...]:
        """The tables whose head is not the published version, without those of running writes."""
        return tuple(
            inspection
            for inspection in self.inspections
            if inspection.drift.classification is not Classification.NO_DRIFT and inspection.table.id not in self.busy
        )


def inspect_until_stable(
    snapshot: Snapshot, read_pending: Callable[[], tuple[PendingIntent, ...]], environment: WriteEnvironment
) -> StableInspection:
    """Inspect the heads until no moved head can belong to a write that is about to be published.

    A writer writes its intent before it moves a head, and publishes before it removes the intent. So a head has drifted
    if it is ahead, no intent names it, and the manifest has not changed after that.
    """
    name = snapshot.branch.name
    for _ in range(limits.REPAIR_INSPECTIONS_MAX):
        inspections = inspect_heads(snapshot)
        stable = StableInspection(snapshot, inspections, frozenset())
        if not stable.drifted:
            return stable
        live = tuple(intent for intent in read_pending() if intent.state is PendingState.LIVE)
        busy = (inspection.table.id for inspection in stable.drifted if is_in_progress(inspection, live))
        stable = StableInspection(snapshot, inspections, frozenset(busy))
        newest = read_snapshot(snapshot.root, name, storage_format=environment.storage_format)
        if not stable.busy and newest.version == snapshot.version:
            return stable
        snapshot = newest
        environment.clock.sleep(limits.REPAIR_INSPECTION_SECONDS)
    return stable


def is_in_progress(inspection: TableInspection, live: tuple[PendingIntent, ...]) -> bool:
    """Whether the intent of one of these writes names this table."""
    tables = (table for pending in live if pending.intent is not None for table in pending.intent.tables)
    path_and_branch = (inspection.table.path, inspection.table.pin.branch)
    return any((table.path, table.lance_branch) == path_and_branch for table in tables)


def inspect_rows(snapshot: Snapshot, inspection: TableInspection) -> TableInspection:
    """Return the inspection with the rows that publishing changes, and the obstacles to publishing or discarding."""
    head = inspection.head
    if head is None:
        return inspection
    if inspection.drift.classification is Classification.NO_DRIFT:
        return replace(inspection, changes=RowCounts(0, 0, 0))
    published, why_missing = _open_published(head, inspection.table)
    if head.version < inspection.table.pin.version:
        obstacle = why_missing or "its head is below the published version"
        return replace(inspection, obstacles=Obstacles(obstacle, obstacle))
    if inspection.drift.classification is Classification.VERIFIED_MAINTENANCE:
        # Our own changes are undone, which needs the published version.
        obstacles = Obstacles(why_missing if inspection.drift.is_ours else "", why_missing)
        return replace(inspection, changes=RowCounts(0, 0, 0), obstacles=obstacles)
    obstacle = _describe_unfinished_write(snapshot, inspection) or _describe_column_mismatch(
        snapshot, inspection.table, head
    )
    changes: RowCounts | None = None
    try:
        changes = compare_rows(published, head)
        if changes.duplicates:
            obstacle = obstacle or f"{format_count(changes.duplicates, 'row has', 'rows have')} the id of another row"
    except OmnigraphError as error:
        obstacle = obstacle or error.message
    return replace(
        inspection,
        changes=None if published is None else changes,
        obstacles=Obstacles(obstacle, why_missing),
        not_checked=NOT_CHECKED,
    )


def _inspect_head(root: Location, table: TableRecord) -> TableInspection:
    try:
        head = open_dataset(root.child(table.path), branch=table.pin.branch)
        return TableInspection(table=table, head=head, drift=classify_drift(read_history(head, table.pin.version)))
    except OmnigraphError as error:
        unknown = Drift(Classification.UNVERIFIABLE)
        return TableInspection(table=table, head=None, drift=unknown, obstacles=Obstacles(error.message, error.message))


def _open_published(head: Dataset, table: TableRecord) -> tuple[Dataset | None, str]:
    try:
        return head.at_version(table.pin.version), ""
    except OmnigraphError as error:
        return None, f"the published version {table.pin.version} cannot be opened: {error.message}"


def _describe_unfinished_write(snapshot: Snapshot, inspection: TableInspection) -> str:
    """Return the obstacle if publishing would show a part of an unfinished write, or one that recovery undid."""
    for operation in inspection.drift.unpublished:
        recovery = snapshot.manifest.find_recovery(operation)
        state = "never finished" if recovery is None else f"was {recovery.action.replace('_', ' ')} by recovery"
        return f"it has rows of the write {operation}, which {state}"
    return ""


def _describe_column_mismatch(snapshot: Snapshot, table: TableRecord, head: Dataset) -> str:
    """Return how the columns of the head differ from those of the accepted schema; empty if they do not."""
    entity = snapshot.schema.catalog.require_type(table.alias)
    expected, actual = _columns(arrow_schema(entity)), _columns(head.schema)
    missing = [name for name in expected if name not in actual]
    unexpected = [name for name in actual if name not in expected]
    changed = [name for name in expected if name in actual and expected[name] != actual[name]]
    parts = [
        f"{label} {', '.join(names)}"
        for label, names in (("missing", missing), ("unexpected", unexpected), ("changed", changed))
        if names
    ]
    if not parts and list(expected) != list(actual):
        parts = ["different order"]
    return f"its columns do not match the schema: {'; '.join(parts)}" if parts else ""


def _columns(schema: pa.Schema) -> dict[str, object]:
    """Return what repair compares of each column: type, nullability and the metadata of the schema."""
    columns: dict[str, object] = {}
    for column in schema:
        extension = column.type.extension_name if isinstance(column.type, pa.BaseExtensionType) else None
        storage = column.type.storage_type if isinstance(column.type, pa.BaseExtensionType) else column.type
        metadata = dict(column.metadata or {})
        extension = metadata.pop(b"ARROW:extension:name", b"").decode() or extension
        columns[column.name] = (storage, column.nullable, extension, tuple(sorted(metadata.items())))
    return columns
