"""Optimize next to other writers: commits while tasks rewrite, and between check and commit."""

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
from omnigraph.storage.lance.fragments import describe_fragments
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
class InterruptedRewrite:
    """A runner that calls `interrupt` after each run of the function `after`, at most `times` times."""

    interrupt: Callable[[], object]
    after: Callable[..., object] = rewrite_group
    times: int = 1
    tasks: list[int] = field(default_factory=list)

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = [function(task) for task in tasks]
        if function is self.after:
            self.tasks.append(len(tasks))
            if len(self.tasks) <= self.times:
                self.interrupt()
        return results


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    for prefix in "abcd":
        append(local_location, prefix)
    return local_location


def optimize(graph: Location, workers: InterruptedRewrite, rows_per_task: int = 40) -> dict[str, TableOptimizeStats]:
    options = OptimizeOptions(rows_per_task=rows_per_task)
    return {row.table_key: row for row in optimize_all_tables(Graph(graph), options, workers)}


def ids(graph: Location) -> list[str]:
    return sorted(str(name) for name in open_table(graph, DOC).read(["id"])["id"].to_pylist())


def identities(graph: Location) -> list[Any]:
    """Return every row with its row id and the versions that created and changed it."""
    columns = ["id", "size", "title", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = open_table(graph, DOC).native.scanner(columns=columns, with_row_id=True).to_table()
    return rows.sort_by("id").to_pylist()


def test_appends_do_not_invalidate_groups(graph: Location) -> None:
    workers = InterruptedRewrite(lambda: append(graph, "e"))
    rows = optimize(graph, workers)
    assert workers.tasks == [4]
    assert rows[DOC].committed
    assert (rows[DOC].fragments_removed, rows[DOC].skipped) == (4, None)
    assert len(ids(graph)) == 100
    assert max(describe_fragments(open_table(graph, DOC))) >= limits.COMPACTION_NUMBER_GAP
    assert answers_are_right(graph)


@pytest.mark.parametrize("after", [rewrite_group, build_segments])
@pytest.mark.parametrize(
    "interrupt",
    [
        lambda graph: delete(graph, "id = 'a3'"),
        lambda graph: upsert(graph, "a", 4),
        lambda graph: delete(graph, "id LIKE 'b%'"),  # a whole fragment
        lambda graph: upsert(graph, "c", 20),  # a whole fragment, whose rows move to another one
    ],
    ids=["delete", "update", "delete_fragment", "update_fragment"],
)
def test_row_changes_invalidate_no_group_and_old_rows_do_not_return(
    graph: Location, interrupt: Callable[[Location], None], after: Callable[..., object]
) -> None:
    """There are four groups of two fragments, two in each table; one of them has the rows."""
    workers = InterruptedRewrite(lambda: interrupt(graph), after)
    expected: list[Any] = []

    def counted(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = workers(function, tasks)
        expected[:] = identities(graph)
        return results

    before = len(describe_fragments(open_table(graph, DOC)))
    options = OptimizeOptions(rows_per_task=40)
    rows = {row.table_key: row for row in optimize_all_tables(Graph(graph), options, counted)}
    assert len(workers.tasks) == 1, "no group is rewritten again"
    assert rows[DOC].committed
    assert rows[DOC].skipped is None
    assert set(rows[DOC].indexes_built) >= {"id", "slug", "size"}
    assert identities(graph) == expected
    assert len(describe_fragments(open_table(graph, DOC))) < before
    assert answers_are_right(graph)
    optimize(graph, InterruptedRewrite(lambda: None))
    assert identities(graph) == expected, "also when the masked rows are dropped from the files"


def test_table_with_continuous_changes_is_compacted(graph: Location) -> None:
    left = iter(range(20))
    workers = InterruptedRewrite(lambda: delete(graph, f"id = 'a{next(left)}'"), times=99)
    rows = optimize(graph, workers, rows_per_task=1000)
    assert workers.tasks == [2]
    assert rows[DOC].skipped is None
    assert (rows[DOC].fragments_removed, rows[DOC].fragments_added) == (4, 1)
    assert len(ids(graph)) == 79
    assert answers_are_right(graph)


def test_table_that_loses_its_groups_each_time_gets_fewer_fragments(graph: Location) -> None:
    """Another compaction replaces every group; the last attempt merges fragments while it holds the lease."""

    def interrupt() -> None:
        run_compaction(graph, [DOC])
        for _ in range(3):
            change(graph, {DOC: lambda dataset: stage_append(dataset, docs(dataset.schema, new_ulid(), 2))}, rows=2)
        counts.append(len(describe_fragments(open_table(graph, DOC))))

    counts: list[int] = []
    workers = InterruptedRewrite(interrupt, times=99)
    rows = optimize(graph, workers, rows_per_task=1000)
    assert len(workers.tasks) == limits.MAINTENANCE_ATTEMPTS_MAX
    assert rows[DOC].committed
    assert rows[DOC].skipped is None
    assert len(describe_fragments(open_table(graph, DOC))) == 1 < counts[-1]
    assert len(ids(graph)) == 80 + 6 * limits.MAINTENANCE_ATTEMPTS_MAX
    assert {pending.property for pending in rows[DOC].pending_indexes} >= {"id", "slug", "size"}
    assert answers_are_right(graph)
    assert optimize(graph, InterruptedRewrite(lambda: None), rows_per_task=1000)[DOC].committed
    assert answers_are_right(graph)


def test_schema_that_changes_each_time_leaves_fewer_fragments(graph: Location) -> None:
    texts = iter(SCHEMA.replace("note: String?", f"note: String?  extra{number}: I64?") for number in range(9))

    def interrupt() -> None:
        apply_schema(graph, MAIN, SchemaRequest(source=next(texts), actor="tester"), in_place)

    rows = optimize(graph, InterruptedRewrite(interrupt, times=99), rows_per_task=1000)
    assert (rows[DOC].committed, rows[DOC].skipped) == (True, None)
    assert (rows[DOC].fragments_removed, rows[DOC].fragments_added) == (4, 1)
    assert "extra2" in open_table(graph, DOC).schema.names
    assert len(ids(graph)) == 80
    assert answers_are_right(graph)


def test_table_without_a_bounded_part_is_skipped(graph: Location) -> None:
    def interrupt() -> None:
        change(graph, {DOC: lambda dataset: stage_overwrite(dataset, docs(dataset.schema, "a", 80))}, rows=0)

    rows = optimize(graph, InterruptedRewrite(interrupt, build_segments, times=99))
    assert rows[DOC].skipped is SkipReason.CONFLICTING_WRITES
    assert rows[CITES].committed
    assert read_snapshot(graph).tables[CITES].pin.version == rows[CITES].manifest_version
    assert answers_are_right(graph)


def test_two_concurrent_runs(graph: Location) -> None:
    workers = InterruptedRewrite(lambda: optimize(graph, InterruptedRewrite(lambda: None)), build_segments)
    optimize(graph, workers)
    assert len(ids(graph)) == 80
    assert answers_are_right(graph)
    assert not any(row.committed for row in optimize(graph, InterruptedRewrite(lambda: None)).values())


def test_drift_that_begins_during_the_run_skips_only_its_table(graph: Location) -> None:
    workers = InterruptedRewrite(lambda: open_table(graph, DOC).newest().native_copy().delete("id = 'a3'"))
    rows = optimize(graph, workers)
    assert rows[DOC].skipped is SkipReason.DRIFT_NEEDS_REPAIR
    assert rows[DOC].lance_head_version == rows[DOC].manifest_version + 1
    assert rows[CITES].committed


@pytest.mark.parametrize("first", ["dataset.commit", "dataset.index"])
def test_external_compaction_committed_first_is_not_reported_as_ours(graph: Location, first: str) -> None:
    """Before our rewrite, or after it and before our indexes."""
    location = graph.child(read_snapshot(graph).tables[DOC].path).uri
    versions: list[int] = []

    def compact_externally(effect: str, target: str) -> None:
        if (effect, target) == (first, location) and not versions:
            versions.append(0)
            dataset = lance.dataset(location)
            dataset.optimize.compact_files(target_rows_per_fragment=len(ids(graph)))
            versions.append(dataset.version)

    with observed(compact_externally):
        rows = optimize(graph, InterruptedRewrite(lambda: None))
    assert len(versions) == 2
    row = rows[DOC]
    assert {rows[alias].skipped for alias in (DOC, CITES)} == {SkipReason.CONFLICTING_WRITES}
    assert (row.committed, row.fragments_removed, row.fragments_added, row.indexes_built) == (False, 0, 0, ())
    assert {pending.property for pending in row.pending_indexes} >= {"id", "slug", "size"}
    published = read_snapshot(graph).tables[DOC].pin.version
    assert published == row.manifest_version >= versions[1], "the external compaction changed no row either"
    assert len(ids(graph)) == 80
    again = optimize(graph, InterruptedRewrite(lambda: None))
    assert (again[DOC].skipped, again[DOC].committed) == (None, True)
    assert answers_are_right(graph)


def test_seconds_of_a_table_are_its_own_work(graph: Location) -> None:
    """Workers report their seconds; here they report fixed values."""

    def slow(function: Callable[[Task], Any], tasks: Sequence[Any]) -> list[Any]:
        return [replace(function(task), seconds=1000.0 if _belongs_to_nodes(task, graph) else 1.0) for task in tasks]

    rows = {row.table_key: row for row in optimize_all_tables(Graph(graph), OptimizeOptions(), slow)}
    assert rows[DOC].seconds >= 2000
    assert 2 <= rows[CITES].seconds < 1000
    assert all(row.seconds < 1 for row in rows.values() if not row.indexes_built)


def _belongs_to_nodes(task: Any, graph: Location) -> bool:
    table = task.table if getattr(task, "owner", None) is None else task.owner
    return str(table.location.uri).startswith(graph.child("nodes").uri)
