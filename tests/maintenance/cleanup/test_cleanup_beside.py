"""Cleanup beside writers: whatever they do when it happens, nothing is lost, and what they are told is true.

Everything in one process: at the k-th durable call of somebody, time passes and a cleanup runs.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from omnigraph.base.errors import Applied, OmnigraphError, RefusedError
from omnigraph.base.failpoints import observed
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import WriterKind
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
        run(local_location, triple([name]), world=aging.world)
        aging.later(DAY)
    create_branch(local_location, DEV, "tester", read_snapshot(local_location), aging.world)
    run(local_location, triple(["dev"]), branch=DEV, world=aging.world)
    aging.later(DAY)
    return aging


def clean(aging: Aging, later: float = DAY) -> list[TableCleanupStats]:
    aging.later(later)
    return cleanup_all_tables(Place(aging.location), KEEP_ONE, world=aging.world)


@pytest.mark.parametrize("branch", [MAIN, DEV, "fresh"])
def test_a_write_that_is_staging_is_not_hit(aging: Aging, branch: str) -> None:
    """Its files and its fork are not referred to by anything, and its base may be the only version left."""
    location = aging.location
    if branch == "fresh":
        create_branch(location, branch, "tester", read_snapshot(location), aging.world)
    stage = stage_changes(triple(["staged"]))

    def stage_and_wait(at: StagingArea) -> StagedWrite:
        staged = stage(at)
        assert files_of(clean(aging, 0.9 * DAY)), "there was something to clean up"
        return staged

    before = read_contents(location, branch)
    assert (
        write(location, branch, WriteRequest(WriterKind.LOAD, "tester", stage_and_wait), aging.world)
        is not None
    )
    assert read_contents(location, branch)[PERSON].keys() == {*before[PERSON], "staged"}


@pytest.mark.parametrize("branch", [MAIN, DEV])
@pytest.mark.parametrize("k", range(1, WRITE_CALLS + 1))
def test_a_writer_that_sleeps_while_it_happens_is_told_the_truth(aging: Aging, branch: str, k: int) -> None:
    location = aging.location
    slept: list[int] = []

    def sleep_at(effect: str, target: str) -> None:
        slept.append(0)
        if len(slept) == k:
            with suppress(RefusedError):  # an intent is there: the write has to be finished first
                clean(aging)

    answer: Applied | None
    with observed(sleep_at):
        try:
            run(location, triple(["mine"]), branch=branch, world=aging.world)
            answer = Applied.YES
        except OmnigraphError as error:
            answer = error.applied
    assert len(slept) >= k
    run(location, triple(["after"]), branch=branch, world=aging.world)
    contents = read_contents(location, branch)
    assert len({frozenset(rows) for rows in contents.values()}) == 1
    if answer is not Applied.UNKNOWN:
        assert ("mine" in contents[PERSON]) is (answer is Applied.YES)
    clean(aging)
    assert read_contents(location, branch) == contents
    assert every_snapshot(location)


@pytest.mark.parametrize("k", range(1, BRANCH_CALLS + 1))
def test_a_branch_that_is_being_made_while_it_happens_can_be_read_or_is_not_there(
    aging: Aging, k: int
) -> None:
    """Whoever makes it and has lost the graph's lease must not publish a row whose Lance branch is gone."""
    location = aging.location
    wanted = read_contents(location)
    slept: list[int] = []

    def sleep_at(effect: str, target: str) -> None:
        slept.append(0)
        if len(slept) == k:
            clean(aging)

    with observed(sleep_at), suppress(OmnigraphError):
        create_branch(location, "new", "tester", read_snapshot(location), aging.world)
    assert len(slept) >= k
    if "new" in read_snapshot(location).state.branches:
        assert read_contents(location, "new") == wanted
    clean(aging)
    assert read_contents(location) == wanted
    if "new" in read_snapshot(location).state.branches:
        assert read_contents(location, "new") == wanted


def test_on_s3(s3_server: S3Server) -> None:
    location = s3_server.location("cleanup/graph.omni")
    create(location)
    for name in "ab":
        run(location, triple([name]))
    create_branch(location, DEV, "tester", read_snapshot(location))
    run(location, triple(["dev"]), branch=DEV)
    wanted = {name: read_contents(location, name) for name in (MAIN, DEV)}
    aging = Aging(location)
    before = aging.files()
    preview = CleanupPolicyOptions(keep_versions=1)
    world = WriteEnvironment(clock=TomorrowClock())
    rows = cleanup_all_tables(Place(location), preview, world=world)
    assert cleanup_all_tables(Place(location), KEEP_ONE, world=world) == rows
    assert before - aging.files() == set(files_of(rows)) != set()
    assert {name: read_contents(location, name) for name in wanted} == wanted
    assert files_of(cleanup_all_tables(Place(location), preview, world=world)) == []
