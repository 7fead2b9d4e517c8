"""Writers of one process that wait for the lease of the same branch share it, in turns (decision 0020).

In: a branch and the terms of a lease. Out: the held lease, for one write. The writers form a queue; each hands the
lease to the next one when its write has ended, also by an error or Ctrl-C. The lease is released when the queue is
empty or the group is too old, so that other processes get their turn. `decide_handover` decides; it is pure. A crash
leaves an epoch whose process has ended, as without a group.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from omnigraph.base import limits
from omnigraph.base.ids import BranchId
from omnigraph.graph.coordination.lease import Lease, LeaseLostError, LeaseTerms, acquire_lease, lease_busy
from omnigraph.graph.manifest.layout import lock_directory
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

_STALE_POLL_SECONDS: Final = 0.5


class Handover(Enum):
    """What a writer does with the lease of its group when its turn ends."""

    PASS_ON = "pass_on"
    """The next writer uses the lease."""
    RELEASE = "release"
    """No writer waits."""
    YIELD = "yield"
    """Release it. The next writer first gives other processes the time to take it."""
    DROP = "drop"
    """There is no lease, or it is lost. The next writer takes a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """The lease of a group at the end of a turn, its age, and the number of writers that wait."""

    is_held: bool
    age_seconds: float
    waiting: int


def decide_handover(facts: GroupFacts) -> Handover:
    """Return what happens to the lease at the end of a turn. Pure."""
    if not facts.is_held:
        return Handover.DROP
    if not facts.waiting:
        return Handover.RELEASE
    return Handover.YIELD if facts.age_seconds >= limits.LEASE_GROUP_SECONDS_MAX else Handover.PASS_ON


@contextmanager
def share_lease(store: ObjectStore, branch: BranchId, purpose: str, terms: LeaseTerms) -> Iterator[Lease]:
    """Wait for the turn of this writer and hold the lease of the branch for the block.

    Writers of this process with the same terms share the lease. Every other process waits for its release.
    """
    turn = _Turn()
    try:
        group = _join(_GroupKey(store.location, lock_directory(branch)), terms, turn)
        wait_seconds = terms.wait_seconds if turn.ready.is_set() else _wait_for_turn(group, turn)
        yield _use_lease(
            turn, group, lambda: acquire_lease(store, branch, purpose, replace(terms, wait_seconds=wait_seconds))
        )
    finally:
        _leave(turn)


def has_writer(store: ObjectStore, branch: BranchId, terms: LeaseTerms) -> bool:
    """Return whether another writer of this process has its turn, so that one more would wait for it."""
    with _lock:
        groups = _groups.get(_GroupKey(store.location, lock_directory(branch)), [])
        return any(group.terms == terms and not group.is_free() for group in groups)


@dataclass(frozen=True, slots=True)
class _GroupKey:
    location: Location
    directory: str


@dataclass(slots=True, eq=False)
class _Turn:
    """One writer: it waits for `ready`, and then uses `lease` until its block ends."""

    ready: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread = field(default_factory=threading.current_thread)
    group: _WriterQueue | None = None
    lease: Lease | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class _WriterQueue:
    """The writers of one branch in this process. `lease` is what the writer before left for the next one."""

    key: _GroupKey
    terms: LeaseTerms
    current: _Turn | None = None
    queue: deque[_Turn] = field(default_factory=deque)
    lease: Lease | None = None
    acquired_at: float = 0.0
    must_yield: bool = False

    def is_free(self) -> bool:
        """Return whether no writer has its turn.

        A turn also ends with its thread, and when its thread writes again: Ctrl-C can strike while a turn ends. Its
        lease is then not used again, because it is unknown whether it was released.
        """
        writer = None if self.current is None else self.current.thread
        return writer is None or writer is threading.current_thread() or not writer.is_alive()


_groups: dict[_GroupKey, list[_WriterQueue]] = {}
_lock = threading.Lock()
"""Guards the groups and everything in them except the use of the lease. No I/O happens while it is held."""


