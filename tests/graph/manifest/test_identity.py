"""A branch keeps its identity in a process while each newest manifest has the head that was read before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest.identity import SeenHeads
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.storage.location import Location, parse_location
from tests.graph.writers import PERSON, Change, create, run

ROOT = parse_location("/graph.omni")
MAIN_KEY, BRANCH_KEY = (ROOT, None), (ROOT, "b-1")


def _commit(number: int) -> CommitId:
    return CommitId(f"c{number}")


def test_later_state_keeps_the_identity_and_another_state_does_not() -> None:
    seen = SeenHeads()
    first = seen.note(MAIN_KEY, _commit(1), seen.find(*MAIN_KEY), is_later=False)
    assert first is not None
    assert seen.note(MAIN_KEY, _commit(1), seen.find(*MAIN_KEY), is_later=False) == first
    assert seen.note(MAIN_KEY, _commit(2), seen.find(*MAIN_KEY), is_later=True) == first
    other = seen.note(MAIN_KEY, _commit(3), seen.find(*MAIN_KEY), is_later=False)
    assert other not in (first, None)
    assert seen.note(BRANCH_KEY, _commit(3), seen.find(*BRANCH_KEY), is_later=False) not in (first, other)


def test_head_recorded_by_another_thread_is_compared_first() -> None:
    seen = SeenHeads()
    first = seen.note(MAIN_KEY, _commit(1), None, is_later=False)
    before = seen.find(*MAIN_KEY)
    assert seen.note(MAIN_KEY, _commit(2), before, is_later=True) == first
    assert seen.note(MAIN_KEY, _commit(2), before, is_later=True) == first, "the same head"
    assert seen.note(MAIN_KEY, _commit(3), before, is_later=True) is None
    assert seen.note(MAIN_KEY, _commit(3), None, is_later=False) is None


def test_forgotten_head_gets_a_new_identity() -> None:
    seen = SeenHeads(heads_max=1)
    first = seen.note(MAIN_KEY, _commit(1), None, is_later=False)
    seen.note(BRANCH_KEY, _commit(1), None, is_later=False)
    assert seen.find(*MAIN_KEY) is None
    assert seen.note(MAIN_KEY, _commit(1), None, is_later=False) not in (first, None)


def test_threads_that_read_during_writes_keep_one_identity(local_location: Location) -> None:
    create(local_location)
    first = read_snapshot(local_location).identities
    assert read_snapshot(local_location, MAIN, version=1).identities == first

    def read(_: int) -> bool:
        return read_snapshot(local_location).identities == first

    with ThreadPoolExecutor(4) as threads:
        answers = threads.map(read, range(60))
        for number in range(6):
            run(local_location, [Change(PERSON, insert=(f"p{number}",))])
        assert all(answers)
