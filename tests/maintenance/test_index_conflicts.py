"""Ensure indices next to other writers: commits while tasks build, and between check and commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import lance
import pytest

from omnigraph.base import limits
from omnigraph.base.errors import ConflictError
from omnigraph.base.failpoints import observed
from omnigraph.graph.branches import create_branch, delete_branch
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.optimize.index_plan import IndexStatus
from omnigraph.maintenance.optimize.indexes import BuildTask, build_segments
from omnigraph.maintenance.optimize.plan import MaintenanceRequest
from omnigraph.maintenance.optimize.run import ensure_indices
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.lance.indexes import Degraded, IndexSpec, read_coverage, read_indexes
from omnigraph.storage.location import Location
from tests.graph.writers import run_compaction
from tests.maintenance.graphs import (
    CITES,
    DOC,
    Result,
    Task,
    append,
    change,
    cites,
    count_scanned,
    create,
    delete,
    docs,
    in_place,
    open_table,
    rows_scanned,
    upsert,
)
from tests.storage.raw_writes import stage_append, stage_overwrite

SIZE = IndexSpec("size", IndexKind.BTREE)
WHERE = ("size = 3", "size = 1000003", "size > 15", "id = 'a3'", "slug = 'b3'", "tag = 'red'")


@dataclass(slots=True)
class InterruptedBuild:
    """A runner that calls `interrupt` each time segments were built, at most `times` times."""

    interrupt: Callable[[], object]
    times: int = 1
    built: list[int] = field(default_factory=list)

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = [function(task) for task in tasks]
        if function is build_segments:
            self.built.append(sum(len(task.segments) for task in tasks if isinstance(task, BuildTask)))
            if len(self.built) <= self.times:
                self.interrupt()
        return results


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    append(local_location, "a")
    append(local_location, "z")
    return local_location


def answers_are_right(graph: Location, branch: str = MAIN) -> bool:
    dataset = open_table(graph, DOC, branch)
    return all(dataset.count_rows(where) == count_scanned(dataset, where) for where in WHERE)


def test_appended_rows_do_not_invalidate_indexes(graph: Location) -> None:
    workers = InterruptedBuild(lambda: append(graph, "b", 30))
    outcome = ensure_indices(graph, MAIN, workers)
    assert outcome.commit is not None
    assert workers.built == [11]
    assert {(row.status, row.rows) for row in outcome.built} == {(IndexStatus.BUILT, 40)}
    dataset = open_table(graph, DOC)
    assert read_coverage(dataset, [SIZE]) == {SIZE: Degraded((2,), 30)}
    assert answers_are_right(graph)
    assert {row.status for row in ensure_indices(graph, MAIN, in_place).built} == {IndexStatus.EXTENDED}
    assert rows_scanned(open_table(graph, DOC), "size = 3") == 3


@pytest.mark.parametrize(
    "interrupt",
    [lambda graph: upsert(graph, "a", 5), lambda graph: delete(graph, "size < 5")],
    ids=["update", "delete"],
)
def test_rows_changed_during_the_build_are_found(graph: Location, interrupt: Callable[[Location], None]) -> None:
    workers = InterruptedBuild(lambda: interrupt(graph))
    assert ensure_indices(graph, MAIN, workers).commit is not None
    assert workers.built == [11]
    assert answers_are_right(graph)
    words = open_table(graph, DOC).native.to_table(full_text_query="a3")
    assert words.num_rows == open_table(graph, DOC).count_rows("id = 'a3'")
    ensure_indices(graph, MAIN, in_place)
    assert answers_are_right(graph)


def test_only_indexes_over_rewritten_fragments_are_built_again(graph: Location) -> None:
    workers = InterruptedBuild(lambda: run_compaction(graph, [CITES]))
    outcome = ensure_indices(graph, MAIN, workers)
    assert workers.built == [11, 4]
    assert {row.status for row in outcome.built} == {IndexStatus.BUILT}
    assert rows_scanned(open_table(graph, CITES), "src = 'a3'") == 1
    assert rows_scanned(open_table(graph, DOC), "size = 3") == 2
    assert commit_operation(graph) == "ensure_indices"


def test_rows_overwritten_during_the_build_are_indexed_again(graph: Location) -> None:
    def overwrite() -> None:
        rows = 20 - open_table(graph, DOC).count_rows()
        change(graph, {DOC: lambda dataset: stage_overwrite(dataset, docs(dataset.schema, "b", 20))}, rows=rows)

    workers = InterruptedBuild(overwrite)
    ensure_indices(graph, MAIN, workers)
    assert workers.built == [11, 7]
    assert open_table(graph, DOC).native.to_table(full_text_query="b3").num_rows == 1
    assert answers_are_right(graph)
    assert rows_scanned(open_table(graph, DOC), "slug = 'b3'") == 1


def test_table_rewritten_each_time_is_skipped_and_others_are_published(graph: Location) -> None:
    def rewrite() -> None:
        append(graph, f"m{len(workers.built)}x")
        run_compaction(graph, [CITES])

    workers = InterruptedBuild(rewrite, limits.MAINTENANCE_ATTEMPTS_MAX)
    outcome = ensure_indices(graph, MAIN, workers)
    assert len(workers.built) == limits.MAINTENANCE_ATTEMPTS_MAX
    assert outcome.commit is not None
    left = {row.table_key for row in outcome.pending if row.reason.startswith("ConflictingWrites")}
    assert left == {CITES}
    assert {row.table_key for row in outcome.built} == {DOC}
    assert read_indexes(open_table(graph, CITES)) == ()
    assert answers_are_right(graph)


def test_two_concurrent_runs_build_each_index_once(graph: Location) -> None:
    workers = InterruptedBuild(lambda: ensure_indices(graph, MAIN, in_place))
    outcome = ensure_indices(graph, MAIN, workers)
    assert outcome.commit is None
    assert {row.status for row in outcome.indexes if row.table_key == DOC} == {IndexStatus.COMPLETE}
    assert {index.segments for index in read_indexes(open_table(graph, DOC))} == {1}


def test_change_of_another_table_does_not_matter(graph: Location) -> None:
    workers = InterruptedBuild(lambda: upsert(graph, "a", 5))
    outcome = ensure_indices(graph, MAIN, workers, MaintenanceRequest(types=frozenset({"Cites"})))
    assert (workers.built, len(outcome.built)) == ([4], 4)


class TestBuildOnBranch:
    @pytest.fixture
    def dev(self, graph: Location) -> str:
        create_branch(graph, "dev", "tester", read_snapshot(graph))
        return "dev"

    def test_fork_is_kept_when_another_table_moved(self, graph: Location, dev: str) -> None:
        """The first attempt forks both tables; the first write of the branch to one of them replaces only that fork."""

        workers = InterruptedBuild(lambda: write_docs(graph, dev))
        outcome = ensure_indices(graph, dev, workers)
        assert workers.built == [11, 7]
        assert outcome.commit is not None
        assert rows_scanned(open_table(graph, CITES, dev), "src = 'a3'") == 1
        assert answers_are_right(graph, dev)
        now = read_snapshot(graph, dev)
        for alias in (DOC, CITES):
            table = now.tables[alias]
            forks = open_dataset(graph.child(table.path)).native.branches.list()
            assert set(forks) == {table.pin.branch}, "no other fork remains"

    def test_deleted_branch_is_a_conflict(self, graph: Location, dev: str) -> None:
        with pytest.raises(ConflictError):
            ensure_indices(graph, dev, InterruptedBuild(lambda: _recreate(graph, dev)))
        assert read_indexes(open_table(graph, DOC, dev)) == ()


@pytest.mark.parametrize("index", [1, 2, 8])
def test_external_append_between_check_and_commit_is_not_published(graph: Location, index: int) -> None:
    before = read_snapshot(graph)
    targets: list[str] = []

    def append_externally(effect: str, target: str) -> None:
        if effect != "dataset.index":
            return
        targets.append(target)
        if len(targets) == index:
            dataset = open_dataset(graph.child(before.tables[DOC if index < 7 else CITES].path))
            make = docs if index < 7 else cites
            lance.write_dataset(make(dataset.schema, "external", 3), dataset.native, mode="append")

    with observed(append_externally), pytest.raises(ConflictError) as caught:
        ensure_indices(graph, MAIN, in_place)
    assert caught.value.code in ("commit_displaced", "commit_race", "recovery_required")
    now = read_snapshot(graph)
    for alias in (DOC, CITES):
        dataset = open_table(graph, alias)
        assert dataset.count_rows("id LIKE 'external%'") == 0
        assert now.tables[alias].row_count == before.tables[alias].row_count == dataset.count_rows()


def commit_operation(graph: Location) -> str:
    snapshot = read_snapshot(graph)
    commit = snapshot.manifest.find_commit(snapshot.head)
    assert commit is not None
    return commit.operation


def write_docs(graph: Location, branch: str) -> None:
    change(graph, {DOC: lambda dataset: stage_append(dataset, docs(dataset.schema, "b", 7))}, rows=7, branch=branch)


def _recreate(graph: Location, branch: str) -> None:
    delete_branch(graph, branch)
    create_branch(graph, branch, "tester", read_snapshot(graph))
