"""What is kept between queries: decoded columns, lookups, adjacency, open datasets, facts. Bounded by bytes.

Keys name a published version, which never changes, so an entry is never stale. The least recently used entries leave
first. Nothing here is ever written to storage; a crash loses only time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, TypeVar

from omnigraph.base.limits import ENGINE_CACHE_BYTES

Found = TypeVar("Found")

_TOUCHED_MAX: Final = 10_000


class Cache:
    """Entries by key, within a number of bytes. Safe to use from several threads."""

    def __init__(self, bytes_max: int = ENGINE_CACHE_BYTES) -> None:
        self.bytes_max = bytes_max
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._touched: OrderedDict[Hashable, int] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """What the entries hold together."""
        return self._bytes

    def get(self, key: Hashable, kind: type[Found]) -> Found | None:
        """The entry of a key, which is of this kind."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
        value = entry[0]
        assert isinstance(value, kind), f"an entry is a {type(value).__name__}"
        return value

    def put(self, key: Hashable, value: object, size: int) -> None:
        """Keep an entry, at the cost of older ones; one that is larger than the cache is not kept."""
        with self._lock:
            before = self._entries.pop(key, None)
            self._bytes -= before[1] if before else 0
            if size > self.bytes_max:
                return
            self._entries[key] = (value, size)
            self._bytes += size
            while self._bytes > self.bytes_max:
                _, (_, freed) = self._entries.popitem(last=False)
                self._bytes -= freed

    def get_or_make(self, key: Hashable, kind: type[Found], make: Callable[[], Found], size: int) -> Found:
        """The entry of a key, made if it is not there. Two threads may both make one; either is right."""
        found = self.get(key, kind)
        if found is None:
            found = make()
            self.put(key, found, size)
        return found

    def touch(self, key: Hashable) -> int:
        """How often this was asked for before, of the things that were asked for lately."""
        with self._lock:
            count = self._touched.pop(key, 0)
            self._touched[key] = count + 1
            if len(self._touched) > _TOUCHED_MAX:
                self._touched.popitem(last=False)
        return count


SHARED_CACHE: Final = Cache()
"""The cache of this process."""
