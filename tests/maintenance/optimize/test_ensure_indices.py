"""Ensure indices: missing indexes are built as one commit, and filters use them. Tasks run in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from omnigraph.api.graph import Graph
from omnigraph.base import limits
from omnigraph.base.errors import NotFoundError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.optimize.index_plan import IndexStatus
from omnigraph.maintenance.optimize.options import IndexResult
from omnigraph.maintenance.optimize.plan import INDEX_ACTOR, MaintenanceRequest
from omnigraph.maintenance.optimize.run import ensure_indices
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.lance.indexes import NO_ROWS, NOT_NEEDED, read_indexes
from omnigraph.storage.lance.transactions import Operation, TransactionRecord, read_operations
from omnigraph.storage.location import Location
from omnigraph.wire.maintenance import index_result_output
from tests.maintenance.graphs import (
    CITES,
    DOC,
    EMPTY,
    Result,
    Task,
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

BUILT, EXTENDED, COMPLETE = IndexStatus.BUILT, IndexStatus.EXTENDED, IndexStatus.COMPLETE
FILTERS = {
    "text id": (DOC, "id = 'a3'"),
    "text key": (DOC, "slug = 'a3'"),
    "text": (DOC, "title = 'the fox a3'"),
    "integer": (DOC, "size = 3"),
    "integer range": (DOC, "size >= 3 AND size < 4"),
    "enum": (DOC, "tag = 'red'"),
    "edge id": (CITES, "id = 'a3'"),
    "source": (CITES, "src = 'a3'"),
    "target": (CITES, "dst = 'a3'"),
    "float": (CITES, "weight = 3.0"),
}
UNINDEXED = {"not declared": (DOC, "note = 'note a3'")}


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    append(local_location, "a")
    return local_location


def run_nothing(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    raise AssertionError("there is nothing to do")


def statuses(outcome: IndexResult) -> dict[str, set[IndexStatus]]:
    by_table: dict[str, set[IndexStatus]] = {}
    for row in outcome.indexes:
        by_table.setdefault(row.table_key, set()).add(row.status)
    return by_table


def test_every_declared_index_is_built_in_one_commit(store_location: Location) -> None:
    create(store_location)
    append(store_location, "a")
    before = read_snapshot(store_location)
    outcome = ensure_indices(store_location, MAIN, in_place)
    now = read_snapshot(store_location)
    assert outcome.commit is not None
    assert (outcome.commit.id, outcome.commit.parent) == (now.head, before.head)
    assert (outcome.commit.operation, outcome.commit.actor) == ("ensure_indices", INDEX_ACTOR)
    assert statuses(outcome) == {DOC: {BUILT}, EMPTY: {IndexStatus.SKIPPED}, CITES: {BUILT}}
    assert [(row.property, row.kind.value) for row in outcome.built if row.table_key == DOC] == [
        ("id", "btree"),
        ("slug", "btree"),
        ("title", "btree"),
        ("title", "inverted"),
        ("size", "btree"),
        ("tag", "btree"),
        ("face", "vector"),
    ]
    assert {row.reason for row in outcome.pending} == {NO_ROWS}
    assert {(row.fragments, row.rows, row.segments) for row in outcome.built} == {(1, 20, 1)}
    again = ensure_indices(store_location, MAIN, run_nothing)
    assert again.commit is None
    assert statuses(again) == {DOC: {COMPLETE}, EMPTY: {IndexStatus.SKIPPED}, CITES: {COMPLETE}}
    assert read_snapshot(store_location).head == now.head


@pytest.mark.parametrize("name", FILTERS)
def test_filter_reads_only_matching_rows(graph: Location, name: str) -> None:
    alias, where = FILTERS[name]
    assert rows_scanned(open_table(graph, alias), where) == 20
    ensure_indices(graph, MAIN, in_place)
    indexed = open_table(graph, alias)
    assert rows_scanned(indexed, where) == count_scanned(indexed, where) < 20
    append(graph, "b", 30)
    appended = open_table(graph, alias)
    assert rows_scanned(appended, where) == rows_scanned(indexed, where) + 30
    ensure_indices(graph, MAIN, in_place)
    extended = open_table(graph, alias)
    assert rows_scanned(extended, where) == count_scanned(extended, where) == extended.count_rows(where)


@pytest.mark.parametrize("name", UNINDEXED)
def test_undeclared_columns_are_scanned(graph: Location, name: str) -> None:
    alias, where = UNINDEXED[name]
    ensure_indices(graph, MAIN, in_place)
    assert rows_scanned(open_table(graph, alias), where) == 20


def test_text_search_uses_only_the_index(graph: Location) -> None:
    def plan() -> str:
        return str(open_table(graph, DOC).native.scanner(full_text_query="fox").explain_plan())

    ensure_indices(graph, MAIN, in_place)
    assert "MatchQuery" in plan()
    assert "FlatMatchQuery" not in plan()
    append(graph, "b")
    assert "FlatMatchQuery" in plan()
    ensure_indices(graph, MAIN, in_place)
    assert "FlatMatchQuery" not in plan()
    assert open_table(graph, DOC).native.to_table(full_text_query="fox").num_rows == 40


def test_vector_search_uses_only_the_index(graph: Location) -> None:
    def plan() -> str:
        return str(nearest(open_table(graph, DOC), 3).explain_plan())

    assert "ANNSubIndex" not in plan()
    ensure_indices(graph, MAIN, in_place)
    assert "ANNSubIndex" in plan()
    assert "LanceScan" not in plan()
    append(graph, "b")
    assert "LanceScan" in plan()
    ensure_indices(graph, MAIN, in_place)
    assert "LanceScan" not in plan()
    assert nearest(open_table(graph, DOC), 40).to_table().num_rows == 40


def test_only_indexes_are_committed(graph: Location) -> None:
    before = read_snapshot(graph).tables[DOC]
    rows = open_table(graph, DOC).read()
    ensure_indices(graph, MAIN, in_place)
    after = read_snapshot(graph).tables[DOC]
    dataset = open_table(graph, DOC)
    records = read_operations(dataset, before.pin.version, after.pin.version)
    assert len(records) == 7
    assert {record.operation for record in records if isinstance(record, TransactionRecord)} == {Operation.CREATE_INDEX}
    assert (dataset.read(), after.row_count) == (rows, before.row_count)
    assert open_dataset(graph.child(before.path), version=before.pin.version).read() == rows


@pytest.mark.parametrize("name", ["Cites", CITES])
def test_only_requested_types(graph: Location, name: str) -> None:
    outcome = ensure_indices(graph, MAIN, in_place, MaintenanceRequest(types=frozenset({name}), actor="ada"))
    assert statuses(outcome) == {CITES: {BUILT}}
    assert outcome.commit is not None
    assert outcome.commit.actor == "ada"
    assert read_indexes(open_table(graph, DOC)) == ()


def test_empty_set_of_types_and_unknown_type(graph: Location) -> None:
    assert ensure_indices(graph, MAIN, run_nothing, MaintenanceRequest(types=frozenset())).indexes == ()
    with pytest.raises(NotFoundError, match="unknown type 'Unknown'"):
        ensure_indices(graph, MAIN, run_nothing, MaintenanceRequest(types=frozenset({"Doc", "Unknown"})))


def test_segment_has_bounded_rows(graph: Location) -> None:
    for prefix in "bcd":
        append(graph, prefix)
    outcome = ensure_indices(graph, MAIN, in_place, MaintenanceRequest(rows_per_index_task=40))
    assert {(row.fragments, row.rows, row.segments) for row in outcome.built} == {(4, 80, 2)}
    dataset = open_table(graph, DOC)
    assert {index.segments for index in read_indexes(dataset)} == {2}
    assert dataset.count_rows("size = 3") == count_scanned(dataset, "size = 3") == 4


def test_index_with_too_many_segments_is_rebuilt(graph: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.base.limits.INDEX_SEGMENTS_MAX", 2)
    for prefix in "bc":
        ensure_indices(graph, MAIN, in_place)
        append(graph, prefix)
    outcome = ensure_indices(graph, MAIN, in_place)
    assert {row.status for row in outcome.built} == {IndexStatus.REBUILT}
    dataset = open_table(graph, DOC)
    assert {(index.segments, len(index.fragment_ids)) for index in read_indexes(dataset)} == {(1, 3)}
    assert dataset.count_rows("size = 3") == count_scanned(dataset, "size = 3") == 3
    assert dataset.native.to_table(full_text_query="fox").num_rows == 60


def test_vector_index_waits_for_vectors(local_location: Location) -> None:
    create(local_location)
    append(local_location, "a", faces=False)
    outcome = ensure_indices(local_location, MAIN, in_place)
    assert [(row.property, row.reason) for row in outcome.pending if row.table_key == DOC] == [
        ("face", "the column has no vectors")
    ]
    again = ensure_indices(local_location, MAIN, in_place)
    assert again.commit is None
    append(local_location, "b")
    grown = {row.property: row.status for row in ensure_indices(local_location, MAIN, in_place).built}
    assert (grown["face"], grown["title"]) == (BUILT, EXTENDED)
    assert nearest(open_table(local_location, DOC), 40).to_table().num_rows == 20


def test_index_with_other_parameters_is_rebuilt(graph: Location) -> None:
    ensure_indices(graph, MAIN, in_place)
    table = open_table(graph, DOC)
    native: Any = table.native_copy()
    native.create_scalar_index("title", "INVERTED", name="title_inverted", replace=True, stem=False)
    native.create_index("face", "IVF_FLAT", name="face_vector", replace=True, num_partitions=1, metric="cosine")
    Graph(graph).repair(unverified="publish", dry_run=False)
    assert {index.name for index in read_indexes(open_table(graph, DOC)) if not index.is_current} == {
        "title_inverted",
        "face_vector",
    }
    outcome = ensure_indices(graph, MAIN, in_place)
    assert {row.property: row.status for row in outcome.built} == dict.fromkeys(("title", "face"), IndexStatus.REBUILT)
    assert all(index.is_current for index in read_indexes(open_table(graph, DOC)))
    assert statuses(ensure_indices(graph, MAIN, run_nothing))[DOC] == {COMPLETE}


def test_small_vectors_need_no_index(graph: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEARCH_EXACT_BYTES", 64 * 1024**2)
    outcome = ensure_indices(graph, MAIN, in_place)
    assert [(row.property, row.reason) for row in outcome.pending if row.table_key == DOC] == [("face", NOT_NEEDED)]


def test_results_are_correct_after_updates_and_deletes(graph: Location) -> None:
    ensure_indices(graph, MAIN, in_place)
    upsert(graph, "a", 5)
    delete(graph, "size > 15 AND size < 100")
    ensure_indices(graph, MAIN, in_place)
    dataset = open_table(graph, DOC)
    for where in ("size = 3", "size = 1000003", "size = 17", "id = 'a3'", "tag IS NULL", "size > 10"):
        assert dataset.count_rows(where) == count_scanned(dataset, where)
    assert rows_scanned(dataset, "size = 1000003") == 1


def test_outcome_as_json(graph: Location) -> None:
    document = json.loads(json.dumps(index_result_output(ensure_indices(graph, MAIN, in_place))))
    assert document["branch"] == MAIN
    assert document["commit"] == read_snapshot(graph).head
    assert document["indexes"][0] == {
        "table_key": DOC,
        "property": "id",
        "kind": "btree",
        "status": "built",
        "reason": None,
        "fragments": 1,
        "rows": 20,
        "segments": 1,
    }


class TestBranch:
    """A branch forks a table of another branch if there is an index to build."""

    def test_branch_of_an_indexed_table_forks_nothing(self, graph: Location) -> None:
        ensure_indices(graph, MAIN, in_place)
        create_branch(graph, "dev", "tester", read_snapshot(graph))
        outcome = ensure_indices(graph, "dev", run_nothing)
        assert outcome.commit is None
        assert read_snapshot(graph, "dev").tables == read_snapshot(graph).tables

    def test_branch_gets_its_own_indexes(self, graph: Location) -> None:
        create_branch(graph, "dev", "tester", read_snapshot(graph))
        append(graph, "b", branch="dev")
        before = read_snapshot(graph)
        outcome = ensure_indices(graph, "dev", in_place)
        assert statuses(outcome) == {DOC: {BUILT}, EMPTY: {IndexStatus.SKIPPED}, CITES: {BUILT}}
        now = read_snapshot(graph, "dev")
        assert now.tables[EMPTY] == before.tables[EMPTY]
        assert rows_scanned(open_table(graph, DOC, "dev"), "size = 3") == 2
        assert read_snapshot(graph).tables == before.tables
        assert read_indexes(open_table(graph, DOC)) == ()
        assert ensure_indices(graph, "dev", run_nothing).commit is None

    def test_table_of_main_is_forked_with_its_first_index(self, graph: Location) -> None:
        create_branch(graph, "dev", "tester", read_snapshot(graph))
        only = MaintenanceRequest(types=frozenset({"Cites"}))
        assert ensure_indices(graph, "dev", in_place, only).commit is not None
        now = read_snapshot(graph, "dev")
        assert now.tables[CITES].owner == now.branch.id
        assert now.tables[DOC] == read_snapshot(graph).tables[DOC]
        assert rows_scanned(open_table(graph, CITES, "dev"), "src = 'a3'") == 1
        append(graph, "b", branch="dev")
        assert open_table(graph, CITES, "dev").count_rows() == 40

    def test_failed_build_leaves_no_fork(self, graph: Location) -> None:
        def fail(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
            raise OSError("no worker today")

        create_branch(graph, "dev", "tester", read_snapshot(graph))
        with pytest.raises(OSError, match="no worker"):
            ensure_indices(graph, "dev", fail, MaintenanceRequest(types=frozenset({"Cites"})))
        table = read_snapshot(graph).tables[CITES]
        assert open_dataset(graph.child(table.path)).native.branches.list() == {}
