"""The bytes of the transaction that made one version of a dataset.

Lance writes a transaction twice: inline in the version's manifest file, and as a file of its own. The manifest is
asked first, since the other file may be gone. A manifest file ends with a footer that says where its message
starts; the message says where the inline transaction starts and what the other file is called. Every read goes
to the store, past Lance's caches, so that what is found is what others will find.
"""

from __future__ import annotations

import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import obstore
from lance.file import LanceFileSession

from omnigraph.storage.dataset import Dataset, branch_location
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import open_s3_store, refuse_missing_bucket
from omnigraph.storage.wire import WireError, read_fields

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
