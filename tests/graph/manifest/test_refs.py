"""Earlier states by commit, by version and by time; states that cleanup deleted are reported as such."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omnigraph.base.errors import NotFoundError, OmnigraphError, UsageError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.graph.manifest.refs import SnapshotSelector, parse_timestamp, read_state, readable_commits
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.pipeline.datasource.options import ReadOptions
from omnigraph.pipeline.datasource.read import plan_read
from omnigraph.pipeline.export.run import ExportOptions, export
from omnigraph.pipeline.export.target import ExportTarget, TargetKind
from omnigraph.storage.location import Location
from tests.graph.writers import PERSON, Change, create, run, snapshot_contents
from tests.maintenance.cleaning import Place, TomorrowClock
from tests.pipeline.exporting import InProcessRunner

BRANCHES = (MAIN, "dev")
SELECTORS: dict[str, Callable[[CommitRecord], SnapshotSelector]] = {
    "commit": lambda made: SnapshotSelector(commit=made.id.lower()),
    "version": lambda made: SnapshotSelector(version=made.manifest_hint.version),
    "time": lambda made: SnapshotSelector(time_us=made.created_us),
}


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    run(local_location, [Change(PERSON, upsert=(("a", 0),))])
    create_branch(local_location, "dev", "tester", read_snapshot(local_location))
    return local_location


def write(location: Location, branch: str, age: int) -> CommitRecord:
    made = run(location, [Change(PERSON, upsert=(("a", age),))], branch=branch)
    assert made is not None
    return made


@pytest.mark.parametrize("branch", BRANCHES)
def test_each_selector_reads_the_earlier_state(branch: str, graph: Location) -> None:
    made = [write(graph, branch, age) for age in (1, 2, 3)]
    for age, commit in enumerate(made, start=1):
        for name, way in SELECTORS.items():
            assert snapshot_contents(read_state(graph, branch, way(commit)))[PERSON] == {"a": age}, name
    assert snapshot_contents(read_state(graph, branch))[PERSON] == {"a": 3}


@pytest.mark.parametrize("branch", BRANCHES)
def test_deleted_state_is_snapshot_collected(branch: str, graph: Location) -> None:
    """For every selector, in queries, exports and Spark: another state is never returned."""
    made = [write(graph, branch, age) for age in (1, 2, 3)]
    policy = CleanupPolicyOptions(keep_versions=1, confirm=True)
    cleanup_all_tables(Place(graph), policy, environment=WriteEnvironment(clock=TomorrowClock()))
    newest = read_state(graph, branch)
    readable = readable_commits(newest, newest.manifest.read_commits())
    assert made[2].id in readable
    assert readable.isdisjoint({made[0].id, made[1].id})
    for way in SELECTORS.values():
        when = way(made[1])
        reads: list[Callable[[], object]] = [
            lambda when=when: read_state(graph, branch, when),  # type: ignore[misc]
            lambda when=when: export(  # type: ignore[misc]
                graph,
                ExportOptions(target=ExportTarget(TargetKind.STREAM), branch=branch, selector=when),
                InProcessRunner(),
            ),
            lambda when=when: plan_read(ReadOptions(root=graph, type="Person", branch=branch, selector=when)),  # type: ignore[misc]
        ]
        for read in reads:
            with pytest.raises(NotFoundError) as caught:
                read()
            assert caught.value.code == "snapshot_collected"
    assert snapshot_contents(read_state(graph, branch, SELECTORS["commit"](made[2])))[PERSON] == {"a": 3}


@pytest.mark.parametrize(
    ("when", "code"),
    [
        (lambda: SnapshotSelector(version=1_000), "manifest_version_missing"),
        (lambda: SnapshotSelector(commit="01KA1F0Z5Q8W9V3N7R2T4Y6B8D"), "commit_missing"),
        (lambda: SnapshotSelector(time_us=1), "moment_too_early"),
        (lambda: SnapshotSelector("01KA1F0Z5Q8W9V3N7R2T4Y6B8D", 3), "snapshot_twice"),
    ],
)
def test_invalid_selector_is_an_error(when: Callable[[], SnapshotSelector], code: str, graph: Location) -> None:
    with pytest.raises(OmnigraphError) as caught:
        read_state(graph, MAIN, when())
    assert caught.value.code == code
    assert caught.value.hint


@pytest.mark.parametrize("text", ["noon", "2024-05-32", "2024-05-31T12:00:00", ""])
def test_time_requires_an_offset(text: str) -> None:
    with pytest.raises(UsageError, match="invalid time"):
        parse_timestamp(text)
