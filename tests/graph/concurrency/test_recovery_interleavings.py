"""Interleavings with recovery: killed and paused recoverers, and late Restores, commits and intents.

In every test the unfinished write is finally applied completely or not at all, acknowledged writes are kept, external
changes are neither published nor deleted, and the next write works.
"""

from __future__ import annotations

from typing import Final

import pytest

from omnigraph.base.errors import Applied
from omnigraph.storage.location import Location
from tests.graph.concurrency import jobs
from tests.graph.concurrency.actors import Actor, Answer, short_lease
from tests.graph.concurrency.checks import check_final_state, is_in_history, pending, read_drifted_tables, read_head_ids
from tests.graph.writers import (
    COMPANY,
    PERSON,
    TABLES,
    Change,
    Contents,
    apply,
    create,
    read_contents,
    run,
    run_compaction,
    triple,
)

KILL_AFTER_FIRST_TABLE: Final = "commit.before@2=kill"
"""The writer is killed after one of three tables has moved."""


@pytest.fixture
def graph(local_location: Location) -> Location:
    """Create a graph with one row in every table."""
    create(local_location)
    run(local_location, triple(["first"]))
    return local_location


def _crash(location: Location, points: str, name: str = "dead") -> None:
    with Actor(jobs.write_changes, location, triple([name]), points=points) as dead:
        dead.wait_until_killed()


def _is_outcome_unknown(answer: Answer) -> bool:
    """Return whether the outcome is unknown until the next open has recovered the write."""
    return answer.applied is Applied.UNKNOWN and answer.error == "recovery_required"


@pytest.mark.parametrize(
    "points",
    [
        "recovery.fence.before=kill",
        "recovery.fence.after=kill",
        "recovery.fence.before@2=kill",
        "recovery.fence.after@2=kill",
        "recovery.rollback.before=kill",
        "recovery.fence.before@3=kill",
        "recovery.fence.after@3=kill",
        "recovery.rollback.after=kill",
        "recovery.publish.before=kill",
        "publish.before=kill",
        "publish.after=kill",
        "recovery.delete.before=kill",
    ],
)
def test_crash_during_rollback(graph: Location, points: str) -> None:
    """A rollback that has begun is continued by the next recoverer, never turned into a roll forward."""
    before = read_contents(graph)
    _crash(graph, KILL_AFTER_FIRST_TABLE)
    with Actor(jobs.recover, graph, points=points) as recoverer:
        recoverer.wait_until_killed()
    check_final_state(graph, before)


@pytest.mark.parametrize("crash_point", [KILL_AFTER_FIRST_TABLE, "commit.before@1=kill", "commit.before@3=kill"])
@pytest.mark.parametrize("pause", ["recovery.fence.before", "recovery.fence.before@2", "recovery.fence.before@3"])
class TestRecovererPausedBeforeItsRestore:
    """It is paused between its lease check and its Restore: Lance commits a late Restore over any later version."""

    def test_successor_finished_everything(self, graph: Location, crash_point: str, pause: str) -> None:
        """The late Restore hides a published version at the head; the next writer heals it."""
        model = read_contents(graph)
        _crash(graph, crash_point)
        with Actor(jobs.recover, graph, points=f"{pause}=stop") as paused:
            paused.wait_until_stopped()
            run(graph, triple(["next"]), environment=short_lease())
            model = apply(model, triple(["next"]))
            paused.resume().answer()
        assert read_contents(graph) == model
        assert len(read_drifted_tables(graph)) == 1
        check_final_state(graph, model)

    def test_successor_crashed_too(self, graph: Location, crash_point: str, pause: str) -> None:
        """The late Restore is committed between the changes of the next killed writer."""
        model = read_contents(graph)
        _crash(graph, crash_point)
        with Actor(jobs.recover, graph, points=f"{pause}=stop") as paused:
            paused.wait_until_stopped()
            with Actor(_write_with_short_lease, graph, "next", points="commit.before@2=kill") as successor:
                successor.wait_until_killed()
            paused.resume().answer()
        check_final_state(graph, model)


def _write_with_short_lease(location: Location, name: str) -> str | None:
    commit = run(location, triple([name]), environment=short_lease())
    assert commit is not None
    return commit.id


