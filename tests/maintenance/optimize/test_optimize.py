"""Optimize from end to end, with tasks in this process."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from omnigraph.api.graph import Graph
from omnigraph.base.errors import NotFoundError, RefusedError, StorageError, UsageError
from omnigraph.base.failpoints import observed
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.optimize.options import OptimizeOptions, SkipReason, TableOptimizeStats
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.maintenance.schema_apply import SchemaRequest, apply_schema
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.fragments import describe_fragments
from omnigraph.storage.lance.indexes import Degraded, Indexed, IndexSpec, read_coverage, read_indexes
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.concurrency import jobs
from tests.graph.concurrency.actors import Actor
from tests.graph.writers import create as create_people
from tests.graph.writers import triple
from tests.maintenance.graphs import (
    CITES,
    DOC,
    EMPTY,
    SCHEMA,
    append,
    count_scanned,
    create,
    delete,
    in_place,
    nearest,
    open_table,
    rows_scanned,
    upsert,
)

MANIFEST = "__manifest"
WHERE = ("size = 3", "size = 1000003", "size > 15", "id = 'a3'", "slug = 'b3'", "tag = 'red'", "size = 0")


@pytest.fixture
def graph(local_location: Location) -> Location:
    """Return a graph with four fragments per table; some rows were updated and deleted."""
    create(local_location)
    for prefix in "abcd":
        append(local_location, prefix)
    upsert(local_location, "a", 3)
    delete(local_location, "size < 2")
    return local_location


def optimize(graph: Location, branch: str = MAIN, **options: Any) -> dict[str, TableOptimizeStats]:
    rows = optimize_all_tables(Graph(graph, branch=branch), OptimizeOptions(**options), in_place)
    return {row.table_key: row for row in rows}


def rows_of(dataset: Dataset) -> list[dict[str, object]]:
    table = dataset.native.scanner(with_row_id=True).to_table()
    return sorted(table.to_pylist(), key=lambda row: str(row["id"]))


def answers_are_right(graph: Location, branch: str = MAIN) -> bool:
    """Whether every use of an index returns what a full scan returns."""
    dataset = open_table(graph, DOC, branch)
    rows = dataset.count_rows()
    words = dataset.native.to_table(full_text_query="fox").num_rows if has_words(dataset) else rows
    near = nearest(dataset, rows).to_table().num_rows
    same = all(dataset.count_rows(where) == count_scanned(dataset, where) for where in WHERE)
    return same and words == rows == near


def has_words(dataset: Dataset) -> bool:
    return any(index.kind is IndexKind.INVERTED for index in read_indexes(dataset))


def test_all_work_is_one_commit_that_changes_no_row(graph: Location) -> None:
    before = {alias: rows_of(open_table(graph, alias)) for alias in (DOC, CITES)}
    head = read_snapshot(graph).head
    rows = optimize(graph)
    assert list(rows) == [DOC, EMPTY, CITES, MANIFEST]
    doc, cites = rows[DOC], rows[CITES]
    assert (doc.fragments_removed, doc.fragments_added, doc.committed, doc.skipped) == (5, 1, True, None)
    assert (cites.fragments_removed, cites.fragments_added, cites.committed) == (4, 1, True)
    assert set(doc.indexes_built) == {"id", "slug", "title", "size", "tag", "face"}
    assert doc.bytes_before > doc.bytes_after > 0
    assert (rows[EMPTY].committed, rows[EMPTY].skipped, rows[EMPTY].error) == (False, None, None)
    assert {index.property for index in rows[EMPTY].pending_indexes} == {"id", "name"}
    after = read_snapshot(graph)
    commit = after.manifest.find_commit(after.head)
    assert commit is not None
    assert (commit.actor, commit.operation, commit.parent) == ("omnigraph:optimize", "optimize", head)
    assert doc.commit == cites.commit == commit.id
    assert {alias: rows_of(open_table(graph, alias)) for alias in (DOC, CITES)} == before
    assert doc.manifest_version == doc.lance_head_version == after.tables[DOC].pin.version
    assert open_table(graph, DOC).newest_version() == doc.manifest_version
    assert len(describe_fragments(open_table(graph, DOC))) == 1
    assert {index.segments for index in read_indexes(open_table(graph, DOC))} == {1}
    assert rows_scanned(open_table(graph, DOC), "size = 3") == 4
    assert answers_are_right(graph)
    assert rows[MANIFEST].committed
    assert rows[MANIFEST].fragments_removed > 1


def test_updates_deletes_and_a_schema_change_succeed_afterwards(graph: Location) -> None:
    optimize(graph)
    opened = Graph(graph)
    assert opened.mutate('query up() { update Doc set { size: 77 } where slug = "c5" }').commit is not None
    assert opened.mutate('query remove() { delete Doc where slug = "c6" }').commit is not None
    evolved = SCHEMA.replace("note: String?", "note: String?  pages: I32?")
    assert apply_schema(graph, MAIN, SchemaRequest(source=evolved, actor="tester"), in_place).commit is not None
    dataset = open_table(graph, DOC)
    assert (dataset.count_rows("size = 77"), dataset.count_rows("id = 'c6'")) == (1, 0)
    assert "pages" in dataset.schema.names
    assert answers_are_right(graph)


def test_second_run_writes_nothing(graph: Location) -> None:
    optimize(graph)
    before = read_snapshot(graph)
    effects: list[tuple[str, str]] = []
    with observed(lambda effect, target: effects.append((effect, target))):
        rows = optimize(graph)
    assert effects == []
    assert not any(row.committed or row.fragments_removed for row in rows.values())
    assert read_snapshot(graph).manifest.version == before.manifest.version


def test_appended_fragment_is_indexed_and_small_ones_are_merged(graph: Location) -> None:
    size, note = IndexSpec("size", IndexKind.BTREE), IndexSpec("note", IndexKind.BTREE)
    title = IndexSpec("title", IndexKind.BTREE)
    optimize(graph)
    append(graph, "e")
    uncovered = read_coverage(open_table(graph, DOC), [size])[size]
    assert isinstance(uncovered, Degraded)
    assert uncovered.uncovered_rows == 20
    rows = optimize(graph)
    assert (rows[DOC].fragments_removed, rows[DOC].fragments_added) == (2, 1)
    assert set(rows[DOC].indexes_folded) == {"id", "slug", "title", "size", "tag", "face"}
    dataset = open_table(graph, DOC)
    assert read_coverage(dataset, [size]) == {size: Indexed()}
    assert isinstance(read_coverage(dataset, [note])[note], Degraded), "no @index"
    assert read_coverage(dataset, [title]) == {title: Indexed()}
    assert answers_are_right(graph)
    assert not any(row.committed for row in optimize(graph).values())


def test_stale_coverage_alone_is_committed(graph: Location) -> None:
    optimize(graph, rows_per_task=1)
    append(graph, "e")
    rows = optimize(graph, rows_per_task=1)
    assert (rows[DOC].fragments_removed, rows[DOC].committed) == (0, True)
    assert set(rows[DOC].indexes_folded) == {"id", "slug", "title", "size", "tag", "face"}
    assert answers_are_right(graph)


def test_dry_run_reports_what_a_run_does_and_writes_nothing(graph: Location) -> None:
    effects: list[tuple[str, str]] = []
    with observed(lambda effect, target: effects.append((effect, target))):
        planned = optimize(graph, dry_run=True)
    assert effects == []
    done = optimize(graph)
    for alias in (DOC, CITES):
        plan, result = planned[alias], done[alias]
        assert plan.fragments_removed == result.fragments_removed
        assert plan.fragments_added == result.fragments_added
        assert (set(plan.indexes_built), plan.indexes_folded) == (set(result.indexes_built), ())
        assert (plan.bytes_before, plan.committed) == (result.bytes_before, False)
    append(graph, "e")
    planned, done = optimize(graph, dry_run=True), optimize(graph)
    assert set(planned[DOC].indexes_folded) == set(done[DOC].indexes_folded) != set()


def test_dry_run_reports_a_vector_index_without_vectors(local_location: Location) -> None:
    create(local_location)
    append(local_location, "a", faces=False)
    planned, done = optimize(local_location, dry_run=True), optimize(local_location)
    again = optimize(local_location, dry_run=True)
    for rows in (planned, done, again):
        pending = rows[DOC].pending_indexes
        assert [(index.property, index.reason) for index in pending] == [("face", "the column has no vectors")]
        assert "face" not in rows[DOC].indexes_built
    assert planned[DOC].indexes_built == done[DOC].indexes_built
    assert again[DOC].indexes_built == ()


def test_dry_run_counts_the_fragments_of_a_split_fragment(graph: Location) -> None:
    """A fragment with many deleted rows is rewritten alone, even if its live rows exceed the bound."""
    optimize(graph, rows_per_task=80)
    assert len(describe_fragments(open_table(graph, DOC))) == 1
    delete(graph, "size > 15")
    planned, done = (optimize(graph, dry_run=True, rows_per_task=25)[DOC], optimize(graph, rows_per_task=25)[DOC])
    assert (planned.fragments_removed, planned.fragments_added) == (1, done.fragments_added)
    assert done.fragments_added > 1


def test_bounds_hold_and_repeated_runs_converge(graph: Location) -> None:
    before = rows_of(open_table(graph, DOC))
    first = optimize(graph, rows_per_task=40, tasks_max=1)
    assert sum(row.fragments_added for row in first.values() if row.table_key != MANIFEST) == 1
    for _ in range(10):
        if not any(row.committed for row in optimize(graph, rows_per_task=40, tasks_max=1).values()):
            break
    else:
        pytest.fail("the runs do not converge")
    sizes = [fragment.rows for fragment in describe_fragments(open_table(graph, DOC)).values()]
    assert max(sizes) <= 40
    assert len(sizes) == 2
    assert rows_of(open_table(graph, DOC)) == before
    assert answers_are_right(graph)


def test_partial_progress_is_several_commits(graph: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.base.limits.OPTIMIZE_GROUP_TASKS", 1)
    before = read_snapshot(graph).head
    rows = optimize(graph, partial_progress=True, rows_per_task=40)
    after = read_snapshot(graph)
    commits = []
    head = after.head
    while head != before:
        record = after.manifest.find_commit(head)
        assert record is not None
        commits.append(record)
        assert record.parent is not None
        head = record.parent
    assert len(commits) > 2
    assert {commit.actor for commit in commits} == {"omnigraph:optimize"}
    assert rows[DOC].fragments_removed == 5
    assert not any(row.committed for row in optimize(graph, rows_per_task=40).values())
    assert answers_are_right(graph)


def test_only_requested_tables(graph: Location) -> None:
    rows = optimize(graph, tables=frozenset({"Cites"}))
    assert list(rows) == [CITES, MANIFEST]
    assert len(describe_fragments(open_table(graph, DOC))) == 5


def test_unknown_type_is_rejected_before_any_work(graph: Location) -> None:
    """Also if an external tool changed a table, which is inspected under the lease."""
    open_table(graph, DOC).native_copy().delete("size = 3")
    effects: list[str] = []
    with observed(lambda effect, _: effects.append(effect)), pytest.raises(NotFoundError, match="unknown type 'Robot'"):
        optimize(graph, tables=frozenset({"Robot"}))
    assert effects == []


def test_tables_of_a_branch_are_forked_and_main_is_unchanged(graph: Location) -> None:
    create_branch(graph, "work", "tester", read_snapshot(graph))
    append(graph, "e", branch="work")
    main = read_snapshot(graph)
    before = rows_of(open_table(graph, DOC, "work"))
    rows = optimize(graph, "work")
    assert rows[DOC].committed
    assert rows[DOC].branch == "work"
    assert rows_of(open_table(graph, DOC, "work")) == before
    assert answers_are_right(graph, "work")
    assert read_snapshot(graph).tables == main.tables
    assert not any(row.committed for row in optimize(graph, "work").values())
    optimize(graph)
    assert answers_are_right(graph)


def test_branch_skips_tables_that_it_has_not_written(graph: Location) -> None:
    create_branch(graph, "thin", "tester", read_snapshot(graph))
    for dry_run in (True, False):
        rows = optimize(graph, "thin", dry_run=dry_run)
        assert {rows.pop(alias).skipped for alias in (DOC, EMPTY, CITES)} == {SkipReason.NOT_WRITTEN_ON_BRANCH}
    assert read_snapshot(graph, "thin").tables == read_snapshot(graph).tables
    rows = optimize(graph, "thin", tables=frozenset({"Cites"}))
    assert (rows[CITES].committed, rows[CITES].skipped) == (True, None)
    assert optimize(graph, "thin")[CITES].skipped is None


def test_table_with_external_changes_is_left_to_repair(graph: Location) -> None:
    open_table(graph, DOC).newest().native_copy().delete("size = 5")
    pin = read_snapshot(graph).tables[DOC].pin.version
    for dry_run in (True, False):
        rows = optimize(graph, dry_run=dry_run)
        assert rows[DOC].skipped is SkipReason.DRIFT_NEEDS_REPAIR
        assert (rows[DOC].manifest_version, rows[DOC].lance_head_version) == (pin, pin + 1)
        assert not rows[DOC].committed
    assert rows[CITES].committed


def test_pending_intent_refuses_the_run(graph: Location) -> None:
    path = "__recovery/01ARZ3NDEKTSV4RRFFQ69G5FAV.json"
    ObjectStore(graph).create(path, b"{}")
    with pytest.raises(RefusedError) as refused:
        optimize(graph)
    assert refused.value.code == "recovery_pending"
    start = f"optimize is refused: the recovery intent {graph.uri}/{path} cannot be read: it is damaged"
    assert refused.value.message.startswith(start)
    assert "move the file out of `__recovery/`, then run `graph.repair()`" in refused.value.hint


def test_interrupted_write_refuses_the_run_with_a_hint(local_location: Location) -> None:
    create_people(local_location)
    with Actor(jobs.write_changes, local_location, triple(["a"]), points="arm.after=kill") as writer:
        writer.wait_until_killed()
    with pytest.raises(RefusedError) as refused:
        optimize(local_location, dry_run=True)
    assert refused.value.message.endswith("belongs to a write that was interrupted")
    assert "Run `graph.optimize()` or `graph.repair(dry_run=False)`" in refused.value.hint


@pytest.mark.parametrize("options", [{"rows_per_task": 0}, {"tasks_max": 0}])
def test_bounds_below_one_are_rejected(graph: Location, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        optimize(graph, **options)


def test_unreadable_table_does_not_stop_the_others(graph: Location) -> None:
    from pathlib import Path

    table = open_table(graph, DOC)
    newest = table.native.get_fragments()[-1].metadata.files[0].path
    Path(table.location.uri, "data", newest).unlink()
    planned = optimize(graph, dry_run=True)
    assert planned[DOC].error is None, "a plan opens no data file"
    rows = optimize(graph)
    assert rows[DOC].error is not None
    assert rows[DOC].error.endswith("one of its files is missing, run `graph.doctor(deep=True)`")
    assert not rows[DOC].committed
    assert rows[CITES].committed
    assert rows[CITES].error is None


def test_failed_manifest_compaction_is_logged_once(
    graph: Location, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise StorageError("the disk is full", code="disk_full")

    monkeypatch.setattr("omnigraph.maintenance.optimize.run.compact_manifest_fully", fail)
    with caplog.at_level(logging.INFO, "omnigraph"):
        rows = optimize(graph)
    assert rows[MANIFEST].error == "the disk is full"
    (failed,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert (vars(failed)["in_result"], vars(failed)["facts"]["table"]) == (True, MANIFEST)


@pytest.mark.parametrize("supported", [True, False])
def test_blobs_are_compacted_only_if_lance_supports_it(
    local_location: Location, supported: bool, caplog: pytest.LogCaptureFixture
) -> None:
    import lance
    import pyarrow as pa

    from omnigraph.api.graph import init
    from tests.maintenance.graphs import change
    from tests.storage.raw_writes import stage_append

    init(local_location.uri, "node Pic { name: String @key  data: Blob? }\nnode Plain { name: String @key }\n")
    rng = np.random.default_rng(1)
    bytes_of = {name: rng.bytes(50_000) for name in "abc"}

    def stage(dataset: Dataset, name: str) -> object:
        blob = lance.blob_array([bytes_of[name]])
        names = pa.array([name])
        columns = {"id": names, "name": names, "data": blob}
        schema = dataset.schema
        return stage_append(dataset, pa.table([columns[field.name] for field in schema], schema=schema))

    for name in "abc":
        change(local_location, {"node:Pic": lambda dataset, name=name: stage(dataset, name)}, rows=1)  # type: ignore[misc,dict-item]
    rows = optimize(local_location, blobs_compact=supported)
    pic = rows["node:Pic"]
    assert pic.skipped is (None if supported else SkipReason.BLOB_COLUMNS_UNSUPPORTED_BY_LANCE)
    assert pic.fragments_removed == (3 if supported else 0)
    assert pic.committed
    assert set(pic.indexes_built) == {"id", "name"}, "indexes are built in both cases"
    assert supported or "node:Pic" in caplog.text
    native = open_table(local_location, "node:Pic").native
    names = native.to_table(columns=["name"])["name"].to_pylist()
    files = native.take_blobs("data", indices=[0, 1, 2])
    assert {name: file.readall() for name, file in zip(names, files, strict=True) if file} == bytes_of


def test_adjacency_of_edges_is_persisted(graph: Location) -> None:
    from omnigraph.engine.traversal.adjacency import Adjacency, read_adjacency

    def read_cites() -> Adjacency | None:
        return read_adjacency(graph, read_snapshot(graph).tables[CITES], open_table(graph, CITES))

    optimize(graph)
    adjacency = read_cites()
    assert adjacency is not None
    assert len(adjacency.by_source.far) == read_snapshot(graph).tables[CITES].row_count == 80
    append(graph, "e")
    assert read_cites() is None
    optimize(graph)
    assert read_cites() is not None


def test_run_without_work_opens_few_datasets(graph: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    import lance

    optimize(graph)
    opened: list[object] = []
    real = lance.dataset

    def counted(location: object, *arguments: Any, **options: Any) -> object:
        opened.append(location)
        return real(location, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(lance, "dataset", counted)
    optimize(graph)
    assert 0 < len(opened) <= 20 * 3


def test_on_s3(s3_location: Location) -> None:
    create(s3_location)
    for prefix in "ab":
        append(s3_location, prefix)
    delete(s3_location, "size < 2")
    rows = optimize(s3_location)
    assert (rows[DOC].fragments_removed, rows[DOC].fragments_added, rows[DOC].error) == (2, 1, None)
    assert answers_are_right(s3_location)
    assert [entry.path for entry in ObjectStore(s3_location).list("__scratch")] == []
