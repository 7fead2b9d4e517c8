"""The record of a recovery: one audit row and, after a roll forward, the commit of the write."""

from __future__ import annotations

import pytest

from omnigraph.api.graph import Graph
from omnigraph.base.ids import CommitId, OperationId
from omnigraph.graph.coordination.intent import Intent, read_intents, write_intent
from omnigraph.graph.coordination.lease import acquire_lease
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.recovery.decide import RecoveryAction
from omnigraph.graph.recovery.run import RECOVERY_ACTOR, recover_on_open
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.death import PatientClock, short_lease_environment
from tests.graph.crash.killer import Killer


def read_intent(location: Location) -> Intent:
    intents, unreadable = read_intents(ObjectStore(location))
    assert (len(intents), unreadable) == (1, ())
    return intents[0]


@pytest.mark.parametrize(
    ("scenario", "action"),
    [
        ("recover_forward", RecoveryAction.ROLLED_FORWARD),
        ("recover_optimize", RecoveryAction.ROLLED_FORWARD),
        ("recover_back", RecoveryAction.ROLLED_BACK),
        ("recover_half_back", RecoveryAction.ROLLED_BACK),
        ("recover_mutate", RecoveryAction.ROLLED_BACK),
        ("recover_nothing", RecoveryAction.NOTHING_MOVED),
        ("recover_gone", RecoveryAction.BRANCH_GONE),
    ],
)
def test_every_outcome_is_audited(scenario: str, action: RecoveryAction, killer: Killer) -> None:
    location = killer.prepare_graph(scenario)
    intent = read_intent(location)
    assert [done.action for done in recover_on_open(location, MAIN)] == [action]
    manifest = read_snapshot(location).manifest
    audit = manifest.find_recovery(OperationId(intent.op_id))
    assert audit is not None
    assert (audit.action, audit.operation, audit.actor) == (action.value, intent.kind, intent.actor)
    assert set(audit.tables) == {table.id for table in intent.tables}
    assert len(manifest.read_recoveries()) == 1


@pytest.mark.parametrize("scenario", ["recover_forward", "recover_optimize"])
def test_roll_forward_publishes_the_commit_of_the_write(scenario: str, killer: Killer) -> None:
    """It has the commit id, actor, time and counts of the write that was killed."""
    location = killer.prepare_graph(scenario)
    intent = read_intent(location)
    recover_on_open(location, MAIN)
    snapshot = read_snapshot(location)
    assert snapshot.head == intent.commit_id
    commit = snapshot.manifest.find_commit(CommitId(intent.commit_id))
    assert commit is not None
    assert (commit.actor, commit.operation, commit.operation_id) == (intent.actor, intent.kind, intent.op_id)
    assert (commit.created_us, dict(commit.counts), commit.parent) == (intent.created_us, intent.counts, intent.head)


@pytest.mark.parametrize("scenario", ["recover_back", "recover_nothing"])
def test_rollback_publishes_a_commit_of_recovery(
    scenario: str, killer: Killer, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit id of the write never appears; the restored state is a commit of recovery.

    The log reports it, also if an earlier recovery was killed before it deleted the intent.
    """
    location = killer.prepare_graph(scenario)
    intent = read_intent(location)
    recover_on_open(location, MAIN)
    write_intent(ObjectStore(location), intent)
    assert [done.action for done in recover_on_open(location, MAIN)] == [RecoveryAction.FINISHED]
    assert caplog.text.count(f"{intent.op_id}, by {intent.actor}, on branch main): it was undone") == 2
    assert intent.commit_id not in caplog.text
    snapshot = read_snapshot(location)
    assert snapshot.manifest.find_commit(CommitId(intent.commit_id)) is None
    commit = snapshot.manifest.find_commit(snapshot.head)
    assert commit is not None
    assert (commit.actor, commit.operation, commit.parent) == (RECOVERY_ACTOR, "recovery", intent.head)


def test_open_works_while_a_writer_holds_the_lease(killer: Killer) -> None:
    """The open recovers nothing: Check of that writer, or of the next one, does."""
    location = killer.prepare_graph("recover_back")
    environment = short_lease_environment(PatientClock(), lease_seconds=10.0)
    lease = acquire_lease(ObjectStore(location), read_snapshot(location).branch.id, "busy", environment.terms)
    assert recover_on_open(location, MAIN, environment) == ()
    read_intent(location)
    lease.release()
    assert len(recover_on_open(location, MAIN, environment)) == 1


def test_finished_write_is_not_audited(killer: Killer, caplog: pytest.LogCaptureFixture) -> None:
    """The log does not call it recovered, because `recovery list` does not have it."""
    location = killer.prepare_graph("recover_finished")
    intent = read_intent(location)
    version = read_snapshot(location).version
    assert [done.action for done in recover_on_open(location, MAIN)] == [RecoveryAction.FINISHED]
    assert read_snapshot(location).version == version
    assert read_snapshot(location).manifest.read_recoveries() == ()
    origin = f"({intent.kind} {intent.op_id}, by {intent.actor}, on branch main)"
    assert f"an interrupted write was already finished {origin}: it is commit {intent.commit_id}" in caplog.text
    assert "recovered" not in caplog.text


def test_maintain_does_not_count_a_finished_write(killer: Killer) -> None:
    location = killer.prepare_graph("recover_finished")
    read_intent(location)
    assert Graph(location).maintain(cleanup=False).recovered == ()
    intents, unreadable = read_intents(ObjectStore(location))
    assert (len(intents), len(unreadable)) == (0, 0)
