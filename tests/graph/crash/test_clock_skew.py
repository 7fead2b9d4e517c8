"""Wall clocks that are ten minutes apart lose nothing and break no live lease: only the observer's own clock counts."""

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
from tests.graph.crash.death import SECOND_US, PatientClock, Victim, impatient_world
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
    """The observer's clock: while it waits, the holder's time goes on too, and the holder works."""

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


def test_writers_take_turns_and_history_is_one_line(graph: Location) -> None:
    worlds = [impatient_world(clock_at(skew)) for skew in (*SKEWS, 0)]
    for number in range(9):
        run(graph, triple([f"n{number}"]), world=worlds[number % 3])
    snapshot = read_snapshot(graph)
    assert set(read_contents(graph)[PERSON]) == {f"n{number}" for number in range(9)}
    history = list(make_lineage(snapshot.head, snapshot.manifest.read_commits()).history())
    assert [commit.operation for commit in history] == [*["load"] * 9, "init"]


@pytest.mark.parametrize("skew_us", SKEWS)
def test_a_live_lease_is_not_broken_by_a_wall_clock(graph: Location, skew_us: int) -> None:
    """The observer waits for less than the lease time on its own clock, whatever its wall clock says."""
    branch = read_snapshot(graph).branch.id
    holder = impatient_world(clock_at(0), lease_seconds=30.0)
    lease = acquire_lease(ObjectStore(graph), branch, "holder", holder.terms)
    observer = impatient_world(clock_at(skew_us), lease_seconds=10.0)
    with pytest.raises(LeaseBusyError, match="holder by process"):
        run(graph, triple(["a"]), world=observer)
    lease.hold()
    lease.release()
    run(graph, triple(["a"]), world=observer)


@pytest.mark.parametrize("skew_us", SKEWS)
def test_a_holder_that_renews_is_never_dead(graph: Location, skew_us: int) -> None:
    branch = read_snapshot(graph).branch.id
    holding = clock_at(0)
    lease = acquire_lease(ObjectStore(graph), branch, "holder", impatient_world(holding).terms)
    watching = RenewingClock(holding, lease, clock_at(skew_us).skew_us)
    with pytest.raises(LeaseBusyError):
        acquire_lease(ObjectStore(graph), branch, "observer", impatient_world(watching).terms)
    assert lease.renewals > 10
    lease.release()


@pytest.mark.parametrize("skew_us", SKEWS)
@pytest.mark.parametrize("death", range(4, 14))
def test_a_crash_is_recovered_by_a_skewed_clock(graph: Location, skew_us: int, death: int) -> None:
    run(graph, triple(["a"]), world=impatient_world(clock_at(0)))
    victim = Victim(death)
    assert not victim.run(lambda: run(graph, triple(["b"]), world=impatient_world(clock_at(0))))
    other = impatient_world(clock_at(skew_us))
    run(graph, triple(["c"]), world=other)
    expected = {"a", "b", "c"} if victim.tables_committed == 3 else {"a", "c"}
    contents = read_contents(graph)
    assert {frozenset(rows) for rows in contents.values()} == {frozenset(expected)}
    assert recover_on_open(graph, MAIN, other) == ()
    assert ObjectStore(graph).list(RECOVERY) == ()


def test_this_process_is_not_known_to_be_gone() -> None:
    assert not has_certainly_ended(current_process())
