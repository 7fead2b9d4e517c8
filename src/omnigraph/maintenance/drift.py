"""What lies between a table's published version and its head, judged from the transactions alone. Pure.

In: the history of a table above its pin. Out: a classification with the names of the specification, the operations in
their order, and what of ours is among them. Our own fences change nothing, so they are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from omnigraph.base.ids import OperationId
from omnigraph.graph.recovery.history import OPERATION_PROPERTY, TableHistory
from omnigraph.storage.operations import Operation, TransactionGap, TransactionRecord, VersionRecord

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