@pytest.mark.parametrize(
    "when", ["check.done", "arm.after", "commit.before", "commit.after", "publish.before", "publish.after"]
)
def test_late_restore(graph: Location, when: str) -> None:
    """It is committed while another writer changes the same table: that write is applied completely or not at all.

    If that write was acknowledged, it is applied.
    """
    before = read_contents(graph)
    _crash(graph, "commit.before@1=kill")
    with Actor(jobs.recover, graph, points="recovery.fence.before=stop") as paused:
        paused.wait_until_stopped()
        with Actor(_write_with_short_lease, graph, "next", points=f"{when}=stop") as writer:
            writer.wait_until_stopped()
            paused.resume().answer()
            answer = writer.resume().answer()
    assert answer.error is None or answer.applied is Applied.NO, answer
    check_final_state(graph, before if answer.value is None else apply(before, triple(["next"])))


@pytest.mark.parametrize("table", [1, 2, 3])
@pytest.mark.parametrize("fence", ["recovery.fence.before", "recovery.fence.after", "recovery.fence.after@2"])
@pytest.mark.parametrize("recoverer_ends", ["killed", "resumed"])
def test_writer_continues_while_it_is_partially_fenced(
    graph: Location, table: int, fence: str, recoverer_ends: str
) -> None:
    """The paused writer continues while its recovery is incomplete: it commits at most its current table."""
    if table == 3 and "@2" in fence:
        pytest.skip("only one table is fenced in this case")
    before = read_contents(graph)
    with Actor(jobs.write_changes, graph, triple(["late"]), points=f"commit.before@{table}=stop") as writer:
        writer.wait_until_stopped()
        with Actor(_takeover, graph, points=f"{fence}=stop") as recoverer:
            recoverer.wait_until_stopped()
            assert _is_outcome_unknown(writer.resume().answer())
            if recoverer_ends == "resumed":
                recoverer.resume().answer()
    if recoverer_ends == "resumed":
        check_final_state(graph, apply(before, triple(["taken"])))
    elif (table, fence) == (3, "recovery.fence.before"):
        check_final_state(graph, apply(before, triple(["late"])))  # the last table was not fenced, so it has moved too
    else:
        check_final_state(graph, before)


def _takeover(location: Location) -> str | None:
    return _write_with_short_lease(location, "taken")


@pytest.mark.parametrize("table", [2, 3])
def test_late_commit_during_a_rollback(graph: Location, table: int) -> None:
    """The rollback has begun when the paused writer commits: it does not turn into a roll forward."""
    before = read_contents(graph)
    with Actor(jobs.write_changes, graph, triple(["late"]), points=f"commit.before@{table}=stop") as writer:
        writer.wait_until_stopped()
        with Actor(_takeover, graph, points="recovery.rollback.after=kill") as recoverer:
            recoverer.wait_until_killed()
        assert _is_outcome_unknown(writer.resume().answer())
    assert read_contents(graph) == before
    check_final_state(graph, before)


def test_late_commit_between_inspection_and_fence(graph: Location) -> None:
    """All three tables have moved, but the last one was fenced before: all three are rolled back."""
    before = read_contents(graph)
    with Actor(jobs.write_changes, graph, triple(["late"]), points="commit.before@3=stop") as writer:
        writer.wait_until_stopped()
        with Actor(_takeover, graph, points="recovery.fence.before=stop") as recoverer:
            recoverer.wait_until_stopped()
            assert _is_outcome_unknown(writer.resume().answer())
            assert recoverer.resume().answer().error is None
    check_final_state(graph, apply(before, triple(["taken"])))


@pytest.mark.parametrize("crash_point", ["commit.before@1", "commit.before@2", "commit.before@3", "publish.before"])
def test_late_armed_intent_next_to_a_partial_write(graph: Location, crash_point: str) -> None:
    """The intent of a writer paused in Arm is written next to one that has moved tables: both are recovered."""
    before = read_contents(graph)
    with Actor(jobs.write_changes, graph, triple(["late"]), points="arm.before=stop") as late:
        late.wait_until_stopped()
        with Actor(_write_with_short_lease, graph, "partial", points=f"{crash_point}=kill") as dead:
            dead.wait_until_killed()
        assert _is_outcome_unknown(late.resume().answer())
    assert len(pending(graph)) == 2
    check_final_state(graph, apply(before, triple(["partial"])) if crash_point == "publish.before" else before)


