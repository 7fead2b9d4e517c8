"""Simulate the death of a writer inside this process: from one durable call on, every durable call fails.

The call raises an exception that no code catches, and every later call, such as the release of the lease, raises it
too. So the lease is still held by a live process. It is over only when its time has passed on a clock that the test
advances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from omnigraph.base.clock import Clock
from omnigraph.base.failpoints import observed
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import LeaseTerms
from omnigraph.graph.manifest.layout import MANIFEST, RECOVERY

SECOND_US = 1_000_000
WAIT_SECONDS = 2.0


class Death(BaseException):
    """The simulated death. Not an `Exception`, so that the writer cannot handle it."""


@dataclass(slots=True)
class PatientClock:
    """A clock whose waits take no real time. `skew_us` is the error of the wall clock."""

    seconds: float = 0.0
    skew_us: int = 0

    def now_us(self) -> int:
        return int(self.seconds * SECOND_US) + self.skew_us

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def short_lease_environment(clock: Clock, lease_seconds: float = 0.1) -> WriteEnvironment:
    """Return an environment in which a lease is over as soon as another writer waits for it."""
    terms = LeaseTerms(lease_seconds=lease_seconds, wait_seconds=WAIT_SECONDS, clock=clock, jitter=lambda: 0.5)
    return WriteEnvironment(clock=clock, jitter=lambda: 0.5, terms=terms)


@dataclass(slots=True)
class Victim:
    """Runs a function that dies at the durable call `fatal_call` (never, for 0), and records the calls before it."""

    fatal_call: int
    done: list[tuple[str, str]] = field(default_factory=list)
    is_dead: bool = False

    def run(self, act: Callable[[], object]) -> bool:
        """Run `act`; return whether it survived."""
        try:
            with observed(self._observe):
                act()
        except Death:
            return False
        assert not self.is_dead, "a call caught the death of the writer"
        return True

    def _observe(self, effect: str, target: str) -> None:
        if self.is_dead or len(self.done) + 1 == self.fatal_call:
            self.is_dead = True
            raise Death
        self.done.append((effect, target))

    @property
    def published_before_arming(self) -> bool:
        """Whether the recovery in Check published its result."""
        return any(_is_publish(entry) for entry in self.done[: self._armed_at()])

    @property
    def moved_before_arming(self) -> bool:
        """Whether the head of a table moved before the intent was written: only a recovery may do that."""
        return any(_is_table_commit(entry) for entry in self.done[: self._armed_at()])

    @property
    def tables_committed(self) -> int:
        """Number of heads that the write itself moved."""
        return sum(_is_table_commit(entry) for entry in self.done[self._armed_at() :])

    @property
    def published(self) -> bool:
        """Whether the commit of the write is visible."""
        return any(_is_publish(entry) for entry in self.done[self._armed_at() :])

    def _armed_at(self) -> int:
        arms = [
            position
            for position, (effect, target) in enumerate(self.done)
            if effect == "object.create" and target.startswith(RECOVERY)
        ]
        return arms[-1] if arms else len(self.done)


def _is_table_commit(entry: tuple[str, str]) -> bool:
    return entry[0] == "dataset.commit" and MANIFEST not in entry[1]


def _is_publish(entry: tuple[str, str]) -> bool:
    return entry[0] == "dataset.commit" and MANIFEST in entry[1]
