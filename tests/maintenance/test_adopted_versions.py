"""A merge pins a version of main on its branch. Cleanup deletes that version before the merge, or not at all."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import NotFoundError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import LeaseBusyError, LeaseTerms
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.storage.location import Location
from tests.graph.concurrency import jobs
from tests.graph.concurrency.actors import Actor
from tests.graph.writers import PERSON, Change, create, read_contents, run
from tests.maintenance.cleaning import Place, TomorrowClock

KEEP_ONE = CleanupPolicyOptions(keep_versions=1, confirm=True)


def tomorrow(wait_seconds: float = 20.0) -> WriteEnvironment:
    return WriteEnvironment(clock=TomorrowClock(), terms=LeaseTerms(wait_seconds=wait_seconds))


@pytest.fixture
def graph(local_location: Location) -> Location:
    """Return a graph with a branch, and with a commit of main that the branch does not have."""
    create(local_location)
    run(local_location, [Change(PERSON, insert=("a",))])
    create_branch(local_location, "review", "tester", read_snapshot(local_location))
    run(local_location, [Change(PERSON, insert=("b",))])
    return local_location


def test_version_deleted_during_a_merge_is_a_conflict(graph: Location) -> None:
    with Actor(jobs.merge, graph, "main", "review", points="lease.acquire.before=stop") as merge:
        merge.wait_until_stopped()
        for name in ("c", "d"):
            run(graph, [Change(PERSON, insert=(name,))])
        rows = cleanup_all_tables(Place(graph), KEEP_ONE, environment=tomorrow())
        assert any(row.old_versions_removed for row in rows if row.table_key == PERSON)
        assert merge.resume().answer().error == "read_set_conflict"
    assert set(read_contents(graph, "review")[PERSON]) == {"a"}
    assert jobs.merge(graph, "main", "review") is not None
    assert set(read_contents(graph, "review")[PERSON]) == {"a", "b", "c", "d"}


def test_cleanup_waits_for_a_merge_that_has_read_main(graph: Location) -> None:
    with Actor(jobs.merge, graph, "main", "review", points="publish.before=stop") as merge:
        merge.wait_until_stopped()
        run(graph, [Change(PERSON, insert=("c",))])
        with pytest.raises(LeaseBusyError):
            cleanup_all_tables(Place(graph), KEEP_ONE, environment=tomorrow(wait_seconds=0.5))
        assert merge.resume().answer().error is None
    cleanup_all_tables(Place(graph), KEEP_ONE, environment=tomorrow())
    assert set(read_contents(graph, "review")[PERSON]) == {"a", "b"}


def test_branch_cannot_be_created_from_a_deleted_version(graph: Location) -> None:
    source = read_snapshot(graph)
    for name in ("c", "d"):
        run(graph, [Change(PERSON, insert=(name,))])
    cleanup_all_tables(Place(graph), KEEP_ONE, environment=tomorrow())
    with pytest.raises(NotFoundError):
        create_branch(graph, "late", "tester", source)
