"""Branches and the write path: what a branch may be made from, and first writes that must stage again."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import ConflictError
from omnigraph.graph.branches import create_branch, delete_branch
from omnigraph.graph.commit import Write, write
from omnigraph.graph.intent import WriterKind
from omnigraph.graph.layout import LOCKS, RECOVERY
from omnigraph.graph.recovery.on_open import recover_every_branch, recover_on_open
from omnigraph.graph.snapshot import MAIN, read_snapshot
from omnigraph.graph.stage import Outcome, Stage
from omnigraph.graph.staged import Staged
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.killer import Killer
from tests.graph.writers import COMPANY, PERSON, Change, create, read_contents, run, stage_changes, triple

DEV = "dev"


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    run(local_location, triple(["a"]))
    create_branch(local_location, DEV, "tester", read_snapshot(local_location))
    return local_location


def test_a_branch_is_not_made_from_one_that_is_gone(graph: Location) -> None:
    """Its files are collected, so a child that nobody counted would become unreadable."""
    source = read_snapshot(graph, DEV)
    delete_branch(graph, DEV)
    with pytest.raises(ConflictError) as caught:
        create_branch(graph, "child", "tester", source)
    assert caught.value.code == "read_set_conflict"
    assert set(read_snapshot(graph).manifest.read_state().branches) == {MAIN}


def test_a_branch_is_not_made_from_a_namesake(graph: Location) -> None:
    source = read_snapshot(graph, DEV)
    delete_branch(graph, DEV)
    create_branch(graph, DEV, "tester", read_snapshot(graph))
    with pytest.raises(ConflictError):
        create_branch(graph, "child", "tester", source)


def test_a_first_write_stages_again_beside_another_first_write(graph: Location) -> None:
    """Both fork `Company`; the one that comes second forks it again, under a name that was never used."""
    changes = [Change(PERSON, insert=("slow",)), Change(COMPANY, insert=("slow",))]
    stage = stage_changes(changes)

    def stage_then_lose(at: Stage) -> Staged:
        staged = stage(at)
        run(graph, [Change(PERSON, insert=("fast",))], branch=DEV)
        return staged

    request = Write(WriterKind.LOAD, "tester", stage_then_lose, lambda again, _: stage(again))
    published = write(graph, DEV, request)
    assert published is not None
    contents = read_contents(graph, DEV)
    assert set(contents[PERSON]) == {"a", "fast", "slow"}
    assert set(contents[COMPANY]) == {"a", "slow"}
    assert set(read_contents(graph)[COMPANY]) == {"a"}


def test_effects_that_rest_on_an_older_pin_are_never_healed_away(graph: Location) -> None:
    """A revalidation that forgets to move its effects must not undo what was published meanwhile."""
    stage = stage_changes([Change(PERSON, insert=("slow",))])

    def stage_then_lose(at: Stage) -> Staged:
        staged = stage(at)
        run(graph, [Change(PERSON, insert=("fast",))])
        return staged

    def only_the_snapshot(again: Stage, staged: Staged) -> Staged:
        return again.finish(staged.effects, staged.reads, Outcome(staged.counts))

    with pytest.raises(ConflictError) as caught:
        write(graph, MAIN, Write(WriterKind.LOAD, "tester", stage_then_lose, only_the_snapshot))
    assert caught.value.code == "read_set_conflict"
    assert set(read_contents(graph)[PERSON]) == {"a", "fast"}


def test_opening_main_leaves_the_crash_of_another_branch_alone(killer: Killer) -> None:
    location = killer.prepared("fork")
    killer.kill("fork", location, "commit.before", 2)
    locks = ObjectStore(location).list(LOCKS)
    assert recover_on_open(location, MAIN) == ()
    assert ObjectStore(location).list(LOCKS) == locks
    assert len(recover_on_open(location, DEV)) == 1


def test_every_branch_is_recovered_from_anywhere(killer: Killer) -> None:
    location = killer.prepared("fork")
    killer.kill("fork", location, "commit.before", 2)
    assert [done.intent.branch for done in recover_every_branch(location)] == [DEV]
    assert ObjectStore(location).list(RECOVERY) == ()
    assert recover_every_branch(location) == ()
