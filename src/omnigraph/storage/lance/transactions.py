"""Reads the transactions of versions: the operation of each version, its uuid and its properties.

In: a dataset (main or a branch) and a range of versions. Out: one `TransactionRecord` per version, or a
`TransactionGap` where a transaction is missing or damaged. An operation with an unknown number is `UNKNOWN`. Lance's
own reader is not used, because it raises for a compaction that rewrote an index, and because it shows ReserveFragments
and UpdateBases as the same unnamed operation. Version files and transaction files are read from the store and parsed
here, never from Lance's cache. Nothing here writes.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Final

import obstore
from lance.file import LanceFileSession

from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import version_file
from omnigraph.storage.lance.protobuf import ProtobufError, parse_fields
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import open_s3_store, require_bucket

_FIELD_OPERATION_MIN: Final = 100
_FIELD_READ_VERSION: Final = 1
_FIELD_UUID: Final = 2
_FIELD_PROPERTIES: Final = 4
_FIELD_RESTORED_VERSION: Final = 1
_TAIL_BYTES: Final = 64 * 1024
_FOOTER: Final = struct.Struct("<QHH4s")
_LENGTH: Final = struct.Struct("<I")
_MAGIC: Final = b"LANC"
_FIELD_TRANSACTION_FILE: Final = 12
_FIELD_TRANSACTION_SECTION: Final = 23


class Operation(Enum):
    """Every kind of change that Lance can record, in the order of their protobuf fields; the value is its name."""

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


_OPERATION_OF_FIELD: Final = dict(enumerate(Operation, _FIELD_OPERATION_MIN))


class GapReason(Enum):
    """Why the transaction of a version cannot be read."""

    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """The transaction that created `version`. `restored_version` is set only for a Restore."""

    version: int
    operation: Operation
    uuid: str
    read_version: int
    properties: Mapping[str, str]
    restored_version: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionGap:
    """A version whose transaction is missing or damaged."""

    version: int
    reason: GapReason
    detail: str


VersionRecord = TransactionRecord | TransactionGap


def read_operations(dataset: Dataset, after: int, upto: int) -> tuple[VersionRecord, ...]:
    """Read the transaction of each version above `after` up to and including `upto`, oldest first."""
    return tuple(read_operation(dataset, version) for version in range(after + 1, upto + 1))


def read_operation(dataset: Dataset, version: int) -> VersionRecord:
    """Read the transaction of one version from the store, never from a cache."""
    try:
        message = read_transaction_bytes(dataset, version)
        if message is None:
            return TransactionGap(version, GapReason.MISSING, "the version or its transaction was deleted")
        return parse_transaction(version, message)
    except (ProtobufError, UnicodeDecodeError) as damage:
        return TransactionGap(version, GapReason.UNREADABLE, str(damage))


def find_transaction(dataset: Dataset, uuid: str, after: int, upto: int) -> TransactionRecord | None:
    """Return the version above `after`, up to and including `upto`, that the transaction `uuid` created."""
    for version in range(after + 1, upto + 1):
        record = read_operation(dataset, version)
        if isinstance(record, TransactionRecord) and record.uuid == uuid:
            return record
    return None


def parse_transaction(version: int, message: bytes) -> TransactionRecord:
    """Parse a transaction's protobuf message; raise `ProtobufError` if it is not valid."""
    uuid, read_version = "", 0
    operation: Operation | None = None
    restored: int | None = None
    properties: dict[str, str] = {}
    for number, value in parse_fields(message):
        if number == _FIELD_READ_VERSION and isinstance(value, int):
            read_version = value
        elif number == _FIELD_UUID and isinstance(value, bytes):
            uuid = value.decode()
        elif number == _FIELD_PROPERTIES and isinstance(value, bytes):
            properties.update([_parse_property(value)])
        elif number >= _FIELD_OPERATION_MIN and isinstance(value, bytes):
            operation = _OPERATION_OF_FIELD.get(number, Operation.UNKNOWN)
            restored = _parse_restored(value) if operation is Operation.RESTORE else None
    if operation is None or not uuid:
        raise ProtobufError("the transaction has no operation or no uuid")
    return TransactionRecord(
        version=version,
        operation=operation,
        uuid=uuid,
        read_version=read_version,
        properties=MappingProxyType(properties),
        restored_version=restored,
    )


