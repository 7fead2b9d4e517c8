"""The bytes of one plain file or object, read from any position, for input files of a load.

In: a location. Out: pieces of its bytes, straight from disk or by ranged requests. Nothing is cached and
nothing is written.
"""

from __future__ import annotations

from pathlib import Path

import obstore

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
