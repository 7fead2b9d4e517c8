"""Waiting for storage no longer than a query may take.

Comes in: an iterator that may be busy for long before it gives anything, as a scan whose filter nothing passes is. Goes
out: the same items, taken in a thread of their own, while this one watches the time. When the time is over the query
ends at once; the thread ends by itself at its next item, and at the end of the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Final, Generic, TypeVar

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.errors import InvariantError, LimitExceededError, OmnigraphError
from omnigraph.engine.options import EngineOptions


class Budget:
    """What one query may still use."""

    __slots__ = ("_clock", "_deadline", "_held", "_options")

    def __init__(self, options: EngineOptions, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options = options
        self._clock = clock
        self._deadline = clock.monotonic() + options.seconds_max
        self._held = 0

    def hold(self, size: int) -> None:
        """Count bytes that stay until they are released; raise if there are too many."""
        self._held += size
        if self._held > self._options.memory_bytes_max:
            raise _error("memory", "bytes", self._options.memory_bytes_max)

    def release(self, size: int) -> None:
        """Bytes that are held no longer."""
        self._held -= size

    def allow(self, size: int) -> None:
        """Raise if this many bytes more would be too many; they are not counted."""
        self.hold(size)
        self.release(size)

    def tick(self) -> None:
        """Raise if the time is over."""
        if self._clock.monotonic() > self._deadline:
            raise _error("time", "seconds", self._options.seconds_max)


def _error(resource: str, unit: str, limit: float) -> LimitExceededError:
    small = f"{limit:g} bytes" if limit < 1024**2 else f"{limit / 1024**2:.4g} MiB"
    shown = small if unit == "bytes" else f"{limit:g} s"
    flag, member = ("--max-memory", "memory_bytes") if unit == "bytes" else ("--max-seconds", "seconds")
    hint = (
        f"ask for fewer rows with a filter or a limit, or allow more: `{flag}` on the command line, "
        f"`limits=QueryLimits({member}=…)` in Python"
    )
    return LimitExceededError(
        f"the query hit its {resource} budget of {shown}",
        code=f"query_{resource}",
        hint=hint,
        facts={"resource_limit": {"resource": resource, "limit": limit, "unit": unit}},
    )


Item = TypeVar("Item")

_AHEAD: Final = 2


def taken_in_time(items: Iterator[Item], budget: Budget) -> Iterator[Item]:
    """The items; raise as soon as the time of the budget is over."""
    taker = _Taker(items)
    Thread(target=taker.run, name="omnigraph-scan", daemon=True).start()
    try:
        while True:
            try:
                turn = taker.ready.get(timeout=limits.ENGINE_TIMED_POLL_SECONDS)
            except Empty:
                budget.tick()
                continue
            if turn.failure is not None:
                raise turn.failure
            if turn.is_last:
                return
            yield from turn.items
    finally:
        taker.is_unwanted.set()


@dataclass(frozen=True, slots=True)
class _Turn(Generic[Item]):
    """What the thread has to say: an item, its failure, or that there is nothing more."""

    items: tuple[Item, ...] = ()
    failure: OmnigraphError | None = None

    @property
    def is_last(self) -> bool:
        return not self.items


class _Taker(Generic[Item]):
    """Takes the items until nobody wants them."""

    def __init__(self, items: Iterator[Item]) -> None:
        self.ready: Queue[_Turn[Item]] = Queue(_AHEAD)
        self.is_unwanted = Event()
        self._items = items

    def run(self) -> None:
        last: _Turn[Item] = _Turn(
            failure=InvariantError("a scan ended without a word", code="plan_invariant")
        )
        try:
            for item in self._items:
                self._offer(_Turn((item,)))
                if self.is_unwanted.is_set():
                    return
            last = _Turn()
        except OmnigraphError as failure:
            last = _Turn(failure=failure)
        finally:
            self._offer(last)

    def _offer(self, turn: _Turn[Item]) -> None:
        while not self.is_unwanted.is_set():
            try:
                self.ready.put(turn, timeout=limits.ENGINE_TIMED_POLL_SECONDS)
            except Full:
                continue
            return
