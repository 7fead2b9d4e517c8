"""Announces every durable storage call, so that tests can count them or die at one of them.

`announce` runs right before the call changes anything. With no observer it costs one empty loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Observer = Callable[[str, str], None]

_observers: list[Observer] = []


def announce(effect: str, target: str) -> None:
    """Tell the observers that `effect` is about to happen to `target`."""
    for observer in _observers:
        observer(effect, target)


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Have `observer` told of every durable call within the block, in this process."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)
