"""What each version of a dataset did: the name of its operation, and whose transaction it was.

In: a dataset (main or a branch) and a range of versions. Out: one `TransactionRecord` per version, or a
`TransactionGap` where there is nothing to read. Nothing is guessed: an operation with a number we do not know is
`UNKNOWN`. Lance's own reader is not used, because it raises for a compaction that rewrote an index, and because
it shows ReserveFragments and UpdateBases as the same nameless operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from omnigraph.storage.dataset import Dataset
from omnigraph.storage.transaction_file import read_transaction_bytes
from omnigraph.storage.wire import WireError, read_fields


class Operation(Enum):
    """Every kind of change that Lance can record; the value is the name people see."""

    APPEND = "Append"
    DELETE = "Delete"
    OVERWRITE = "Overwrite"
    CREATE_INDEX = "CreateIndex"
    REWRITE = "Rewrite"
    MERGE = "Merge"
    RESTORE = "Restore"
    RESERVE_FRAGMENTS = "ReserveFragments"
    UPDATE = "Update"
    PROJECT = "Project"
    UPDATE_CONFIG = "UpdateConfig"
    DATA_REPLACEMENT = "DataReplacement"
    UPDATE_MEM_WAL_STATE = "UpdateMemWalState"
    CLONE = "Clone"
    UPDATE_BASES = "UpdateBases"
    DATA_OVERLAY = "DataOverlay"
    UNKNOWN = "Unknown"


OPERATION_OF_FIELD: Final[Mapping[int, Operation]] = MappingProxyType(
    {
        100: Operation.APPEND,
        101: Operation.DELETE,
        102: Operation.OVERWRITE,
        103: Operation.CREATE_INDEX,
        104: Operation.REWRITE,
        105: Operation.MERGE,
        106: Operation.RESTORE,
        107: Operation.RESERVE_FRAGMENTS,
        108: Operation.UPDATE,
        109: Operation.PROJECT,
        110: Operation.UPDATE_CONFIG,
        111: Operation.DATA_REPLACEMENT,
        112: Operation.UPDATE_MEM_WAL_STATE,
        113: Operation.CLONE,
        114: Operation.UPDATE_BASES,
        115: Operation.DATA_OVERLAY,
    }
)
_FIELD_OPERATION_MIN: Final = 100
_FIELD_READ_VERSION: Final = 1
_FIELD_UUID: Final = 2
_FIELD_PROPERTIES: Final = 4
_FIELD_RESTORED_VERSION: Final = 1


class GapReason(Enum):
    """Why a version's transaction cannot be told."""

    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """The transaction that made `version`. `restored_version` is set for a Restore only."""

    version: int
    operation: Operation
    uuid: str
    read_version: int
    properties: Mapping[str, str]
    restored_version: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionGap:
    """A version whose transaction is not there or is damaged."""

    version: int
    reason: GapReason
    detail: str


VersionRecord = TransactionRecord | TransactionGap


def read_operations(dataset: Dataset, after: int, upto: int) -> tuple[VersionRecord, ...]:
    """What each version above `after` up to and including `upto` did, oldest first."""
    return tuple(read_operation(dataset, version) for version in range(after + 1, upto + 1))


def read_operation(dataset: Dataset, version: int) -> VersionRecord:
    """What one version did, read from the store and never from a cache."""
    try:
        message = read_transaction_bytes(dataset, version)
        if message is None:
            return TransactionGap(version, GapReason.MISSING, "the version or its transaction is gone")
        return parse_transaction(version, message)
    except (WireError, UnicodeDecodeError) as damage:
        return TransactionGap(version, GapReason.UNREADABLE, str(damage))


def find_transaction(dataset: Dataset, uuid: str, after: int, upto: int) -> TransactionRecord | None:
    """The version above `after`, up to and including `upto`, that the transaction `uuid` made."""
    for version in range(after + 1, upto + 1):
        match read_operation(dataset, version):
            case TransactionRecord() as record if record.uuid == uuid:
                return record
            case _:
                continue
    return None


def parse_transaction(version: int, message: bytes) -> TransactionRecord:
    """The record in a transaction's protobuf message; raise `WireError` when it is none."""
    uuid, read_version = "", 0
    operation: Operation | None = None
    restored: int | None = None
    properties: dict[str, str] = {}
    for number, value in read_fields(message):
        if number == _FIELD_READ_VERSION and isinstance(value, int):
            read_version = value
        elif number == _FIELD_UUID and isinstance(value, bytes):
            uuid = value.decode()
        elif number == _FIELD_PROPERTIES and isinstance(value, bytes):
            properties.update([_parse_property(value)])
        elif number >= _FIELD_OPERATION_MIN and isinstance(value, bytes):
            operation = OPERATION_OF_FIELD.get(number, Operation.UNKNOWN)
            restored = _parse_restored(value) if operation is Operation.RESTORE else None
    if operation is None or not uuid:
        raise WireError("the transaction has no operation or no uuid")
    return TransactionRecord(version, operation, uuid, read_version, MappingProxyType(properties), restored)


def _parse_property(entry: bytes) -> tuple[str, str]:
    texts = {number: value.decode() for number, value in read_fields(entry) if isinstance(value, bytes)}
    return texts.get(1, ""), texts.get(2, "")


def _parse_restored(body: bytes) -> int:
    found = [value for number, value in read_fields(body) if number == _FIELD_RESTORED_VERSION]
    if len(found) != 1 or not isinstance(found[0], int):
        raise WireError("the Restore does not say which version")
    return found[0]
