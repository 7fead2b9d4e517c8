"""The history of a table above a published version, from its Lance transactions. Pure over their records.

Every commit of Omnigraph has the property `omnigraph:op`. A version without it is external, unless the intent allows
Lance to commit that operation by itself. A Restore makes the content of a version equal to that of an older one, so
the content of a version is found by following Restores.
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
        """Return the version that a transaction made, if it is here."""
        return next((record.version for record in self._readable() if record.uuid == uuid), None)

    def has_external_above(self, version: int) -> bool:
        """Return whether a version above `version` is not ours."""
        return any(record.version > version and not _is_ours(record) for record in self.records)

    def has_restore_by(self, operation: OperationId, above: int) -> bool:
        """Return whether a Restore by this operation is above a version."""
        return any(
            record.version > above and record.operation is Operation.RESTORE and _operation_of(record) == operation
            for record in self._readable()
        )

    def has_only(self, allowed: frozenset[Operation], operation: OperationId) -> bool:
        """Return whether every version is an allowed operation, or a commit of this operation."""
        return all(
            isinstance(record, TransactionRecord)
            and (record.operation in allowed or _operation_of(record) == operation)
            for record in self.records
        )

    def last_version_by(self, allowed: frozenset[Operation], operation: OperationId) -> int | None:
        """Return the highest version that this operation committed, Restores excluded.

        An allowed operation without our properties counts as well.
        """
        return max((record.version for record in self._readable() if _is_of(record, allowed, operation)), default=None)

    def content_version(self, version: int) -> int:
        """Return the version whose content `version` has, by following Restores; `base` and below are themselves."""
        restores = {
            record.version: record.restored_version
            for record in self._readable()
            if record.operation is Operation.RESTORE
        }
        current = version
        for _ in range(len(self.records) + 1):
            target = restores.get(current)
            if target is None or target == current:
                return current
            current = target
        return current

    def _readable(self) -> tuple[TransactionRecord, ...]:
        return tuple(record for record in self.records if isinstance(record, TransactionRecord))


def operation_properties(operation: str, commit: str, kind: str) -> Mapping[str, str]:
    """Return the properties of every Lance transaction that Omnigraph commits."""
    return {OPERATION_PROPERTY: operation, COMMIT_PROPERTY: commit, KIND_PROPERTY: kind}


def _is_of(record: TransactionRecord, allowed: frozenset[Operation], operation: OperationId) -> bool:
    owner = _operation_of(record)
    if owner is None:
        return record.operation in allowed
    return owner == operation and record.operation is not Operation.RESTORE


def _operation_of(record: TransactionRecord) -> str | None:
    return record.properties.get(OPERATION_PROPERTY)


def _is_ours(record: VersionRecord) -> bool:
    return isinstance(record, TransactionRecord) and OPERATION_PROPERTY in record.properties
