"""Writers of one process share the lease of their branch in turns; other processes get their turn too."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Final

import pytest

import omnigraph
from omnigraph.base import limits
from omnigraph.base.errors import Applied
from omnigraph.base.failpoints import observed
from omnigraph.base.ids import BranchId, new_ulid
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination import group as group_module
from omnigraph.graph.coordination.group import GroupFacts, Handover, decide_handover, share_lease
from omnigraph.graph.coordination.lease import LeaseBusyError, LeaseLostError, LeaseTerms, acquire_lease
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, open_table, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.concurrency.actors import Actor
from tests.graph.concurrency.jobs import write_changes, write_in_threads
from tests.graph.writers import COMPANY, PERSON, Change, create, run, stage_changes
from tests.storage.samples import ids_of
from tests.waiting import SECONDS_MAX, wait_until

OLD: Final = limits.LEASE_GROUP_SECONDS_MAX
WRITERS: Final = 6
WRITES: Final = 4

HANDOVERS: Final = [
    (GroupFacts(is_held=False, age_seconds=0.0, waiting=0), Handover.DROP),
    (GroupFacts(is_held=False, age_seconds=OLD, waiting=3), Handover.DROP),
    (GroupFacts(is_held=True, age_seconds=0.0, waiting=0), Handover.RELEASE),
    (GroupFacts(is_held=True, age_seconds=OLD, waiting=0), Handover.RELEASE),
    (GroupFacts(is_held=True, age_seconds=0.0, waiting=1), Handover.PASS_ON),
    (GroupFacts(is_held=True, age_seconds=OLD - 0.001, waiting=7), Handover.PASS_ON),
    (GroupFacts(is_held=True, age_seconds=OLD, waiting=1), Handover.YIELD),
    (GroupFacts(is_held=True, age_seconds=10 * OLD, waiting=7), Handover.YIELD),
]


@pytest.mark.parametrize(("facts", "handover"), HANDOVERS)
def test_handover(facts: GroupFacts, handover: Handover) -> None:
    assert decide_handover(facts) is handover


class _Store:
    """The lease of one branch, and threads that take it in a known order."""

    def __init__(self, location: Location, branch: BranchId | None = None, terms: LeaseTerms | None = None) -> None:
        self.store = ObjectStore(location)
        self.branch = branch or BranchId(new_ulid())
        self.terms = terms or LeaseTerms(wait_seconds=SECONDS_MAX)
        self.threads = ThreadPoolExecutor(8)

    @contextmanager
    def shared(self) -> Iterator[int]:
        with share_lease(self.store, self.branch, "test", self.terms) as lease:
            lease.hold()
            yield lease.epoch

    def queue(self, action: Callable[[], None] = lambda: None) -> Future[int]:
        """Start a thread that waits for the turn, runs the action in it and returns the epoch of its lease."""

        def take() -> int:
            with self.shared() as epoch:
                action()
                return epoch

        waiting = self.waiting
        future = self.threads.submit(take)
        wait_until(lambda: self.waiting > waiting, "the thread waits")
        return future

    @property
    def waiting(self) -> int:
        """The number of threads in the queue."""
        return sum(len(group.queue) for groups in list(group_module._groups.values()) for group in groups)


@pytest.fixture
def lease(local_location: Location) -> _Store:
    return _Store(local_location)


def _fail(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


def test_waiting_writers_get_the_same_epoch_in_order(lease: _Store) -> None:
    order: list[int] = []
    with lease.shared() as epoch:
        futures = [lease.queue(lambda number=number: order.append(number)) for number in range(4)]  # type: ignore[misc]
    assert {future.result() for future in futures} == {epoch}
    assert order == [0, 1, 2, 3]
    with lease.shared() as later:
        assert later == epoch + 1, "the lease was released when the queue was empty"


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt(), SystemExit(3)])
def test_failing_writer_does_not_hurt_the_others(lease: _Store, error: BaseException) -> None:
    with lease.shared() as epoch:
        before, failing, after = lease.queue(), lease.queue(_fail(error)), lease.queue()
    assert (before.result(), after.result()) == (epoch, epoch)
    with pytest.raises(type(error)):
        failing.result()


def test_writer_that_stops_waiting_leaves_the_queue(local_location: Location) -> None:
    lease = _Store(local_location, terms=LeaseTerms(wait_seconds=0.01))
    with lease.shared() as epoch:
        impatient = lease.queue()
        with pytest.raises(LeaseBusyError, match="other writers of this process"):
            impatient.result()
        assert lease.waiting == 0
    with lease.shared() as later:
        assert later == epoch + 1


@pytest.mark.parametrize("noticed", [True, False])
def test_writer_after_a_lost_lease_takes_a_new_one(lease: _Store, noticed: bool) -> None:
    """Another process took the lease from a paused writer; the next writer must not use the old epoch."""
    with share_lease(lease.store, lease.branch, "test", lease.terms) as paused:
        following = lease.queue()
        thief = acquire_lease(lease.store, lease.branch, "thief", LeaseTerms(lease_seconds=-1.0))
        thief.release()
        if noticed:
            with pytest.raises(LeaseLostError):
                paused.hold()
    assert (thief.epoch, following.result()) == (paused.epoch + 1, paused.epoch + 2)


def test_old_group_releases_the_lease(lease: _Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEASE_GROUP_SECONDS_MAX", 0.0)
    with lease.shared() as epoch:
        futures = [lease.queue(), lease.queue()]
    assert [future.result() for future in futures] == [epoch + 1, epoch + 2]


def test_other_branches_and_other_terms_do_not_share(lease: _Store) -> None:
    other = _Store(lease.store.location)
    with lease.shared(), other.shared() as epoch:
        assert epoch == 1
    impatient = _Store(lease.store.location, lease.branch, LeaseTerms(wait_seconds=0.01))
    with lease.shared(), pytest.raises(LeaseBusyError, match="test by process"), impatient.shared():
        pass


def test_thread_that_ended_within_its_turn_does_not_block_the_others(lease: _Store) -> None:
    """Ctrl-C can strike while a turn ends. A writer of the same thread takes a new lease after the lease time."""
    stale = _Store(lease.store.location, lease.branch, LeaseTerms(lease_seconds=0.1, wait_seconds=SECONDS_MAX))
    entered = share_lease(stale.store, stale.branch, "test", stale.terms)
    first = threading.Thread(target=entered.__enter__)
    first.start()
    first.join()
    with stale.shared() as epoch:
        assert epoch == 2


def test_writer_whose_turn_has_started_is_not_dead(lease: _Store) -> None:
    """The turn can start between the end of a wait and the look at the group."""
    turn, waiting = group_module._Turn(), group_module._Turn()
    held = acquire_lease(lease.store, lease.branch, "test", lease.terms)
    key = group_module._GroupKey(lease.store.location, held.directory)
    group = group_module._WriterQueue(key=key, terms=lease.terms, current=turn, lease=held)
    group.queue.append(waiting)
    turn.ready.set()
    group_module._replace_dead_writer(group, turn)
    assert group.current is turn
    assert group.lease is held
    assert not waiting.ready.is_set()
    held.release()


@pytest.mark.parametrize("is_alone", [True, False])
def test_writer_that_fails_before_it_uses_its_lease_hands_it_over(lease: _Store, is_alone: bool) -> None:
    """Ctrl-C, or the end of its wait, can come directly after its turn started."""
    turn, waiting = group_module._Turn(), group_module._Turn()
    held = acquire_lease(lease.store, lease.branch, "test", lease.terms)
    key = group_module._GroupKey(lease.store.location, held.directory)
    now = lease.terms.clock.monotonic()
    group = group_module._WriterQueue(key=key, terms=lease.terms, current=turn, lease=held, acquired_at=now)
    turn.group = waiting.group = group
    if not is_alone:
        group.queue.append(waiting)
    group_module._leave(turn)
    assert group.lease is (None if is_alone else held)
    assert group.current is (None if is_alone else waiting)
    if not is_alone:
        held.hold()
        held.release()
    with lease.shared() as epoch:
        assert epoch == held.epoch + 1, "the lease was released"


def test_forked_process_has_no_group() -> None:
    program = (
        "import os, tempfile\n"
        "from omnigraph.base.ids import BranchId\n"
        "from omnigraph.graph.coordination import group\n"
        "from omnigraph.graph.coordination.lease import LeaseTerms\n"
        "from omnigraph.storage.location import parse_location\n"
        "from omnigraph.storage.objects import ObjectStore\n"
        "store = ObjectStore(parse_location(tempfile.mkdtemp()))\n"
        "with group.share_lease(store, BranchId('01'), 'test', LeaseTerms()):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os._exit(4 if not group._groups else 3)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


def _epochs(action: Callable[[], object]) -> int:
    """Return how many epochs are taken while the action runs."""
    epochs: list[str] = []

    def note(effect: str, target: str) -> None:
        if effect == "object.create" and target.startswith("__locks/") and target.count(".") == 1:
            epochs.append(target)

    with observed(note):
        action()
    return len(set(epochs))


def test_threads_share_leases_and_each_write_is_a_commit(local_location: Location) -> None:
    create(local_location)
    before = read_snapshot(local_location).manifest.read_commit_ids()
    epochs = _epochs(lambda: write_in_threads(local_location, WRITERS, WRITES))
    snapshot = read_snapshot(local_location)
    assert len(snapshot.manifest.read_commit_ids()) == len(before) + WRITERS * WRITES
    names = sorted(f"{writer}-{number}" for writer in range(WRITERS) for number in range(WRITES))
    assert ids_of(open_table(local_location, snapshot.tables[PERSON])) == names
    assert epochs < WRITERS * WRITES
    assert ObjectStore(local_location).list("__recovery") == ()


def test_another_process_gets_its_turn(local_location: Location) -> None:
    """Threads write without a pause until the other process has written."""
    create(local_location)
    done = threading.Event()
    numbers = count()

    def write_until_done() -> int:
        written = 0
        while not done.is_set():
            run(local_location, [Change(PERSON, insert=(f"thread-{next(numbers)}",))])
            written += 1
        return written

    with ThreadPoolExecutor(WRITERS) as threads:
        futures = [threads.submit(write_until_done) for _ in range(WRITERS)]
        try:
            for number in range(2):
                with Actor(write_changes, local_location, [Change(COMPANY, insert=(f"process-{number}",))]) as actor:
                    assert actor.answer().error is None
        finally:
            done.set()
        written = sum(future.result() for future in futures)
    snapshot = read_snapshot(local_location)
    assert open_table(local_location, snapshot.tables[PERSON]).count_rows() == written
    assert ids_of(open_table(local_location, snapshot.tables[COMPANY])) == ["process-0", "process-1"]


def test_mutation_that_waits_is_staged_in_its_turn(local_location: Location) -> None:
    """What it would read before is changed by the writers before it. A writer that is alone stages before its lease."""
    graph = omnigraph.init(local_location.uri, "node Person { slug: String @key }")
    lease = _Store(local_location, read_snapshot(local_location).branch.id, LeaseTerms())
    effects: list[str] = []

    def insert(slug: str) -> None:
        graph.mutate("query add($slug: String) { insert Person { slug: $slug } }", {"slug": slug})

    def note(effect: str, target: str) -> None:
        effects.append("lease" if target.startswith("__locks/") else effect)

    with ThreadPoolExecutor(1) as threads, observed(note):
        with lease.shared():
            waiting = threads.submit(insert, "ada")
            wait_until(lambda: lease.waiting == 1, "the thread waits")
            assert "dataset.stage" not in effects
        waiting.result()
        assert "dataset.stage" in effects
        effects.clear()
        insert("bo")
    assert effects.index("dataset.stage") < effects.index("lease")
    assert ids_of(open_table(local_location, read_snapshot(local_location).tables["node:Person"])) == ["ada", "bo"]


@pytest.mark.parametrize("point", ["commit.before@5=kill", "publish.after@4=kill", "lease.release.before=kill"])
def test_killed_group_is_recovered(local_location: Location, point: str) -> None:
    """A process dies while other threads of it wait. The next writer recovers at most one write."""
    create(local_location)
    with Actor(write_in_threads, local_location, WRITERS, WRITES, points=point) as actor:
        actor.wait_until_killed()
    assert len(ObjectStore(local_location).list("__recovery")) <= 1
    run(local_location, [Change(PERSON, insert=("later",))])
    snapshot = read_snapshot(local_location)
    ids = ids_of(open_table(local_location, snapshot.tables[PERSON]))
    assert "later" in ids
    assert len(ids) == snapshot.tables[PERSON].row_count
    assert ObjectStore(local_location).list("__recovery") == ()


def test_failing_write_in_a_group(local_location: Location) -> None:
    """A write that fails when it stages again, under the lease, fails alone, and nothing of it is left."""
    create(local_location)
    branch = read_snapshot(local_location).branch.id
    lease = _Store(local_location, branch, LeaseTerms())

    def fail(_: StagingArea, __: StagedWrite) -> StagedWrite | None:
        raise ValueError("cannot stage again")

    def write_rows(name: str, *, fails: bool) -> None:
        stage = stage_changes([Change(PERSON, insert=(name,))])
        restage = fail if fails else (lambda area, _: stage(area))
        request = WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage, restage=restage)
        assert write(local_location, MAIN, request) is not None

    futures = []
    with lease.shared():
        for number, (name, fails) in enumerate((("first", False), ("failing", True), ("last", False)), 1):
            futures.append(lease.threads.submit(write_rows, name, fails=fails))
            wait_until(lambda waiting=number: lease.waiting == waiting, "the writer waits")  # type: ignore[misc]
    with pytest.raises(ValueError, match="cannot stage again"):
        futures[1].result()
    assert [futures[0].result(), futures[2].result()] == [None, None]
    assert ids_of(open_table(local_location, read_snapshot(local_location).tables[PERSON])) == ["first", "last"]


def test_threads_on_different_branches(local_location: Location) -> None:
    create(local_location)
    create_branch(local_location, "review", "tester", read_snapshot(local_location))
    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(write_in_threads, local_location, 2, WRITES, branch) for branch in (MAIN, "review")]
        assert [future.result() for future in futures] == [2 * WRITES, 2 * WRITES]
    for branch in (MAIN, "review"):
        snapshot = read_snapshot(local_location, branch)
        assert open_table(local_location, snapshot.tables[PERSON]).count_rows() == 2 * WRITES


def test_error_of_a_writer_that_waited_for_too_long(local_location: Location) -> None:
    lease = _Store(local_location, terms=LeaseTerms(wait_seconds=0.01))
    with lease.shared():
        error = lease.queue().exception()
    assert isinstance(error, LeaseBusyError)
    assert error.applied is Applied.NO
