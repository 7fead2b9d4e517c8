"""The cache between queries: decoded columns, adjacency, open datasets, facts. Bounded by bytes and by number.

The first part of a key is a published version of a table, with the identity of its branch. A published version never
changes, so an entry is never stale. The least recently used entries are removed first. A few versions of each table
are kept, and a bounded number of all tables, because each has an open dataset: a table that is written to often must
not fill the memory with its earlier versions. The cache is never written to storage; a crash loses only time.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from omnigraph.base import limits
from omnigraph.graph.manifest.identity import BranchIdentity

Entry = TypeVar("Entry")

_TOUCHED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class TableKey:
    """A published version of a table: the first part of each key.

    `identity` is that of the branch that published it; another graph at the same location has another identity.
    """

    identity: BranchIdentity
    table: str
    branch: str | None
    version: int


Key = tuple[TableKey, *tuple[Hashable, ...]]
"""A version of a table, and the name of the entry."""


class Cache:
    """Entries by key, within a number of bytes and of table versions. Safe to use from several threads."""

    def __init__(
        self,
        bytes_max: int = limits.ENGINE_CACHE_BYTES,
        *,
        tables_max: int = limits.ENGINE_CACHE_TABLES_MAX,
        versions_max: int = limits.ENGINE_CACHE_VERSIONS_MAX,
    ) -> None:
        self.bytes_max = bytes_max
        self._tables_max = tables_max
        self._versions_max = versions_max
        self.forget_all()

    def forget_all(self) -> None:
        """Remove every entry, also while another thread holds the lock: a forked process has only one thread.

        The datasets that its parent opened do not work there.
        """
        self._entries: OrderedDict[Key, tuple[object, int]] = OrderedDict()
        self._keys: OrderedDict[TableKey, set[Key]] = OrderedDict()
        self._touched: OrderedDict[Hashable, int] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """The bytes of all entries."""
        return self._bytes

    @property
    def tables(self) -> tuple[TableKey, ...]:
        """The table versions with entries, the least recently used first."""
        with self._lock:
            return tuple(self._keys)

    def get(self, key: Key, kind: type[Entry]) -> Entry | None:
        """Return the entry of a key, which has this type, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            self._keys.move_to_end(key[0])
        value = entry[0]
        assert isinstance(value, kind), f"expected an entry of type {kind.__name__}, got {type(value).__name__}"
        return value

    def put(self, key: Key, value: object, size: int) -> None:
        """Add an entry and evict older ones; skip an entry that is larger than the cache."""
        with self._lock:
            if key in self._entries:
                self._remove(key)
            if size > self.bytes_max:
                return
            self._entries[key] = (value, size)
            self._bytes += size
            if key[0] not in self._keys:
                self._evict_for(key[0])
            self._keys.setdefault(key[0], set()).add(key)
            self._keys.move_to_end(key[0])
            while self._bytes > self.bytes_max:
                self._remove(next(iter(self._entries)))

    def _evict_for(self, table: TableKey) -> None:
        """Remove all entries of the least recently used version where a new version would exceed a maximum."""
        versions = [key for key in self._keys if replace(key, version=table.version) == table]
        if len(versions) >= self._versions_max:
            evicted = versions[0]
        elif len(self._keys) >= self._tables_max:
            evicted = next(iter(self._keys))
        else:
            return
        for key in list(self._keys[evicted]):
            self._remove(key)

    def _remove(self, key: Key) -> None:
        _, size = self._entries.pop(key)
        self._bytes -= size
        keys = self._keys[key[0]]
        keys.remove(key)
        if not keys:
            del self._keys[key[0]]

    def touch(self, key: Hashable) -> int:
        """Return how often this key was requested before, as far as recent keys are remembered."""
        with self._lock:
            count = self._touched.pop(key, 0)
            self._touched[key] = count + 1
            if len(self._touched) > _TOUCHED_MAX:
                self._touched.popitem(last=False)
        return count


SHARED_CACHE: Final = Cache()
"""The cache of this process."""
os.register_at_fork(after_in_child=SHARED_CACHE.forget_all)
