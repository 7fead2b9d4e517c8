"""Branches and the write path: valid bases of a branch, and first writes that must be staged again."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.base.errors import Applied, ConflictError, ContentError
from omnigraph.graph.branches import create_branch, create_branch_with_write, delete_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.layout import LOCKS, MANIFEST, RECOVERY
from omnigraph.graph.manifest.records import BranchParent, WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.recovery.run import recover_every_branch, recover_on_open
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.lance.durability import IncompleteFileError
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.killer import Killer
from tests.graph.crash.observe import find_leftovers
from tests.graph.writers import (
    COMPANY,
    PERSON,
    Change,
    apply,
    create,
    read_contents,
    run,
    snapshot_contents,
    stage_changes,
    triple,
)
from tests.maintenance.cleaning import Place, TomorrowClock

DEV = "dev"


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    run(local_location, triple(["a"]))
    create_branch(local_location, DEV, "tester", read_snapshot(local_location))
    return local_location


def test_branch_is_not_created_from_a_deleted_branch(graph: Location) -> None:
    """Cleanup deletes its files, so a child that cleanup does not know would become unreadable."""
    source = read_snapshot(graph, DEV)
    delete_branch(graph, DEV)
    with pytest.raises(ConflictError) as caught:
        create_branch(graph, "child", "tester", source)
    assert caught.value.code == "read_set_conflict"
    assert set(read_snapshot(graph).manifest.read_state().branches) == {MAIN}


def test_branch_is_not_created_from_another_branch_of_the_same_name(graph: Location) -> None:
    source = read_snapshot(graph, DEV)
    delete_branch(graph, DEV)
    create_branch(graph, DEV, "tester", read_snapshot(graph))
    with pytest.raises(ConflictError):
        create_branch(graph, "child", "tester", source)


def stage_and_reject(area: StagingArea) -> StagedWrite:
    stage_changes([Change(PERSON, insert=("x",))])(area)
    raise ContentError("a row is wrong", code="load_rejected", hint="")


def lance_branches(root: Location) -> set[str]:
    """Return the Lance branches of every table and of the manifest."""
    tables = [root.child(table.path) for table in read_snapshot(root).tables.values()]
    return {name for location in (root.child(MANIFEST), *tables) for name in open_dataset(location).lance_branches()}


def test_branch_is_created_with_its_first_write_or_not_at_all(graph: Location) -> None:
    changes = [Change(PERSON, insert=("x",))]
    before = lance_branches(graph)
    with pytest.raises(ContentError) as rejected:
        create_branch_with_write(
            graph, "new", DEV, WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage_and_reject)
        )
    assert rejected.value.applied is Applied.NO
    assert set(read_snapshot(graph).state.branches) == {MAIN, DEV}
    assert lance_branches(graph) == before
    run(graph, [Change(COMPANY, insert=("dev",))], branch=DEV)
    made = create_branch_with_write(
        graph, "new", DEV, WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage_changes(changes))
    )
    assert made is not None
    now, base = read_snapshot(graph, "new"), read_snapshot(graph, DEV)
    assert (now.head, now.branch.parent) == (made.id, BranchParent(DEV, base.branch.id, base.head))
    assert made.parent == base.head
    assert snapshot_contents(now) == apply(snapshot_contents(base), changes)
    assert now.tables[PERSON].owner == now.branch.id
    assert now.tables[COMPANY] == base.tables[COMPANY]
    run(graph, [Change(PERSON, insert=("y",))], branch="new")
    assert find_leftovers(graph, WriteEnvironment()) == []


def test_first_write_with_a_missing_file_is_not_published(graph: Location) -> None:
    """A worker that writes to another store has this effect."""
    stage = stage_changes([Change(PERSON, insert=("x",))])
    table = Path(graph.child(read_snapshot(graph, DEV).tables[PERSON].path).uri)

    def stage_and_be_overtaken(area: StagingArea) -> StagedWrite | None:
        before = set(table.rglob("data/*.lance"))
        staged = stage(area)
        for file in set(table.rglob("data/*.lance")) - before:
            file.unlink()
        return staged

    with pytest.raises(IncompleteFileError) as raised:
        create_branch_with_write(
            graph, "new", DEV, WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage_and_be_overtaken)
        )
    assert raised.value.code == "file_missing"
    assert set(read_snapshot(graph).state.branches) == {MAIN, DEV}


def test_branch_name_is_taken_while_the_first_write_is_staged(graph: Location) -> None:
    def stage_and_be_overtaken(area: StagingArea) -> StagedWrite:
        staged = stage_changes([Change(PERSON, insert=("x",))])(area)
        create_branch(graph, "new", "other", read_snapshot(graph))
        return staged

    before = lance_branches(graph)
    with pytest.raises(ConflictError) as caught:
        create_branch_with_write(
            graph, "new", MAIN, WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage_and_be_overtaken)
        )
    assert (caught.value.code, caught.value.applied) == ("branch_exists", Applied.NO)
    other = read_snapshot(graph, "new").branch
    assert (other.creator, lance_branches(graph)) == ("other", before | {other.lance_branch})


def test_base_is_deleted_while_the_first_write_is_staged(graph: Location) -> None:
    def stage_and_be_overtaken(area: StagingArea) -> StagedWrite:
        staged = stage_changes([Change(PERSON, insert=("x",))])(area)
        delete_branch(graph, DEV)
        return staged

    with pytest.raises(ConflictError) as caught:
        create_branch_with_write(
            graph, "new", DEV, WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage_and_be_overtaken)
        )
    assert (caught.value.code, caught.value.applied) == ("read_set_conflict", Applied.NO)
    assert set(read_snapshot(graph).state.branches) == {MAIN}


def test_cleanup_keeps_the_forks_of_a_staged_first_write(graph: Location) -> None:
    """The branch does not exist yet, so the forks are named after the branch that it is created from."""

    def wait(area: StagingArea) -> StagedWrite:
        staged = stage_changes([Change(PERSON, insert=("x",))])(area)
        options = CleanupPolicyOptions(keep_versions=3, confirm=True)
        cleanup_all_tables(Place(graph), options, environment=WriteEnvironment(clock=TomorrowClock()))
        return staged

    create_branch_with_write(graph, "new", MAIN, WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=wait))
    assert "x" in read_contents(graph, "new")[PERSON]


def test_first_write_without_rows_creates_the_branch(graph: Location) -> None:
    assert (
        create_branch_with_write(
            graph, "new", MAIN, WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=lambda _: None)
        )
        is None
    )
    assert read_snapshot(graph, "new").head == read_snapshot(graph).head


def test_first_write_is_staged_again_after_a_concurrent_first_write(graph: Location) -> None:
    """Both fork `Company`; the second write forks it again, with a name that was never used."""
    changes = [Change(PERSON, insert=("slow",)), Change(COMPANY, insert=("slow",))]
    stage = stage_changes(changes)

    def stage_and_be_overtaken(area: StagingArea) -> StagedWrite:
        staged = stage(area)
        run(graph, [Change(PERSON, insert=("fast",))], branch=DEV)
        return staged

    request = WriteRequest(
        kind=WriteOperation.LOAD, actor="tester", stage=stage_and_be_overtaken, restage=lambda again, _: stage(again)
    )
    published = write(graph, DEV, request)
    assert published is not None
    contents = read_contents(graph, DEV)
    assert set(contents[PERSON]) == {"a", "fast", "slow"}
    assert set(contents[COMPANY]) == {"a", "slow"}
    assert set(read_contents(graph)[COMPANY]) == {"a"}


def test_effects_based_on_an_older_pin_are_rejected(graph: Location) -> None:
    """A revalidation that does not move its effects must not undo what was published since the staging."""
    stage = stage_changes([Change(PERSON, insert=("slow",))])

    def stage_and_be_overtaken(area: StagingArea) -> StagedWrite:
        staged = stage(area)
        run(graph, [Change(PERSON, insert=("fast",))])
        return staged

    def keep_old_effects(again: StagingArea, staged: StagedWrite) -> StagedWrite:
        return again.finish(staged.effects, staged.reads, staged.counts)

    with pytest.raises(ConflictError) as caught:
        write(
            graph,
            MAIN,
            WriteRequest(
                kind=WriteOperation.LOAD, actor="tester", stage=stage_and_be_overtaken, restage=keep_old_effects
            ),
        )
    assert caught.value.code == "read_set_conflict"
    assert set(read_contents(graph)[PERSON]) == {"a", "fast"}


def test_opening_main_does_not_recover_another_branch(killer: Killer) -> None:
    location = killer.prepare_graph("fork")
    killer.kill("fork", location, "commit.before", 2)
    locks = ObjectStore(location).list(LOCKS)
    assert recover_on_open(location, MAIN) == ()
    assert ObjectStore(location).list(LOCKS) == locks
    assert len(recover_on_open(location, DEV)) == 1


def test_every_branch_is_recovered(killer: Killer) -> None:
    location = killer.prepare_graph("fork")
    killer.kill("fork", location, "commit.before", 2)
    assert [done.intent.branch for done in recover_every_branch(location)] == [DEV]
    assert ObjectStore(location).list(RECOVERY) == ()
    assert recover_every_branch(location) == ()
