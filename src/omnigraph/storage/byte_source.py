"""The bytes of one plain file or object, read from any position, for input files of a load.

In: a location. Out: pieces of its bytes, straight from disk or by ranged requests, or a file that Arrow reads in.
Nothing is cached and nothing is written.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import obstore
import pyarrow as pa

from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import open_s3_store


def read_bytes(location: Location, start: int, length: int) -> bytes:
    """Up to `length` bytes from `start`; fewer at the end of the file, none behind it."""
    with substrate_errors("read the file", location.uri):
        if location.scheme is Scheme.LOCAL:
            with Path(location.uri).open("rb") as file:
                file.seek(start)
                return file.read(length)
        folder, _, name = location.uri.rpartition("/")
        store = open_s3_store(Location(location.scheme, folder, location.options))
        return bytes(obstore.get_range(store, name, start=start, length=length))


def open_bytes(location: Location, size: int) -> pa.NativeFile:
    """The whole of it as a file that Arrow's readers take and may jump in; `size` is what was listed."""
    with substrate_errors("read the file", location.uri):
        if location.scheme is Scheme.LOCAL:
            return pa.OSFile(location.uri, "rb")
        return pa.PythonFile(_Reader(location, size), mode="r")


class _Reader(io.RawIOBase):
    """A file whose every read is a request of its own."""

    def __init__(self, location: Location, size: int) -> None:
        super().__init__()
        self._location = location
        self._size = size
        self._at = 0

    def read(self, length: int = -1) -> bytes:
        left = self._size - self._at
        wanted = left if length < 0 else min(length, left)
        data = read_bytes(self._location, self._at, wanted) if wanted > 0 else b""
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = origin + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
