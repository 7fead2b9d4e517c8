"""Wall clocks that differ by ten minutes lose no write and break no live lease: leases use the monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from omnigraph.base.process import current_process, has_certainly_ended
from omnigraph.graph.coordination.lease import Lease, LeaseBusyError, acquire_lease
from omnigraph.graph.manifest.layout import RECOVERY
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.death import SECOND_US, PatientClock, Victim, short_lease_environment
from tests.graph.writers import PERSON, create, read_contents, run, triple

TEN_MINUTES_US = 600 * SECOND_US
SKEWS = [-TEN_MINUTES_US, TEN_MINUTES_US]


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    return local_location


def clock_at(skew_us: int) -> PatientClock:
    return PatientClock(skew_us=1_700_000_000 * SECOND_US + skew_us)


@dataclass(slots=True)
class RenewingClock:
    """The clock of the observer: while it waits, the clock of the holder advances too, and the holder works."""

    holding: PatientClock
    lease: Lease
    skew_us: int
    seconds: float = 0.0

    def now_us(self) -> int:
        return int(self.seconds * SECOND_US) + self.skew_us

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.holding.sleep(seconds)
        self.lease.hold()


def test_history_of_writers_with_skewed_clocks_is_linear(graph: Location) -> None:
    environments = [short_lease_environment(clock_at(skew)) for skew in (*SKEWS, 0)]
    for number in range(9):
        run(graph, triple([f"n{number}"]), environment=environments[number % 3])
    snapshot = read_snapshot(graph)
    assert set(read_contents(graph)[PERSON]) == {f"n{number}" for number in range(9)}
    history = list(make_lineage(snapshot.head, snapshot.manifest.read_commits()).history())
    assert [commit.operation for commit in history] == [*["load"] * 9, "init"]


@pytest.mark.parametrize("skew_us", SKEWS)
def test_skewed_wall_clock_does_not_break_a_live_lease(graph: Location, skew_us: int) -> None:
    """The observer waits for less than the lease time on its monotonic clock; its wall clock is ignored."""
    branch = read_snapshot(graph).branch.id
    holder = short_lease_environment(clock_at(0), lease_seconds=30.0)
    lease = acquire_lease(ObjectStore(graph), branch, "holder", holder.terms)
    observer = short_lease_environment(clock_at(skew_us), lease_seconds=10.0)
    with pytest.raises(LeaseBusyError, match="holder by process"):
        run(graph, triple(["a"]), environment=observer)
    lease.hold()
    lease.release()
    run(graph, triple(["a"]), environment=observer)


@pytest.mark.parametrize("skew_us", SKEWS)
def test_renewed_lease_is_not_broken(graph: Location, skew_us: int) -> None:
    branch = read_snapshot(graph).branch.id
    holding = clock_at(0)
    lease = acquire_lease(ObjectStore(graph), branch, "holder", short_lease_environment(holding).terms)
    watching = RenewingClock(holding, lease, clock_at(skew_us).skew_us)
    with pytest.raises(LeaseBusyError):
        acquire_lease(ObjectStore(graph), branch, "observer", short_lease_environment(watching).terms)
    assert lease.renewals > 10
    lease.release()


@pytest.mark.parametrize("skew_us", SKEWS)
@pytest.mark.parametrize("death", range(4, 14))
def test_writer_with_a_skewed_clock_recovers_a_crash(graph: Location, skew_us: int, death: int) -> None:
    run(graph, triple(["a"]), environment=short_lease_environment(clock_at(0)))
    victim = Victim(death)
    assert not victim.run(lambda: run(graph, triple(["b"]), environment=short_lease_environment(clock_at(0))))
    other = short_lease_environment(clock_at(skew_us))
    run(graph, triple(["c"]), environment=other)
    expected = {"a", "b", "c"} if victim.tables_committed == 3 else {"a", "c"}
    contents = read_contents(graph)
    assert {frozenset(rows) for rows in contents.values()} == {frozenset(expected)}
    assert recover_on_open(graph, MAIN, other) == ()
    assert ObjectStore(graph).list(RECOVERY) == ()


def test_this_process_counts_as_running() -> None:
    assert not has_certainly_ended(current_process())
