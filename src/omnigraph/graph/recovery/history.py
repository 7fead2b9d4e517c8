"""What happened to a table above a published version, told from its Lance transactions. Pure over their records.

Every commit of ours carries `omnigraph:op`; a version without it is foreign, unless a loose intent allows its
operation. A Restore makes a version's content equal an older one, so content is followed through Restores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.base.ids import OperationId
from omnigraph.storage.lance.transactions import Operation, TransactionRecord, VersionRecord

OPERATION_PROPERTY: Final = "omnigraph:op"
COMMIT_PROPERTY: Final = "omnigraph:commit"
KIND_PROPERTY: Final = "omnigraph:kind"


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The versions above `base` up to `head`, oldest first."""

    base: int
    head: int
    records: tuple[VersionRecord, ...]

    def find_uuid(self, uuid: str) -> int | None:
        """The version that a transaction made, if it is here."""
        return next((r.version for r in self._readable() if r.uuid == uuid), None)

    def foreign_above(self, version: int) -> bool:
        """Whether anything above `version` is not ours."""
        return any(r.version > version and not _is_ours(r) for r in self.records)

    def restored_by(self, operation: OperationId, above: int) -> bool:
        """Whether a Restore of this operation lies above `version`."""
        return any(
            r.version > above and r.operation is Operation.RESTORE and _operation_of(r) == operation
            for r in self._readable()
        )

    def only(self, allowed: frozenset[Operation], operation: OperationId) -> bool:
        """Whether every version is an allowed operation, or a Restore by this very operation."""
        return all(
            isinstance(r, TransactionRecord) and (r.operation in allowed or _operation_of(r) == operation)
            for r in self.records
        )

    def last_of(self, allowed: frozenset[Operation], operation: OperationId) -> int | None:
        """The highest version that this very write marked, Restores aside, or that one of these made without a mark."""
        return max((r.version for r in self._readable() if _is_of(r, allowed, operation)), default=None)

    def content_of(self, version: int) -> int:
        """The version whose content `version` has, following Restores down; `base` and below are themselves."""
        restores = {
            r.version: r.restored_version for r in self._readable() if r.operation is Operation.RESTORE
        }
        seen = version
        for _ in range(len(self.records) + 1):
            target = restores.get(seen)
            if target is None or target == seen:
                return seen
            seen = target
        return seen

    def _readable(self) -> tuple[TransactionRecord, ...]:
        return tuple(r for r in self.records if isinstance(r, TransactionRecord))


def operation_properties(operation: str, commit: str, kind: str) -> Mapping[str, str]:
    """The properties that every Lance transaction of ours carries."""
    return {OPERATION_PROPERTY: operation, COMMIT_PROPERTY: commit, KIND_PROPERTY: kind}


def _is_of(record: TransactionRecord, allowed: frozenset[Operation], operation: OperationId) -> bool:
    by = _operation_of(record)
    if by is None:
        return record.operation in allowed
    return by == operation and record.operation is not Operation.RESTORE


def _operation_of(record: TransactionRecord) -> str | None:
    return record.properties.get(OPERATION_PROPERTY)


def _is_ours(record: VersionRecord) -> bool:
    return isinstance(record, TransactionRecord) and OPERATION_PROPERTY in record.properties
