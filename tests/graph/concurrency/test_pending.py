"""Intents of active writers: an intent is pending only if its lease epoch is over and it still exists."""

from __future__ import annotations

import threading
from typing import Final

import pytest

from omnigraph.graph.coordination.intent import PendingState, classify_intents, is_pending, list_pending, read_intents
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.concurrency import jobs
from tests.graph.concurrency.actors import Actor
from tests.graph.writers import create, run, triple
from tests.waiting import SECONDS_MAX

WRITES: Final = 25


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    return local_location


@pytest.mark.parametrize("step", ["arm.after", "publish.after", "disarm.before"])
def test_write_that_ends_between_two_reads_is_not_pending(graph: Location, step: str) -> None:
    """The intent is read, the write ends, then the lease is read: its epoch is over, but the intent was deleted."""
    store = ObjectStore(graph)
    with Actor(jobs.write_changes, graph, triple(["a"]), points=f"{step}=stop") as writer:
        writer.wait_until_stopped()
        intents, _ = read_intents(store)
        assert [intent.state for intent in classify_intents(store, intents)] == [PendingState.LIVE]
        assert writer.resume().answer().error is None
    assert classify_intents(store, intents) == ()
    assert [is_pending(store, intent) for intent in intents] == [False]


def test_killed_write_is_pending(graph: Location) -> None:
    store = ObjectStore(graph)
    with Actor(jobs.write_changes, graph, triple(["a"]), points="publish.before=kill") as writer:
        writer.wait_until_killed()
    intents, _ = read_intents(store)
    assert [intent.state for intent in list_pending(graph)] == [PendingState.PENDING]
    assert [is_pending(store, intent) for intent in intents] == [True]


def test_live_write_is_never_pending(graph: Location) -> None:
    done = threading.Event()

    def write() -> None:
        try:
            for number in range(WRITES):
                run(graph, triple([f"row {number}"]))
        finally:
            done.set()

    writer = threading.Thread(target=write)
    writer.start()
    states: set[PendingState] = set()
    while not done.is_set():
        states |= {intent.state for intent in list_pending(graph)}
    writer.join(SECONDS_MAX)
    assert states <= {PendingState.LIVE}
    assert list_pending(graph) == ()
