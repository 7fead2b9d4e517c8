"""Merging after cleanup: the bases of live branches are kept, also if they are commits of deleted branches."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import NotFoundError
from omnigraph.graph.branches import create_branch, delete_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.merge.conflicts import MergeConflictError
from omnigraph.graph.merge.run import MergeOutcome, MergeRequest, merge_branch, revert_commit
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.storage.location import Location
from tests.graph.merge.model import conflict_set
from tests.graph.writers import PERSON, Change, create, read_contents, run
from tests.maintenance.cleaning import Place, TomorrowClock

KEEP_ONE = CleanupPolicyOptions(keep_versions=1, confirm=True)


def clean(location: Location) -> None:
    """Clean up two times, because the first run leaves a fence."""
    for _ in range(2):
        cleanup_all_tables(Place(location), KEEP_ONE, environment=WriteEnvironment(clock=TomorrowClock()))


def branch(location: Location, name: str, source: str = MAIN) -> None:
    create_branch(location, name, "tester", read_snapshot(location, source))


def set_ages(location: Location, branch_name: str, **ages: int) -> None:
    run(location, [Change(PERSON, upsert=tuple(ages.items()))], branch=branch_name)


def merge(location: Location, source: str, target: str = MAIN) -> MergeOutcome:
    return merge_branch(location, MergeRequest(source=source, actor="tester", target=target)).outcome


@pytest.fixture
def graph(local_location: Location) -> Location:
    """Return a graph whose branch `x` was merged into main and `y` and deleted: its last commit is their base."""
    create(local_location)
    set_ages(local_location, MAIN, a=0, b=0, c=0)
    for name in ("x", "y"):
        branch(local_location, name)
    set_ages(local_location, "x", a=1, new=1)
    set_ages(local_location, MAIN, b=1)
    set_ages(local_location, "y", c=1)
    for target in (MAIN, "y"):
        assert merge(local_location, "x", target) is MergeOutcome.MERGED
    delete_branch(local_location, "x")
    return local_location


def test_base_is_a_commit_of_a_deleted_branch(graph: Location) -> None:
    set_ages(graph, MAIN, new=5)
    set_ages(graph, "y", a=6)
    clean(graph)
    assert merge(graph, "y") is MergeOutcome.MERGED
    assert read_contents(graph)[PERSON] == {"a": 6, "b": 1, "c": 1, "new": 5}


def test_conflict_against_the_base_of_a_deleted_branch(graph: Location) -> None:
    set_ages(graph, MAIN, a=5)
    set_ages(graph, "y", a=6)
    clean(graph)
    with pytest.raises(MergeConflictError) as caught:
        merge(graph, "y")
    assert conflict_set(caught.value.conflicts) == {("divergent_update", PERSON, "a")}
    states = caught.value.conflicts[0].states
    assert states is not None
    assert states.base is not None
    assert '"age":1' in states.base


def test_long_lived_branch_is_compared_since_its_last_merge(local_location: Location) -> None:
    """Merged repeatedly, with cleanups in between: only new changes count, and each only once."""
    create(local_location)
    set_ages(local_location, MAIN, a=0, b=0)
    branch(local_location, "long")
    for number in range(1, 5):
        set_ages(local_location, "long", a=number, **{f"l{number}": number})
        set_ages(local_location, MAIN, b=number, **{f"m{number}": number})
        done = merge_branch(local_location, MergeRequest(source="long", actor="tester"))
        assert [(table.inserted, table.updated, table.deleted) for table in done.tables] == [(1, 1, 0)]
        clean(local_location)
    back = merge_branch(local_location, MergeRequest(source=MAIN, actor="tester", target="long"))
    assert [table.adopted for table in back.tables] == [True]
    expected = {"a": 4, "b": 4, **{f"{side}{n}": n for side in "lm" for n in range(1, 5)}}
    assert read_contents(local_location)[PERSON] == expected
    assert read_contents(local_location, "long")[PERSON] == expected


def test_deleted_commit_cannot_be_reverted(local_location: Location) -> None:
    create(local_location)
    set_ages(local_location, MAIN, a=0)
    old = read_snapshot(local_location).head
    set_ages(local_location, MAIN, a=1)
    clean(local_location)
    with pytest.raises(NotFoundError) as caught:
        revert_commit(local_location, MergeRequest(source=old, actor="tester"))
    assert caught.value.code == "snapshot_collected"
