"""A death inside this process: from one durable call on, nothing durable happens any more.

The victim is unwound by an exception that nobody catches, and every later call, such as the release of its lease,
dies as well. So the lease stays taken by a live process, and is over only when its time is, on a
clock that the test moves.
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
    """Not an `Exception`: whoever is dead handles nothing."""


@dataclass(slots=True)
class PatientClock:
    """Waiting takes no time; only this clock sees it. `skew_us` is how wrong the wall clock is."""

    seconds: float = 0.0
    skew_us: int = 0

    def now_us(self) -> int:
        return int(self.seconds * SECOND_US) + self.skew_us

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def short_lease_environment(clock: Clock, lease_seconds: float = 0.1) -> WriteEnvironment:
    """A world in which a lease is over as soon as somebody waits for it."""
    terms = LeaseTerms(lease_seconds, WAIT_SECONDS, clock, lambda: 0.5)
    return WriteEnvironment(clock=clock, jitter=lambda: 0.5, terms=terms)


@dataclass(slots=True)
class Victim:
    """Runs something that dies at its `at`-th durable call (never, for 0), and tells how far it came."""

    fatal_call: int
    done: list[tuple[str, str]] = field(default_factory=list)
    is_dead: bool = False

    def run(self, act: Callable[[], object]) -> bool:
        """Whether it lived."""
        try:
            with observed(self._observe):
                act()
        except Death:
            return False
        assert not self.is_dead, "something outlived its death"
        return True

    def _observe(self, effect: str, target: str) -> None:
        if self.is_dead or len(self.done) + 1 == self.fatal_call:
            self.is_dead = True
            raise Death
        self.done.append((effect, target))

    @property
    def published_before_arming(self) -> bool:
        """Whether the recovery in its Check made its outcome visible."""
        return any(_is_publish(entry) for entry in self.done[: self._armed_at()])

    @property
    def moved_before_arming(self) -> bool:
        """Whether a table's head moved before the intent was there: only a recovery may do that."""
        return any(_is_table_commit(entry) for entry in self.done[: self._armed_at()])

    @property
    def tables_committed(self) -> int:
        """How many heads of its own it moved."""
        return sum(_is_table_commit(entry) for entry in self.done[self._armed_at() :])

    @property
    def published(self) -> bool:
        """Whether its own commit is visible."""
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