def _forget_parent() -> None:
    """A forked process has none of the threads that have or wait for a turn."""
    global _lock, _groups
    _lock, _groups = threading.Lock(), {}


os.register_at_fork(after_in_child=_forget_parent)


def _join(key: _GroupKey, terms: LeaseTerms, turn: _Turn) -> _WriterQueue:
    """Add a writer to the group of its branch. It has its turn if the group has no other writer."""
    with _lock:
        groups = _groups.setdefault(key, [])
        group = next((group for group in groups if group.terms == terms), None)
        if group is None:
            group = _WriterQueue(key=key, terms=terms)
            groups.append(group)
        turn.group = group
        is_free = group.is_free()
        group.queue.append(turn)
        if is_free:
            group.lease = None
            _start_next(group)
        return group


def _wait_for_turn(group: _WriterQueue, turn: _Turn) -> float:
    """Wait until the writers before have ended; return how long this writer may still wait for another process."""
    clock, seconds_max = group.terms.clock, group.terms.wait_seconds
    started = clock.monotonic()
    while not turn.ready.wait(_STALE_POLL_SECONDS):
        with _lock:
            _replace_dead_writer(group, turn)
            epoch = 0 if group.lease is None else group.lease.epoch
        waited = clock.monotonic() - started
        if waited > seconds_max and not turn.ready.is_set():
            raise lease_busy("other writers of this process", waited, epoch)
    return max(0.0, seconds_max - (clock.monotonic() - started))


def _replace_dead_writer(group: _WriterQueue, turn: _Turn) -> None:
    """Start the next writer if the current one ended without leaving. The caller waits for `turn` and has the lock.

    The turn may have started after the last look at `ready`. Then the current writer is this one, and not dead.
    """
    if not turn.ready.is_set() and group.is_free():
        group.lease = None
        _start_next(group)


def _use_lease(turn: _Turn, group: _WriterQueue, acquire: Callable[[], Lease]) -> Lease:
    """Return the lease that the writer before left, or take a new one. Only the writer whose turn it is calls it."""
    if group.lease is not None:
        turn.lease = group.lease
        try:
            turn.lease.hold()
        except LeaseLostError:
            group.lease = None  # No write is in progress, so nothing was lost with it.
        else:
            return turn.lease
    if group.must_yield:
        group.terms.clock.sleep(limits.LEASE_POLL_SECONDS_MAX)
    group.must_yield = False
    group.lease = turn.lease = acquire()
    group.acquired_at = group.terms.clock.monotonic()
    return turn.lease


def _leave(turn: _Turn) -> None:
    """End the turn of a writer, or its wait; release the lease or hand it to the next writer."""
    group = turn.group
    if group is None:
        return
    lease: Lease | None = None
    is_passed_on = False
    try:
        with _lock:
            if turn in group.queue:
                group.queue.remove(turn)
                return
            is_current = group.current is turn
            # A writer that got its turn but failed before it used the lease must still release it or pass it on.
            lease = turn.lease or (group.lease if is_current else None)
            age = group.terms.clock.monotonic() - group.acquired_at
            is_held = lease is not None and not lease.is_lost
            handover = decide_handover(GroupFacts(is_held=is_held, age_seconds=age, waiting=len(group.queue)))
            is_passed_on = is_current and handover is Handover.PASS_ON
            if is_current:
                group.lease = lease if is_passed_on else None
                group.must_yield = handover is Handover.YIELD
        if lease is not None and not is_passed_on:
            lease.release()
    finally:
        with _lock:
            if group.current is turn:
                _start_next(group)


def _start_next(group: _WriterQueue) -> None:
    """Give the next writer its turn; forget the group if there is none. The caller has the lock."""
    if group.queue:
        group.current = group.queue.popleft()
        group.current.ready.set()
        return
    group.current = None
    groups = _groups.get(group.key, [])
    if group in groups:
        groups.remove(group)
    if not groups:
        _groups.pop(group.key, None)
