"""The memory and the time that one query may use.

In: `EngineOptions`, and iterators over storage that may block for a long time. Out: a `Budget` that raises `RunError`
when a limit is reached, and the items of an iterator, read by a second thread while this one checks the time. After the
deadline the query ends immediately; the thread ends at its next item, at the latest with the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, Final, TypeVar

import pyarrow as pa

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.errors import InvariantError, LimitExceededError, OmnigraphError, ResourceLimit, RunError
from omnigraph.base.hints import Argument, Placeholder, hint
from omnigraph.engine.options import EngineOptions

Item = TypeVar("Item")
Part = TypeVar("Part", bound="pa.RecordBatch | pa.Array[Any]")


class Budget:
    """The memory and the time that a query has left."""

    __slots__ = ("_clock", "_deadline", "_options", "_reserved_bytes")

    def __init__(self, options: EngineOptions, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options = options
        self._clock = clock
        self._deadline = clock.monotonic() + options.seconds_max
        self._reserved_bytes = 0

    def reserve(self, size: int) -> None:
        """Count bytes until they are released; raise above the limit."""
        self._reserved_bytes += size
        if self._reserved_bytes > self._options.memory_bytes_max:
            limit = self._options.memory_bytes_max
            shown = f"{limit:g} bytes" if limit < 1024**2 else f"{limit / 1024**2:.4g} MiB"
            raise _limit_error("memory", "bytes", limit, shown, Argument("memory_bytes", Placeholder("MIB")))

    def release(self, size: int) -> None:
        """Stop counting bytes."""
        self._reserved_bytes -= size

    def require_bytes(self, size: int) -> None:
        """Raise if this many bytes more exceed the limit; do not count them."""
        self.reserve(size)
        self.release(size)

    def has_bytes(self, size: int) -> bool:
        """Return whether this many bytes more are within the limit."""
        return self._reserved_bytes + size <= self._options.memory_bytes_max

    def collect(self, parts: Iterable[Part]) -> list[Part]:
        """Return all parts (batches or arrays); raise if their bytes together exceed the limit."""
        collected, size = [], 0
        for part in parts:
            collected.append(part)
            size += part.nbytes
            self.require_bytes(size)
        return collected

    def require_time(self) -> None:
        """Raise after the deadline, and if another thread cancelled the query."""
        if self._options.cancelled is not None and self._options.cancelled.is_set():
            raise RunError("the query was cancelled", code="query_cancelled")
        if self._clock.monotonic() > self._deadline:
            limit = self._options.seconds_max
            raise _limit_error("time", "seconds", limit, f"{limit:g} s", Argument("seconds", Placeholder("SECONDS")))


def _limit_error(resource: str, unit: str, limit: float, shown: str, argument: Argument) -> LimitExceededError:
    return LimitExceededError(
        f"the query reached its {resource} limit of {shown}",
        code=f"query_{resource}",
        hint=hint("Return fewer rows with a filter or a `limit`, or raise the limit with {}.", argument),
        facts=ResourceLimit(resource, limit, unit).facts(),
    )


_PREFETCHED_MAX: Final = 2


def iterate_until_deadline(items: Iterator[Item], budget: Budget) -> Iterator[Item]:
    """Yield the items; raise as soon as the time of the budget has expired."""
    # A message is a tuple of one item, the error of the iterator, or None at the end.
    messages: Queue[tuple[Item] | OmnigraphError | None] = Queue(_PREFETCHED_MAX)
    is_cancelled = Event()

    def put(message: tuple[Item] | OmnigraphError | None) -> None:
        while not is_cancelled.is_set():
            try:
                messages.put(message, timeout=limits.ENGINE_TIMED_POLL_SECONDS)
            except Full:
                continue
            return

    def read_items() -> None:
        last: OmnigraphError | None = InvariantError("a scan ended with an unexpected exception", code="plan_invariant")
        try:
            for item in items:
                put((item,))
                if is_cancelled.is_set():
                    return
            last = None
        except OmnigraphError as error:
            last = error
        finally:
            put(last)

    Thread(target=read_items, name="omnigraph-scan", daemon=True).start()
    try:
        while True:
            try:
                message = messages.get(timeout=limits.ENGINE_TIMED_POLL_SECONDS)
            except Empty:
                budget.require_time()
                continue
            if message is None:
                return
            if isinstance(message, OmnigraphError):
                raise message
            yield message[0]
    finally:
        is_cancelled.set()