def test_late_armed_multi_commit_intent_after_other_commits(graph: Location) -> None:
    """The commits of later writers are not attributed to a compaction that was armed too late."""
    for name in ("more", "still more"):
        run(graph, triple([name]))
    with Actor(jobs.compact, graph, [PERSON], points="arm.before=stop") as late:
        late.wait_until_stopped()
        run_compaction(graph, [PERSON], short_lease())
        run(graph, [Change(PERSON, insert=("after",))])
        before = read_contents(graph)
        assert _is_outcome_unknown(late.resume().answer())
    check_final_state(graph, before)


@pytest.mark.parametrize("point", ["arm.after", "commit.before", "commit.after", "publish.before"])
def test_paused_compaction(graph: Location, point: str) -> None:
    """A paused multi-commit write is fenced like any other and changes no content."""
    for name in ("more", "still more"):
        run(graph, triple([name]))
    before = read_contents(graph)
    with Actor(jobs.compact, graph, list(TABLES), points=f"{point}=stop") as paused:
        paused.wait_until_stopped()
        run(graph, triple(["next"]), environment=short_lease())
        paused.resume().answer()
    check_final_state(graph, apply(before, triple(["next"])))


class TestExternalChangeDuringARestore:
    """It is committed between the inspection of the table and the Restore: the Restore must not hide it."""

    def test_while_rolling_back(self, graph: Location) -> None:
        before = read_contents(graph)
        _crash(graph, KILL_AFTER_FIRST_TABLE)
        with Actor(jobs.recover, graph, points="recovery.rollback.before=stop") as recoverer:
            recoverer.wait_until_stopped()
            jobs.append_externally(graph, PERSON, "external")
            recoverer.resume().answer()
        check_final_state(graph, before, drift=[PERSON])
        assert "external" in read_head_ids(graph, PERSON)

    @pytest.mark.parametrize("point", ["recovery.fence.before", "recovery.fence.after"])
    def test_while_fencing(self, graph: Location, point: str) -> None:
        before = read_contents(graph)
        _crash(graph, KILL_AFTER_FIRST_TABLE)
        with Actor(jobs.recover, graph, points=f"{point}=stop") as recoverer:
            recoverer.wait_until_stopped()
            jobs.append_externally(graph, COMPANY, "external")
            recoverer.resume().answer()
        check_final_state(graph, before, drift=[COMPANY])
        assert "external" in read_head_ids(graph, COMPANY)

    @pytest.mark.parametrize("point", ["heal.before", "recovery.fence.before", "heal.publish.before"])
    def test_while_healing(self, graph: Location, point: str) -> None:
        before = _late_restore_on_person(graph)
        with Actor(jobs.write_changes, graph, [Change(PERSON, insert=("mine",))], points=f"{point}=stop") as writer:
            writer.wait_until_stopped()
            jobs.append_externally(graph, PERSON, "external")
            failed = writer.resume().answer()
        assert failed.applied is Applied.NO, failed
        check_final_state(graph, before, drift=[PERSON])
        assert "external" in read_head_ids(graph, PERSON)


def test_paused_healer(graph: Location) -> None:
    """A writer paused in Heal before it publishes does not undo later commits."""
    before = _late_restore_on_person(graph)
    change = [Change(PERSON, insert=("mine",))]
    with Actor(jobs.write_changes, graph, change, points="heal.publish.before=stop") as healer:
        healer.wait_until_stopped()
        run(graph, triple(["next"]), environment=short_lease())
        healer.resume().answer()
    check_final_state(graph, apply(before, triple(["next"])))


def _late_restore_on_person(location: Location) -> Contents:
    """Commit a late Restore to the first table; return the published contents."""
    _crash(location, "commit.before@1=kill")
    with Actor(jobs.recover, location, points="recovery.fence.before=stop") as paused:
        paused.wait_until_stopped()
        run(location, triple(["healthy"]), environment=short_lease())
        paused.resume().answer()
    assert read_drifted_tables(location) == {PERSON}
    return read_contents(location)


def test_paused_roll_forward_is_published_once(graph: Location) -> None:
    """Two recoverers roll the same write forward: its commit is in the history exactly once."""
    before = read_contents(graph)
    _crash(graph, "publish.before=kill")
    with Actor(jobs.recover, graph, points="publish.before=stop") as paused:
        paused.wait_until_stopped()
        commit = run(graph, triple(["next"]), environment=short_lease())
        paused.resume().answer()
    assert commit is not None
    assert is_in_history(graph, commit.id)
    check_final_state(graph, apply(before, [*triple(["dead"]), *triple(["next"])]))
