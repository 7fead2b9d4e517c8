"""Leases: one holder per epoch, expiry measured by the clock of the observer only, bounded and fair waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import Applied, FormatError
from omnigraph.base.ids import BranchId, new_ulid
from omnigraph.base.process import current_process
from omnigraph.graph.coordination.lease import (
    LOCK_VERSION,
    LeaseBusyError,
    LeaseLostError,
    LeaseTerms,
    LockObject,
    acquire_lease,
    is_epoch_over,
)
from omnigraph.graph.manifest.layout import lock_directory
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.concurrency.actors import Actor
from tests.graph.concurrency.torturers import acquire_repeatedly
from tests.waiting import SECONDS_MAX, wait_until

TRIALS: Final = [500, pytest.param(1500, marks=pytest.mark.soak)]
TRIAL_SECONDS: Final = 0.004
TEN_MINUTES_US: Final = 600 * 1_000_000
PROCESSES: Final = 8
SHARE: Final = 20


@pytest.fixture
def store(local_location: Location) -> ObjectStore:
    return ObjectStore(local_location)


@dataclass(slots=True)
class _ManualClock:
    """A clock that only waiting advances; `while_waiting` runs at each wait."""

    wall_us: int = 1_800_000_000_000_000
    seconds: float = 100.0
    while_waiting: Callable[[], None] = field(default=lambda: None)

    def now_us(self) -> int:
        return self.wall_us

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        passed = max(seconds, 0.5)  # thousands of short waits would test nothing more
        self.seconds += passed
        self.wall_us += int(passed * 1e6)
        self.while_waiting()


def _terms(clock: _ManualClock, **times: Any) -> LeaseTerms:
    return replace(LeaseTerms(lease_seconds=30.0, wait_seconds=120.0, clock=clock), **times)


def _put_lock(store: ObjectStore, branch: BranchId, epoch: int = 1, **changes: Any) -> LockObject:
    process = msgspec.structs.asdict(current_process())
    lock = LockObject(v=LOCK_VERSION, token=new_ulid(), purpose="load", acquired_us="0", **process)
    lock = msgspec.structs.replace(lock, **changes)
    assert store.create(f"{lock_directory(branch)}/{epoch:020d}.json", msgspec.json.encode(lock))
    return lock


def _branch() -> BranchId:
    return BranchId(new_ulid())


def _dead_branches(store: ObjectStore, count: int) -> list[BranchId]:
    """Return branches whose lease is held by a stopped process."""
    with Actor(int) as stopped:
        pid = stopped.pid
        stopped.answer()
    branches = [_branch() for _ in range(count)]
    for branch in branches:
        _put_lock(store, branch, pid=pid)
    return branches


def _break(location: Location, branch: BranchId) -> int:
    """Try once to acquire the lease; return its epoch, or 0."""
    try:
        return acquire_lease(ObjectStore(location), branch, "break", LeaseTerms(wait_seconds=0.0)).epoch
    except LeaseBusyError:
        return 0


def break_on_time(location: Location, branches: list[BranchId], start: float, done: Path) -> list[int]:
    """Try each branch at a fixed time, so that another process tries it at the same time.

    The process runs until both are done; otherwise the slower one could acquire the lease of a stopped process.
    """
    won = []
    for number, branch in enumerate(branches):
        while SYSTEM_CLOCK.monotonic() < start + number * TRIAL_SECONDS:
            pass
        won.append(_break(location, branch))
    (done / new_ulid()).touch()
    wait_until(lambda: len(list(done.iterdir())) == 2, "both are done")
    return won


class TestOneWinner:
    """Several writers break the lease of a stopped process at the same time: exactly one of them gets it."""

    @pytest.mark.parametrize("trials", TRIALS)
    def test_threads(self, store: ObjectStore, trials: int) -> None:
        branches = _dead_branches(store, trials)
        gate = threading.Barrier(3)

        def contend() -> list[int]:
            won = []
            for branch in branches:
                gate.wait(SECONDS_MAX)
                won.append(_break(store.location, branch))
            return won

        with ThreadPoolExecutor(3) as pool:
            results = [future.result() for future in [pool.submit(contend) for _ in range(3)]]
        assert all(sorted(trial) == [0, 0, 2] for trial in zip(*results, strict=True))
        assert all(any(result) for result in results), (
            "a thread never got the lease: the threads did not run concurrently"
        )

    @pytest.mark.parametrize("trials", TRIALS)
    def test_processes(self, store: ObjectStore, tmp_path: Path, trials: int) -> None:
        branches = _dead_branches(store, trials)
        start, done = SYSTEM_CLOCK.monotonic() + 1, tmp_path / "done"
        done.mkdir()
        with (
            Actor(break_on_time, store.location, branches, start, done) as first,
            Actor(break_on_time, store.location, branches, start, done) as other,
        ):
            results = [first.answer().value, other.answer().value]
        assert all(sorted(trial) == [0, 2] for trial in zip(*results, strict=True))


class TestEpochs:
    def test_slow_process_creates_a_deleted_epoch_again(self, store: ObjectStore) -> None:
        """The process does not hold the epoch that it created; it waits, and the holder keeps its lease."""
        branch = _branch()
        acquire_lease(store, branch, "first").release()
        with Actor(_acquire_epoch, store.location, branch, points="lease.acquire.before=stop") as slow:
            slow.wait_until_stopped()
            for _ in range(3):
                acquire_lease(store, branch, "quick").release()
            holder = acquire_lease(store, branch, "holder")
            assert holder.epoch == 5
            slow.resume()
            for _ in range(50):
                holder.hold()
                SYSTEM_CLOCK.sleep(0.005)
            holder.release()
            assert slow.answer().value == 6

    def test_lost_lease_is_lost_permanently(self, store: ObjectStore) -> None:
        branch, clock = _branch(), _ManualClock()
        first = acquire_lease(store, branch, "first", _terms(clock))
        second = acquire_lease(store, branch, "second", _terms(_ManualClock()))
        for _ in range(2):
            with pytest.raises(LeaseLostError):
                first.hold()
        marks = store.list(lock_directory(branch))
        first.release()
        assert store.list(lock_directory(branch)) == marks, "a writer that lost its lease changes nothing"
        second.hold()

    def test_highest_epoch_is_kept(self, store: ObjectStore) -> None:
        branch = _branch()
        for epoch in range(1, 6):
            lease = acquire_lease(store, branch, "one of many")
            lease.release()
            names = [entry.path.rsplit("/", 1)[1] for entry in store.list(lock_directory(branch))]
            assert names == [f"{epoch:020d}.json", f"{epoch:020d}.release.json"]

    @pytest.mark.parametrize("data", [b"", b"{}", b'{"v":99}', b"\xff"])
    def test_unreadable_lock_is_reported_and_kept(self, store: ObjectStore, data: bytes) -> None:
        branch = _branch()
        path = f"{lock_directory(branch)}/{1:020d}.json"
        store.create(path, data)
        with pytest.raises(FormatError, match=path):
            acquire_lease(store, branch, "try", LeaseTerms(lease_seconds=0.0, wait_seconds=1.0))
        assert store.read(path) == data


def _acquire_epoch(location: Location, branch: BranchId) -> int:
    return acquire_lease(ObjectStore(location), branch, "slow").epoch


class TestDeath:
    """A lease is over if the observer reads no change for the lease time of its own monotonic clock."""

    @pytest.mark.parametrize("skew_us", [-TEN_MINUTES_US, 0, TEN_MINUTES_US])
    def test_wall_clocks_do_not_matter(self, store: ObjectStore, skew_us: int) -> None:
        branch, clock = _branch(), _ManualClock()
        _put_lock(store, branch, host="elsewhere", acquired_us=str(clock.wall_us + skew_us))
        with pytest.raises(LeaseBusyError):
            acquire_lease(store, branch, "too early", _terms(clock, wait_seconds=29.0))
        clock.seconds += 3600  # a new observer starts to measure with its first read
        started = clock.seconds
        assert acquire_lease(store, branch, "patient", _terms(clock)).epoch == 2
        assert 30.0 < clock.seconds - started < 31.0

    def test_renewal_keeps_the_lease_of_a_slow_writer(self, store: ObjectStore) -> None:
        branch, holders, clock = _branch(), _ManualClock(), _ManualClock()
        holder = acquire_lease(store, branch, "slow but alive", _terms(holders))

        def renew() -> None:
            holders.seconds = clock.seconds
            holder.hold()

        clock.while_waiting = renew
        with pytest.raises(LeaseBusyError):
            acquire_lease(store, branch, "observer", _terms(clock, wait_seconds=119.0))
        assert holder.renewals >= 8
        clock.while_waiting = lambda: None
        assert acquire_lease(store, branch, "observer", _terms(clock)).epoch == 2
        with pytest.raises(LeaseLostError):
            holder.hold()

    @pytest.mark.parametrize(
        ("changes", "is_over"),
        [
            ({"pid": 2**22 + 1}, True),
            ({"started": "1"}, True),
            ({}, False),
            ({"pid": 2**22 + 1, "host": "elsewhere"}, False),
            ({"pid": 2**22 + 1, "boot_id": "another boot"}, False),
            ({"pid": 2**22 + 1, "machine_id": "another machine"}, False),
            ({"pid": 2**22 + 1, "pid_namespace": "pid:[1]"}, False),
            ({"pid": 2**22 + 1, "machine_id": None, "uid": None}, False),
            ({"pid": 2**70}, False),
        ],
        ids=[
            "stopped process",
            "another process with the same number",
            "alive",
            "another host",
            "another boot",
            "another machine",
            "another namespace",
            "written by an earlier release",
            "not a pid",
        ],
    )
    def test_lease_of_a_stopped_process_is_over(
        self, store: ObjectStore, changes: dict[str, Any], is_over: bool
    ) -> None:
        branch, clock = _branch(), _ManualClock()
        _put_lock(store, branch, **changes)
        assert is_epoch_over(store, branch, 1) is is_over
        started = clock.seconds
        acquire_lease(store, branch, "next", _terms(clock))
        assert (clock.seconds == started) is is_over


def test_wait_is_bounded_and_reports_the_holder(store: ObjectStore) -> None:
    branch, clock = _branch(), _ManualClock()
    acquire_lease(store, branch, "load 01ABC", _terms(clock))
    with pytest.raises(LeaseBusyError) as busy:
        acquire_lease(store, branch, "next", _terms(clock, lease_seconds=1000.0, wait_seconds=7.0))
    assert "load 01ABC by process" in busy.value.message
    assert busy.value.applied is Applied.NO
    assert 7.0 < clock.seconds - 100.0 < 8.0


def test_every_process_gets_its_share_of_the_lease(local_location: Location, tmp_path: Path) -> None:
    """Eight processes acquire one lease as often as they can: each gets its share while the others continue."""
    done = tmp_path / "done"
    done.mkdir()
    processes = [Actor(acquire_repeatedly, local_location, done, PROCESSES, SHARE) for _ in range(PROCESSES)]
    try:
        shares = sorted(process.answer().value for process in processes)
    finally:
        for process in processes:
            process.kill()
    print(f"\nshares of one lease among {PROCESSES} processes: {shares}")  # noqa: T201
    assert shares[0] >= SHARE


def test_the_same_epoch_of_another_writer_is_a_lost_lease(store_location: Location) -> None:
    """A backup was restored while a writer had the lease, and another writer then took the same number."""
    store = ObjectStore(store_location)
    lease = acquire_lease(store, None, "test")
    lease.hold()
    path = f"{lock_directory(None)}/{lease.epoch:020d}.json"
    store.delete(path)
    with_other_token = acquire_lease(store, None, "other")
    assert with_other_token.epoch == lease.epoch
    with pytest.raises(LeaseLostError):
        lease.hold()
    with_other_token.hold()
