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
from omnigraph.base.errors import InvariantError, OmnigraphError
from omnigraph.engine.budget import Budget

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
