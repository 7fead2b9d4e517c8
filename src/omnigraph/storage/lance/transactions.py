"""What each version of a dataset did: the name of its operation, and whose transaction it was.

In: a dataset (main or a branch) and a range of versions. Out: one `TransactionRecord` per version, or a
`TransactionGap` where there is nothing to read. Nothing is guessed: an operation with a number we do not know is
`UNKNOWN`. Lance's own reader is not used, because it raises for a compaction that rewrote an index, and because
it shows ReserveFragments and UpdateBases as the same nameless operation.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Final

import obstore
from lance.file import LanceFileSession

from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.lance.dataset import Dataset, branch_location
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import open_s3_store, refuse_missing_bucket

_VARINT_BYTES_MAX: Final = 10


class WireError(ValueError):
    """The bytes are no protobuf message."""


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Each field's number and value in order: an int for a varint, bytes for the rest."""
    at, size = 0, len(message)
    while at < size:
        tag = message[at]
        at += 1
        if tag > 127:
            tag, at = _read_varint(message, at - 1)
        kind = tag & 7
        if kind == 0:
            value, at = _read_varint(message, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            length, at = _read_varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise WireError(f"field type {kind} before byte {at}")
        end = at + length
        if end > size:
            raise WireError(f"{length} bytes expected at byte {at}, {size - at} are left")
        yield tag >> 3, message[at:end]
        at = end


def text_field(number: int, text: str) -> bytes:
    """A field with a text, as it is in a message."""
    return bytes_field(number, text.encode())


def bytes_field(number: int, data: bytes) -> bytes:
    """A field with bytes or with a message, as it is in a message."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    """A field with a number, as it stands in a message; negative ones take ten bytes."""
    return _varint(number << 3) + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in message[at : at + _VARINT_BYTES_MAX]:
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise WireError(f"no end of the number before byte {at}")


_TAIL_BYTES: Final = 64 * 1024
_FOOTER: Final = struct.Struct("<QHH4s")
_LENGTH: Final = struct.Struct("<I")
_MAGIC: Final = b"LANC"
_VERSION_MAX: Final = 2**64 - 1
_FIELD_TRANSACTION_FILE: Final = 12
_FIELD_TRANSACTION_SECTION: Final = 23


def read_transaction_bytes(dataset: Dataset, version: int) -> bytes | None:
    """The protobuf message of the transaction of `version`; None when the version or its transaction is gone.

    Raises `WireError` when the file is damaged, and our storage errors when the store does not answer.
    """
    files = _Files(branch_location(dataset.location, dataset.branch))
    for path in (f"_versions/{_VERSION_MAX - version:020d}.manifest", f"_versions/{version}.manifest"):
        tail = files.read_tail(path)
        if tail is not None:
            return _transaction_of(files, path, tail)
    return None


@dataclass(frozen=True, slots=True)
class _Tail:
    """The last bytes of a file, or all of it when it is short."""

    data: bytes
    size: int

    @property
    def start(self) -> int:
        return self.size - len(self.data)


def _transaction_of(files: _Files, path: str, tail: _Tail) -> bytes | None:
    if len(tail.data) < _FOOTER.size:
        raise WireError(f"{path} has only {tail.size} bytes")
    position, _, _, magic = _FOOTER.unpack(tail.data[-_FOOTER.size :])
    if magic != _MAGIC:
        raise WireError(f"{path} does not end like a Lance manifest")
    message = _section(files, path, tail, position)
    section: int | None = None
    name = ""
    for number, value in read_fields(message):
        if number == _FIELD_TRANSACTION_SECTION and isinstance(value, int):
            section = value
        elif number == _FIELD_TRANSACTION_FILE and isinstance(value, bytes):
            name = value.decode()
    if section is not None:
        return _section(files, path, tail, section)
    found = files.read_tail(f"_transactions/{name}", whole=True) if name else None
    return found.data if found else None


def _section(files: _Files, path: str, tail: _Tail, position: int) -> bytes:
    """The length-prefixed message at `position`."""
    if position < tail.start:
        whole = files.read_tail(path, whole=True)
        if whole is None:
            raise WireError(f"{path} vanished while it was read")
        tail = whole
    at = position - tail.start
    if at + _LENGTH.size > len(tail.data):
        raise WireError(f"{path} points beyond its end")
    (length,) = _LENGTH.unpack_from(tail.data, at)
    start = at + _LENGTH.size
    if start + length > len(tail.data):
        raise WireError(f"{path} is cut off")
    return tail.data[start : start + length]


class _Files:
    """The files below one dataset or branch."""

    def __init__(self, place: Location) -> None:
        self._place = place

    def read_tail(self, path: str, *, whole: bool = False) -> _Tail | None:
        """The end of a file, or all of it; None when there is none."""
        with substrate_errors("read a version", f"{self._place.uri}/{path}"):
            match self._place.scheme:
                case Scheme.LOCAL:
                    data = _read_local(Path(self._place.uri, path))
                case Scheme.S3:
                    return self._get(path, whole=whole)
                case Scheme.MEMORY:
                    data = self._download(path)
        return None if data is None else _Tail(data, len(data))

    def _get(self, path: str, *, whole: bool) -> _Tail | None:
        options: obstore.GetOptions = {} if whole else {"range": {"suffix": _TAIL_BYTES}}
        try:
            found = obstore.get(open_s3_store(self._place), path, options=options)
        except FileNotFoundError as missing:
            refuse_missing_bucket(missing)
            return None
        return _Tail(bytes(found.bytes()), found.meta["size"])

    def _download(self, path: str) -> bytes | None:
        session = LanceFileSession(self._place.lance_uri)
        if not session.contains(path):
            return None
        with tempfile.NamedTemporaryFile() as copy:
            session.download_file(path, copy.name)
            return Path(copy.name).read_bytes()


def _read_local(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


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
