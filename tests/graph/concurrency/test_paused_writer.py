"""A writer is paused past its lease, at every durable step, and continues after its successors have written.

It cannot publish over their commits. Its result is true: an acknowledged commit is in the history with all its rows,
and any other commit is there completely or not at all.
"""

from __future__ import annotations

from typing import Final

import pytest

from omnigraph.base.errors import Applied
from omnigraph.base.ids import CommitId, OperationId, new_ulid
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.publish import CommitDraft, ManifestChange, Publisher, PublishTarget, publish
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from tests.graph.concurrency import jobs
from tests.graph.concurrency.actors import Actor, Answer, short_lease
from tests.graph.concurrency.checks import check_final_state, is_in_history, linear_history
from tests.graph.writers import Change, apply, create, read_contents, run, triple

STEPS: Final = (
    "lease.acquire.before",
    "lease.acquire.after",
    "check.done",
    "arm.before",
    "arm.after",
    "commit.before",
    "commit.before@2",
    "commit.before@3",
    "commit.after@3",
    "publish.before",
    "publish.after",
    "disarm.before",
    "disarm.after",
    "lease.release.before",
)
MINE: Final = triple(["mine"])
SUCCESSORS: Final = ("next", "second", "third")


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    run(local_location, triple(["first"]))
    return local_location


@pytest.mark.parametrize("collected", [False, True], ids=["kept", "collected"])
@pytest.mark.parametrize("step", STEPS)
def test_writer_paused_past_its_lease(graph: Location, step: str, collected: bool) -> None:
    """Also if the manifest versions that it read, and later ones, are deleted, so that their numbers are free."""
    before = read_contents(graph)
    others = [change for name in SUCCESSORS for change in triple([name])]
    with Actor(jobs.write_changes, graph, MINE, points=f"{step}=stop") as paused:
        paused.wait_until_stopped()
        for name in SUCCESSORS:
            run(graph, triple([name]), environment=short_lease())
        if collected:
            jobs.delete_old_manifests(graph)
            assert len(open_dataset(graph.child(MANIFEST)).versions()) == 1
        answer = paused.resume().answer()
    _check_answer(graph, answer)
    happened = "mine" in read_contents(graph)["node:Person"]
    check_final_state(graph, apply(before, [*MINE, *others]) if happened else apply(before, others))


def _check_answer(location: Location, answer: Answer) -> None:
    happened = "mine" in read_contents(location)["node:Person"]
    if answer.error is None:
        assert happened
        assert is_in_history(location, answer.value)
    elif answer.applied is Applied.NO:
        assert not happened
    else:
        assert answer.applied is Applied.UNKNOWN


@pytest.mark.parametrize("step", ["arm.after", "commit.before@2", "publish.before"])
def test_two_writers_paused_at_the_same_time(graph: Location, step: str) -> None:
    """The second writer was paused while it recovered the first; both continue after a third has finished."""
    before = read_contents(graph)
    with Actor(jobs.write_changes, graph, MINE, points=f"{step}=stop") as first:
        first.wait_until_stopped()
        with Actor(_write_as_second, graph, points="recovery.publish.before=stop") as second:
            second.wait_until_stopped()
            run(graph, triple(["third"]), environment=short_lease())
            answers = [first.resume().answer(), second.resume().answer()]
    assert {answer.error for answer in answers} <= {"recovery_required", "lease_lost"}
    forward = step == "publish.before"
    changes = [*MINE, *triple(["third"])] if forward else triple(["third"])
    check_final_state(graph, apply(before, changes))


def _write_as_second(location: Location) -> None:
    run(location, triple(["second"]), environment=short_lease())


@pytest.mark.parametrize("collected", [False, True], ids=["kept", "collected"])
@pytest.mark.parametrize("missed", [1, 3, 12])
def test_publisher_paused_during_other_commits(graph: Location, missed: int, collected: bool) -> None:
    """It detects the conflict also if every conflicting version is deleted, and then retries or fails.

    Lance does not detect a conflict with a deleted version and would create duplicate rows.
    """
    with Actor(jobs.create_from_main, graph, "b", points="publish.before=stop") as paused:
        paused.wait_until_stopped()
        for number in range(missed):
            run(graph, [Change("node:Company", insert=(f"missed {number}",))])
        if collected:
            jobs.delete_old_manifests(graph)
        answer = paused.resume().answer()
    branches = read_snapshot(graph).manifest.read_state().branches
    if answer.error is None:
        assert branches["b"].id == answer.value
    else:
        assert collected
        assert "b" not in branches
    assert len(linear_history(graph)) == 2 + missed
    check_final_state(graph, read_contents(graph))


def test_publisher_gives_up_after_repeated_conflicts(graph: Location) -> None:
    """The number of retries is bounded, and the error reports that nothing was applied."""
    now = read_snapshot(graph)
    draft = CommitDraft(
        id=CommitId(new_ulid()),
        operation=WriteOperation.LOAD,
        operation_id=OperationId(new_ulid()),
        actor="tester",
        created_us=1,
    )

    def publish_first() -> None:
        run(graph, [Change("node:Company", insert=(new_ulid(),))])

    target = PublishTarget(graph, MAIN, now.branch.id, None)
    with pytest.raises(Exception, match="other writers published first") as failed:
        publish(target, ManifestChange(commit=draft), (), Publisher(publish_first, clock=_ClockWithoutWaits()))
    assert getattr(failed.value, "applied", None) is Applied.NO
    assert not is_in_history(graph, draft.id)


class _ClockWithoutWaits:
    """A clock whose waits take no time."""

    def now_us(self) -> int:
        return WriteEnvironment().clock.now_us()

    def monotonic(self) -> float:
        return WriteEnvironment().clock.monotonic()

    def sleep(self, seconds: float) -> None:
        pass
