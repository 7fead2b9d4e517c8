"""Cleanup next to writers: at any time of their work nothing is lost, and their results are correct.

Everything runs in one process: at the k-th durable call of a writer, time passes and a cleanup runs.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from omnigraph.base.errors import Applied, OmnigraphError, RefusedError
from omnigraph.base.failpoints import observed
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions, TableCleanupStats
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.storage.location import Location
from tests.conftest import S3Server
from tests.graph.writers import PERSON, create, read_contents, run, stage_changes, triple
from tests.maintenance.cleaning import DAY, Aging, Place, TomorrowClock, every_snapshot, files_of

DEV = "dev"
KEEP_ONE = CleanupPolicyOptions(keep_versions=1, confirm=True)
WRITE_CALLS = 12
BRANCH_CALLS = 5


@pytest.fixture
def aging(local_location: Location) -> Aging:
    aging = Aging(local_location)
    create(local_location)
    for name in "abc":
        run(local_location, triple([name]), environment=aging.environment)
        aging.later(DAY)
    create_branch(local_location, DEV, "tester", read_snapshot(local_location), aging.environment)
    run(local_location, triple(["dev"]), branch=DEV, environment=aging.environment)
    aging.later(DAY)
    return aging


def clean(aging: Aging, later: float = DAY) -> list[TableCleanupStats]:
    aging.later(later)
    return cleanup_all_tables(Place(aging.location), KEEP_ONE, environment=aging.environment)


@pytest.mark.parametrize("branch", [MAIN, DEV, "fresh"])
def test_staging_write_is_not_affected(aging: Aging, branch: str) -> None:
    """Nothing references its files and its fork, and its base may be the only version left."""
    location = aging.location
    if branch == "fresh":
        create_branch(location, branch, "tester", read_snapshot(location), aging.environment)
    stage = stage_changes(triple(["staged"]))

    def stage_and_wait(area: StagingArea) -> StagedWrite:
        staged = stage(area)
        assert files_of(clean(aging, 0.9 * DAY)), "there was something to clean up"
        return staged

    before = read_contents(location, branch)
    assert (
        write(
            location,
            branch,
            WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage_and_wait),
            aging.environment,
        )
        is not None
    )
    assert read_contents(location, branch)[PERSON].keys() == {*before[PERSON], "staged"}


@pytest.mark.parametrize("branch", [MAIN, DEV])
@pytest.mark.parametrize("k", range(1, WRITE_CALLS + 1))
def test_writer_that_sleeps_during_cleanup_gets_a_correct_result(aging: Aging, branch: str, k: int) -> None:
    location = aging.location
    calls: list[int] = []

    def sleep_at(effect: str, target: str) -> None:
        calls.append(0)
        if len(calls) == k:
            with suppress(RefusedError):  # an intent exists: the write must be finished first
                clean(aging)

    applied: Applied | None
    with observed(sleep_at):
        try:
            run(location, triple(["mine"]), branch=branch, environment=aging.environment)
            applied = Applied.YES
        except OmnigraphError as error:
            applied = error.applied
    assert len(calls) >= k
    run(location, triple(["after"]), branch=branch, environment=aging.environment)
    contents = read_contents(location, branch)
    assert len({frozenset(rows) for rows in contents.values()}) == 1
    if applied is not Applied.UNKNOWN:
        assert ("mine" in contents[PERSON]) is (applied is Applied.YES)
    clean(aging)
    assert read_contents(location, branch) == contents
    assert every_snapshot(location)


@pytest.mark.parametrize("k", range(1, BRANCH_CALLS + 1))
def test_branch_created_during_cleanup_is_readable_or_missing(aging: Aging, k: int) -> None:
    """A writer that lost the graph's lease must not publish a branch whose Lance branch was deleted."""
    location = aging.location
    expected = read_contents(location)
    calls: list[int] = []

    def sleep_at(effect: str, target: str) -> None:
        calls.append(0)
        if len(calls) == k:
            clean(aging)

    with observed(sleep_at), suppress(OmnigraphError):
        create_branch(location, "new", "tester", read_snapshot(location), aging.environment)
    assert len(calls) >= k
    if "new" in read_snapshot(location).state.branches:
        assert read_contents(location, "new") == expected
    clean(aging)
    assert read_contents(location) == expected
    if "new" in read_snapshot(location).state.branches:
        assert read_contents(location, "new") == expected


def test_on_s3(s3_server: S3Server) -> None:
    location = s3_server.location("cleanup/graph.omni")
    create(location)
    for name in "ab":
        run(location, triple([name]))
    create_branch(location, DEV, "tester", read_snapshot(location))
    run(location, triple(["dev"]), branch=DEV)
    expected = {name: read_contents(location, name) for name in (MAIN, DEV)}
    aging = Aging(location)
    before = aging.files()
    preview = CleanupPolicyOptions(keep_versions=1)
    environment = WriteEnvironment(clock=TomorrowClock())
    rows = cleanup_all_tables(Place(location), preview, environment=environment)
    assert cleanup_all_tables(Place(location), KEEP_ONE, environment=environment) == rows
    assert before - aging.files() == set(files_of(rows)) != set()
    assert {name: read_contents(location, name) for name in expected} == expected
    assert files_of(cleanup_all_tables(Place(location), preview, environment=environment)) == []
