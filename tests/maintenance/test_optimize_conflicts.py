"""Optimize beside other writers: what lands while workers rewrite, and between check and commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import lance
import pytest

from omnigraph.api.graph import Graph
from omnigraph.base.effects import observed
from omnigraph.base.limits import COMPACTION_NUMBER_GAP, UPKEEP_ATTEMPTS_MAX
from omnigraph.graph.snapshot import read_snapshot
from omnigraph.maintenance import OptimizeOptions, SkipReason, TableOptimizeStats, optimize_all_tables
from omnigraph.maintenance.index_tasks import build_segments
from omnigraph.maintenance.rewrite_tasks import rewrite_group
from omnigraph.storage.fragments import read_fragment_files
from omnigraph.storage.location import Location
from tests.maintenance.graphs import CITES, DOC, Result, Task, append, create, delete, open_table, upsert
from tests.maintenance.test_optimize import answers_are_right


@dataclass(slots=True)
class Interrupted:
    """Workers beside whom something happens after each run of a function, as often as it is told to."""

    meanwhile: Callable[[], object]
    after: Callable[..., object] = rewrite_group
    times: int = 1
    tasks: list[int] = field(default_factory=list)

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = [function(task) for task in tasks]
        if function is self.after:
            self.tasks.append(len(tasks))
            if len(self.tasks) <= self.times:
                self.meanwhile()
        return results


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    for prefix in "abcd":
        append(local_location, prefix)
    return local_location


def optimize(graph: Location, workers: Interrupted, rows_per_task: int = 40) -> dict[str, TableOptimizeStats]:
    how = OptimizeOptions(rows_per_task=rows_per_task)
    return {row.table_key: row for row in optimize_all_tables(Graph(graph), how, workers)}


def ids(graph: Location) -> list[str]:
    return sorted(str(name) for name in open_table(graph, DOC).read(["id"])["id"].to_pylist())


def test_appends_cost_nothing(graph: Location) -> None:
    workers = Interrupted(lambda: append(graph, "e"))
    rows = optimize(graph, workers)
    assert workers.tasks == [4]
    assert rows[DOC].committed
    assert (rows[DOC].fragments_removed, rows[DOC].skipped) == (4, None)
    assert len(ids(graph)) == 100
    assert max(read_fragment_files(open_table(graph, DOC))) >= COMPACTION_NUMBER_GAP
    assert answers_are_right(graph)


@pytest.mark.parametrize("after", [rewrite_group, build_segments])
@pytest.mark.parametrize(
    "meanwhile", [lambda graph: delete(graph, "id = 'a3'"), lambda graph: upsert(graph, "a", 4)]
)
def test_a_change_costs_only_its_own_group_and_nothing_comes_back(
    graph: Location, meanwhile: Callable[[Location], None], after: Callable[..., object]
) -> None:
    """Four groups of two fragments, two in each table; one of them has the row."""
    workers = Interrupted(lambda: meanwhile(graph), after)
    rewrites: list[int] = []

    def counted(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        rewrites.extend([len(tasks)] if function is rewrite_group else [])
        return workers(function, tasks)

    how = OptimizeOptions(rows_per_task=40)
    rows = {row.table_key: row for row in optimize_all_tables(Graph(graph), how, counted)}
    assert rewrites == [4, 1], "only the group that was lost is rewritten again"
    assert rows[DOC].committed
    assert rows[DOC].skipped is None
    assert answers_are_right(graph)
    assert ("a3" in ids(graph)) == (len(ids(graph)) == 80)


def test_a_table_that_is_changed_every_time_is_left_and_the_others_publish(graph: Location) -> None:
    left = iter(range(20))
    workers = Interrupted(lambda: delete(graph, f"id = 'a{next(left)}'"), times=99)
    rows = optimize(graph, workers, rows_per_task=1000)
    assert len(workers.tasks) == UPKEEP_ATTEMPTS_MAX
    assert rows[DOC].skipped is SkipReason.CONFLICTING_WRITES
    assert not rows[DOC].committed
    assert rows[CITES].committed
    assert len(ids(graph)) == 80 - UPKEEP_ATTEMPTS_MAX
    assert read_snapshot(graph).tables[CITES].pin.version == rows[CITES].manifest_version
    assert optimize(graph, Interrupted(lambda: None), rows_per_task=1000)[DOC].committed
    assert answers_are_right(graph)


def test_two_runs_at_once_end_as_one(graph: Location) -> None:
    workers = Interrupted(lambda: optimize(graph, Interrupted(lambda: None)), build_segments)
    optimize(graph, workers)
    assert len(ids(graph)) == 80
    assert answers_are_right(graph)
    assert not any(row.committed for row in optimize(graph, Interrupted(lambda: None)).values())


def test_drift_that_begins_meanwhile_leaves_the_others(graph: Location) -> None:
    workers = Interrupted(lambda: open_table(graph, DOC).newest().movable().delete("id = 'a3'"))
    rows = optimize(graph, workers)
    assert rows[DOC].skipped is SkipReason.DRIFT_NEEDS_REPAIR
    assert rows[DOC].lance_head_version == rows[DOC].manifest_version + 1
    assert rows[CITES].committed


@pytest.mark.parametrize("first", ["dataset.commit", "dataset.index"])
def test_a_foreign_compaction_that_lands_first_is_not_told_as_ours(graph: Location, first: str) -> None:
    """Before our own rewrite, or before our indexes and over what we had just rewritten."""
    place = graph.child(read_snapshot(graph).tables[DOC].path).uri
    landed: list[int] = []

    def foreign(effect: str, target: str) -> None:
        if (effect, target) == (first, place) and not landed:
            landed.append(0)
            dataset = lance.dataset(place)
            dataset.optimize.compact_files(target_rows_per_fragment=len(ids(graph)))
            landed.append(dataset.version)

    with observed(foreign):
        rows = optimize(graph, Interrupted(lambda: None))
    assert len(landed) == 2
    row = rows[DOC]
    assert {rows[alias].skipped for alias in (DOC, CITES)} == {SkipReason.CONFLICTING_WRITES}
    assert (row.committed, row.fragments_removed, row.fragments_added, row.indexes_built) == (False, 0, 0, ())
    assert {pending.property for pending in row.pending_indexes} >= {"id", "slug", "size"}
    published = read_snapshot(graph).tables[DOC].pin.version
    assert published == row.manifest_version >= landed[1], "which changed no row either"
    assert len(ids(graph)) == 80
    again = optimize(graph, Interrupted(lambda: None))
    assert (again[DOC].skipped, again[DOC].committed) == (None, True)
    assert answers_are_right(graph)


def test_the_seconds_of_a_table_are_those_of_its_own_work(graph: Location) -> None:
    """Workers say how long they took; here each says so many seconds."""

    def slow(function: Callable[[Task], Any], tasks: Sequence[Any]) -> list[Any]:
        return [replace(function(task), seconds=1000.0 if _is_of(task, graph) else 1.0) for task in tasks]

    rows = {row.table_key: row for row in optimize_all_tables(Graph(graph), OptimizeOptions(), slow)}
    assert rows[DOC].seconds >= 2000
    assert 2 <= rows[CITES].seconds < 1000
    assert all(row.seconds < 1 for row in rows.values() if not row.indexes_built)


def _is_of(task: Any, graph: Location) -> bool:
    table = task.table if getattr(task, "owner", None) is None else task.owner
    return str(table.location.uri).startswith(graph.child("nodes").uri)
