"""Coverage of every kind of index: before it is built, after, and after more rows are added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pytest

from omnigraph.api.graph import Graph, init
from omnigraph.base import limits
from omnigraph.base.errors import NotFoundError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.index_status import NO_INDEX, IndexCoverage, IndexState
from omnigraph.maintenance.optimize.run import ensure_indices
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.indexes import NO_ROWS, PARAMETERS_DIFFER, Degraded, Indexed
from omnigraph.storage.location import Location
from tests.maintenance.graphs import (
    CITES,
    DOC,
    EMPTY,
    append,
    count_scanned,
    create,
    in_place,
    open_table,
    rows_scanned,
)

# Equality on columns without @index is never indexed.
BY_DESIGN = {(DOC, "note"): NO_INDEX}


@pytest.fixture
def graph(local_location: Location) -> Graph:
    create(local_location)
    append(local_location, "a")
    return Graph(local_location)


def _states(rows: Iterable[IndexCoverage]) -> Counter[IndexState]:
    return Counter(row.state for row in rows)


def _by_design(rows: Iterable[IndexCoverage]) -> dict[tuple[str, str], str]:
    return {(row.table_key, row.column): row.reason for row in rows if not row.declared}


def test_coverage_follows_the_rows(graph: Graph) -> None:
    rows = graph.index_status()
    declared = [row for row in rows if row.declared]
    assert Counter((row.table_key, row.kind) for row in declared) == {
        (DOC, IndexKind.BTREE): 5,
        (DOC, IndexKind.INVERTED): 1,
        (DOC, IndexKind.VECTOR): 1,
        (EMPTY, IndexKind.BTREE): 2,
        (CITES, IndexKind.BTREE): 4,
    }
    assert {row.coverage for row in declared if row.table_key != EMPTY} == {Degraded((0,), 20)}
    assert {row.reason for row in declared if row.table_key == EMPTY} == {NO_ROWS}
    assert _states(rows) == {IndexState.MISSING: 11, IndexState.EMPTY: 2, IndexState.NONE: 1}
    assert _by_design(rows) == BY_DESIGN

    ensure_indices(graph.location, MAIN, in_place)
    rows = graph.index_status()
    assert {row.coverage for row in rows if row.declared and row.table_key != EMPTY} == {Indexed()}
    assert _states(rows) == {IndexState.COMPLETE: 11, IndexState.EMPTY: 2, IndexState.NONE: 1}
    assert _by_design(rows) == BY_DESIGN
    assert {row.coverage for row in rows if not row.declared} == {Degraded((0,), 20)}

    append(graph.location, "b", 5)
    rows = graph.index_status()
    behind = [row for row in rows if row.is_behind]
    assert {row.coverage for row in behind} == {Degraded((1,), 5)}
    assert {row.rows for row in behind} == {25}
    assert _states(rows) == {IndexState.BEHIND: 11, IndexState.EMPTY: 2, IndexState.NONE: 1}


def test_coverage_of_a_branch(graph: Graph) -> None:
    create_branch(graph.location, "dev", "tester", read_snapshot(graph.location))
    ensure_indices(graph.location, "dev", in_place)
    rows = Graph(graph.location, branch="dev").index_status()
    assert {row.branch for row in rows} == {"dev"}
    assert not any(row.is_missing for row in rows)
    assert any(row.is_missing for row in graph.index_status())
    with pytest.raises(NotFoundError):
        Graph(graph.location, branch="nowhere").index_status()


@pytest.mark.parametrize("annotation", ["@unique", "@index", "@unique @index", "@key"])
def test_equality_on_text_reads_one_row(local_location: Location, annotation: str) -> None:
    init(local_location.uri, f"node Person {{ email: String {annotation}  note: String? }}", actor="tester")
    graph = Graph(local_location)
    graph.load({"Person": pa.table({"email": [f"{number}@example.org" for number in range(50)]})})
    graph.build_indexes()
    dataset = open_table(local_location, "node:Person")
    for where, matches in (("email = '7@example.org'", 1), ("email LIKE '4%'", 11)):
        assert (rows_scanned(dataset, where), count_scanned(dataset, where)) == (matches, matches)
    assert rows_scanned(dataset, "note = '7@example.org'") == 50
    rows = graph.query('query q() { match { $p: Person { email: "7@example.org" } } return { $p.email } }')
    assert rows.scalar() == "7@example.org"
    explained = graph.explain('query q() { match { $p: Person { email: "7@example.org" } } return { $p.email } }')
    assert "using btree on email" in explained.text


def test_changed_options_of_text_search_rebuild_the_index(
    local_location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ENGINE_EAGER_ROWS_MAX", 0)
    schema = "node D {{ k: String @key  t: String @index{} }}"
    init(local_location.uri, schema.format(""), actor="tester")
    graph = Graph(local_location)
    graph.load({"D": pa.table({"k": ["a", "b", "c"], "t": ["Cafés", "a cafe", "tea"]})})
    graph.build_indexes()
    query = 'query q() { match { $d: D search($d.t, "café") } return { $d.k } order { $d.k } }'
    stemmed = '(stem="english")'
    cases: tuple[tuple[str, list[str]], ...] = (("(ascii_folding=true)", ["b"]), (stemmed, ["a"]), ("", []))
    for options, keys in cases:
        plan = graph.plan_schema(schema.format(options))
        assert [planned.step.kind for planned in plan.steps] == ["change_index"]
        graph.apply_schema(schema.format(options))
        states = {row.kind: (row.state, row.reason) for row in graph.index_status() if row.column == "t"}
        assert states[IndexKind.INVERTED] == (IndexState.BEHIND, PARAMETERS_DIFFER)
        assert states[IndexKind.BTREE] == (IndexState.COMPLETE, "")
        explained = []
        for _ in range(2):
            assert [row["d.k"] for row in graph.query(query).to_pylist()] == keys
            explained.append(graph.explain(query).text)
            graph.build_indexes()
        assert "parameters differ" in explained[0]
        assert f"Inverted on t{options and ' '}{options}" in explained[1]
        assert all(row.state is IndexState.COMPLETE for row in graph.index_status() if row.column == "t")


@pytest.mark.parametrize(
    ("rows", "uncovered", "is_reported"),
    [(100, 5, False), (100, 6, True), (19, 1, True), (10_000_000, 100_000, False), (10_000_000, 100_001, True)],
)
def test_doctor_reports_an_index_that_is_far_behind(rows: int, uncovered: int, is_reported: bool) -> None:
    index = IndexCoverage(
        table_key=DOC,
        branch=MAIN,
        column="size",
        kind=IndexKind.BTREE,
        coverage=Degraded((1,), uncovered),
        rows=rows,
        is_built=True,
    )
    assert index.is_behind
    assert index.is_far_behind is is_reported
