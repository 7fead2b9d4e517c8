"""Optimize beside other writers: what lands while workers rewrite, and between check and commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import lance
import pytest

from omnigraph.api.graph import Graph
from omnigraph.base import limits
from omnigraph.base.failpoints import observed
from omnigraph.base.ids import new_ulid
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.optimize.indexes import build_segments
from omnigraph.maintenance.optimize.options import OptimizeOptions, SkipReason, TableOptimizeStats
from omnigraph.maintenance.optimize.rewrite import rewrite_group
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.maintenance.schema_apply import SchemaRequest, apply_schema
from omnigraph.storage.lance.fragments import read_fragment_files
from omnigraph.storage.location import Location
from tests.graph.writers import run_compaction
from tests.maintenance.graphs import (
    CITES,
    DOC,
    SCHEMA,
    Result,
    Task,
    append,
    change,
    create,
    delete,
    docs,
    in_place,
    open_table,
    upsert,
)
from tests.maintenance.optimize.test_optimize import answers_are_right
from tests.storage.raw_writes import stage_append, stage_overwrite


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


def identities(graph: Location) -> list[Any]:
    """Every row with its identity and the versions that created and changed it."""
    columns = ["id", "size", "title", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = open_table(graph, DOC).native.scanner(columns=columns, with_row_id=True).to_table()
    return rows.sort_by("id").to_pylist()


def test_appends_cost_nothing(graph: Location) -> None:
    workers = Interrupted(lambda: append(graph, "e"))
    rows = optimize(graph, workers)
    assert workers.tasks == [4]
    assert rows[DOC].committed
    assert (rows[DOC].fragments_removed, rows[DOC].skipped) == (4, None)
    assert len(ids(graph)) == 100
    assert max(read_fragment_files(open_table(graph, DOC))) >= limits.COMPACTION_NUMBER_GAP
    assert answers_are_right(graph)


@pytest.mark.parametrize("after", [rewrite_group, build_segments])
@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda graph: delete(graph, "id = 'a3'"),
        lambda graph: upsert(graph, "a", 4),
        lambda graph: delete(graph, "id LIKE 'b%'"),  # a whole fragment
        lambda graph: upsert(graph, "c", 20),  # a whole fragment, whose rows move to another one
    ],
    ids=["delete", "update", "delete_fragment", "update_fragment"],
)
def test_a_change_of_rows_costs_no_group_and_nothing_comes_back(
    graph: Location, meanwhile: Callable[[Location], None], after: Callable[..., object]
) -> None:
    """Four groups of two fragments, two in each table; one of them has the rows."""
    workers = Interrupted(lambda: meanwhile(graph), after)
    expected: list[Any] = []

    def counted(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = workers(function, tasks)
        expected[:] = identities(graph)
        return results

    before = len(read_fragment_files(open_table(graph, DOC)))
    how = OptimizeOptions(rows_per_task=40)
    rows = {row.table_key: row for row in optimize_all_tables(Graph(graph), how, counted)}
    assert len(workers.tasks) == 1, "no group is rewritten again"
    assert rows[DOC].committed
    assert rows[DOC].skipped is None
    assert set(rows[DOC].indexes_built) >= {"id", "slug", "size"}
    assert identities(graph) == expected
    assert len(read_fragment_files(open_table(graph, DOC))) < before
    assert answers_are_right(graph)
    optimize(graph, Interrupted(lambda: None))
    assert identities(graph) == expected, "also when the masked rows are dropped from the files"


def test_a_table_that_is_changed_all_the_time_is_compacted(graph: Location) -> None:
    left = iter(range(20))
    workers = Interrupted(lambda: delete(graph, f"id = 'a{next(left)}'"), times=99)
    rows = optimize(graph, workers, rows_per_task=1000)
    assert workers.tasks == [2]
    assert rows[DOC].skipped is None
    assert (rows[DOC].fragments_removed, rows[DOC].fragments_added) == (4, 1)
    assert len(ids(graph)) == 79
    assert answers_are_right(graph)


def test_a_table_whose_groups_are_lost_each_time_still_gets_fewer_fragments(graph: Location) -> None:
    """Another compaction takes every group; the last attempt merges what it finds while it holds the lease."""

    def meanwhile() -> None:
        run_compaction(graph, [DOC])
        for _ in range(3):
            change(graph, {DOC: lambda at: stage_append(at, docs(at.schema, new_ulid(), 2))}, rows=2)
        counts.append(len(read_fragment_files(open_table(graph, DOC))))

    counts: list[int] = []
    workers = Interrupted(meanwhile, times=99)
    rows = optimize(graph, workers, rows_per_task=1000)
    assert len(workers.tasks) == limits.MAINTENANCE_ATTEMPTS_MAX
    assert rows[DOC].committed
    assert rows[DOC].skipped is None
    assert len(read_fragment_files(open_table(graph, DOC))) == 1 < counts[-1]
    assert len(ids(graph)) == 80 + 6 * limits.MAINTENANCE_ATTEMPTS_MAX
    assert {pending.property for pending in rows[DOC].pending_indexes} >= {"id", "slug", "size"}
    assert answers_are_right(graph)
    assert optimize(graph, Interrupted(lambda: None), rows_per_task=1000)[DOC].committed
    assert answers_are_right(graph)


def test_a_schema_that_changes_each_time_still_leaves_fewer_fragments(graph: Location) -> None:
    texts = iter(
        SCHEMA.replace("note: String?", f"note: String?  extra{number}: I64?") for number in range(9)
    )

    def meanwhile() -> None:
        apply_schema(graph, MAIN, SchemaRequest(next(texts), "tester"), in_place)

    rows = optimize(graph, Interrupted(meanwhile, times=99), rows_per_task=1000)
    assert (rows[DOC].committed, rows[DOC].skipped) == (True, None)
    assert (rows[DOC].fragments_removed, rows[DOC].fragments_added) == (4, 1)
    assert "extra2" in open_table(graph, DOC).schema.names
    assert len(ids(graph)) == 80
    assert answers_are_right(graph)


def test_a_table_without_a_part_that_may_be_rewritten_under_the_lease_is_left(graph: Location) -> None:
    def meanwhile() -> None:
        change(graph, {DOC: lambda at: stage_overwrite(at, docs(at.schema, "a", 80))}, rows=0)

    rows = optimize(graph, Interrupted(meanwhile, build_segments, times=99))
    assert rows[DOC].skipped is SkipReason.CONFLICTING_WRITES
    assert rows[CITES].committed
    assert read_snapshot(graph).tables[CITES].pin.version == rows[CITES].manifest_version
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
