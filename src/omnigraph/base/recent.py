"""A bounded map that forgets the entry that was not used for the longest time. Threads may share it.

A forked process starts with an empty one: handles of native libraries that the parent opened do not work there.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class RecentValues(Generic[Key, Value]):
    """The values that were used last, at most `values_max`."""

    def __init__(self, values_max: int) -> None:
        self._values_max = values_max
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget_parent)

    def find(self, key: Key) -> Value | None:
        """Return the value of a key; None if it has none or was forgotten."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Key, value: Value) -> None:
        """Set the value of a key; forget the oldest value if there are too many."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._values_max:
                self._values.popitem(last=False)

    def forget(self, is_forgotten: Callable[[Key], bool]) -> None:
        """Drop the values of the keys for which the function returns True."""
        with self._lock:
            for key in [key for key in self._values if is_forgotten(key)]:
                del self._values[key]

    def _forget_parent(self) -> None:
        self._lock = threading.Lock()
        self._values = OrderedDict()
