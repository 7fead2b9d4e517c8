"""A writer is paused past its lease before any durable call and continues after its successor has written.

Both run in one process: at the k-th durable call of the paused writer, another writer waits until the lease is over.
The paused writer must report the true outcome, and its later calls must neither be lost nor undo another write.
"""

from __future__ import annotations

import pytest

from omnigraph.base.errors import Applied, OmnigraphError
from omnigraph.base.failpoints import observed
from omnigraph.graph.coordination.lease import LeaseLostError, acquire_lease
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import SingleTransactionEffect, StagedWrite
from omnigraph.storage.errors import CommitRaceError
from omnigraph.storage.lance.commit import commit_staged
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.death import PatientClock, Victim, short_lease_environment
from tests.graph.crash.observe import find_leftovers, read_tree
from tests.graph.writers import create, read_contents, run, stage_changes, triple

CALLS = 14


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    run(local_location, triple(["a"]))
    return local_location


@pytest.mark.parametrize("k", range(1, CALLS + 1))
def test_paused_writer_reports_the_true_outcome(graph: Location, k: int) -> None:
    slept: list[int] = []

    def sleep_at(effect: str, target: str) -> None:
        slept.append(0)
        if len(slept) == k:
            run(graph, triple(["c"]), environment=short_lease_environment(PatientClock()))

    answer: Applied | None
    with observed(sleep_at):
        try:
            run(graph, triple(["b"]), environment=short_lease_environment(PatientClock()))
            answer = Applied.YES
        except OmnigraphError as error:
            answer = error.applied
    assert len(slept) >= k
    run(graph, triple(["d"]), environment=short_lease_environment(PatientClock()))
    contents = read_contents(graph)
    assert len({frozenset(rows) for rows in contents.values()}) == 1
    (names,) = {frozenset(rows) for rows in contents.values()}
    assert names >= {"a", "c", "d"}
    assert {Applied.YES: {True}, Applied.NO: {False}}.get(answer or Applied.UNKNOWN, {True, False}) >= {"b" in names}
    assert [
        text for text in find_leftovers(graph, short_lease_environment(PatientClock())) if "locked" not in text
    ] == []


@pytest.mark.parametrize("death", range(8, 11))
def test_staged_transactions_of_a_recovered_write_are_rejected(graph: Location, death: int) -> None:
    """Every transaction that the dead writer had not committed is rejected, also much later."""
    staged_writes: list[StagedWrite] = []
    stage = stage_changes(triple(["b"]))

    def stage_and_keep(area: StagingArea) -> StagedWrite:
        staged_writes.append(stage(area))
        return staged_writes[0]

    request = WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage_and_keep)
    victim = Victim(death)
    assert not victim.run(lambda: write(graph, MAIN, request, short_lease_environment(PatientClock())))
    run(graph, triple(["c"]), environment=short_lease_environment(PatientClock()))
    before = read_contents(graph)
    for effect in staged_writes[0].effects[victim.tables_committed :]:
        assert isinstance(effect, SingleTransactionEffect)
        base = open_dataset(graph.child(effect.table.path), version=effect.base.version)
        with pytest.raises(CommitRaceError):
            commit_staged(base, effect.transaction)
    assert read_contents(graph) == before


def test_writer_that_lost_its_lease_changes_nothing(graph: Location) -> None:
    branch = read_snapshot(graph).branch.id
    store = ObjectStore(graph)
    lost = acquire_lease(store, branch, "paused", short_lease_environment(PatientClock()).terms)
    taken = acquire_lease(store, branch, "successor", short_lease_environment(PatientClock()).terms)
    tree = read_tree(graph)
    with pytest.raises(LeaseLostError):
        lost.hold()
    lost.release()
    assert read_tree(graph) == tree
    taken.hold()
    taken.release()