def _parse_property(entry: bytes) -> tuple[str, str]:
    texts = {number: value.decode() for number, value in parse_fields(entry) if isinstance(value, bytes)}
    return texts.get(1, ""), texts.get(2, "")


def _parse_restored(body: bytes) -> int:
    versions = [value for number, value in parse_fields(body) if number == _FIELD_RESTORED_VERSION]
    if len(versions) != 1 or not isinstance(versions[0], int):
        raise ProtobufError("the Restore has no version")
    return versions[0]


def read_transaction_bytes(dataset: Dataset, version: int) -> bytes | None:
    """Read the protobuf message of the transaction of `version`; None if the version or its transaction was deleted.

    Raises `ProtobufError` if the file is damaged, and a storage error if the store does not answer.
    """
    for path in (version_file(version), f"_versions/{version}.manifest"):
        tail = _read_tail(dataset.directory, path)
        if tail is not None:
            return _transaction_of(dataset.directory, path, tail)
    return None


@dataclass(frozen=True, slots=True)
class _Tail:
    """The last bytes of a file, or all bytes of a short one."""

    data: bytes
    size: int

    @property
    def start(self) -> int:
        return self.size - len(self.data)


def _transaction_of(directory: Location, path: str, tail: _Tail) -> bytes | None:
    if len(tail.data) < _FOOTER.size:
        raise ProtobufError(f"{path} is truncated: expected at least {_FOOTER.size} bytes, got {tail.size}")
    position, _, _, magic = _FOOTER.unpack(tail.data[-_FOOTER.size :])
    if magic != _MAGIC:
        raise ProtobufError(f"{path} is not a Lance manifest")
    message = _read_section(directory, path, tail, position)
    section: int | None = None
    name = ""
    for number, value in parse_fields(message):
        if number == _FIELD_TRANSACTION_SECTION and isinstance(value, int):
            section = value
        elif number == _FIELD_TRANSACTION_FILE and isinstance(value, bytes):
            name = value.decode()
    if section is not None:
        return _read_section(directory, path, tail, section)
    transaction_file = _read_tail(directory, f"_transactions/{name}", whole=True) if name else None
    return transaction_file.data if transaction_file else None


def _read_section(directory: Location, path: str, tail: _Tail, position: int) -> bytes:
    """Read the length-prefixed message at `position`."""
    if position < tail.start:
        whole = _read_tail(directory, path, whole=True)
        if whole is None:
            raise ProtobufError(f"{path} was deleted while it was read")
        tail = whole
    offset = position - tail.start
    if offset + _LENGTH.size > len(tail.data):
        raise ProtobufError(f"{path} refers to bytes beyond its end")
    (length,) = _LENGTH.unpack_from(tail.data, offset)
    start = offset + _LENGTH.size
    if start + length > len(tail.data):
        raise ProtobufError(f"{path} is truncated")
    return tail.data[start : start + length]


def _read_tail(directory: Location, path: str, *, whole: bool = False) -> _Tail | None:
    """Read the end of a file, or the whole file; None if it does not exist."""
    with translate_errors("read a version", f"{directory.uri}/{path}"):
        try:
            match directory.scheme:
                case Scheme.LOCAL:
                    data = Path(directory.uri, path).read_bytes()
                case Scheme.S3:
                    options: obstore.GetOptions = {} if whole else {"range": {"suffix": _TAIL_BYTES}}
                    result = obstore.get(open_s3_store(directory), path, options=options)
                    return _Tail(bytes(result.bytes()), result.meta["size"])
                case Scheme.MEMORY:
                    session = LanceFileSession(directory.lance_uri)
                    if not session.contains(path):
                        return None
                    with tempfile.NamedTemporaryFile() as copy:
                        session.download_file(path, copy.name)
                        data = Path(copy.name).read_bytes()
        except FileNotFoundError as missing:
            require_bucket(missing)
            return None
    return _Tail(data, len(data))
