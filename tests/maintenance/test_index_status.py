"""Coverage of every kind of index: before it is built, after, and after more rows are added."""

from __future__ import annotations

from collections import Counter

import pytest

from omnigraph.api.graph import Graph
from omnigraph.base.errors import NotFoundError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.index_status import FREE_TEXT, NO_INDEX, IndexCoverage
from omnigraph.maintenance.optimize.run import ensure_indices
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.indexes import NO_ROWS, Degraded, Indexed
from omnigraph.storage.location import Location
from tests.maintenance.graphs import CITES, DOC, EMPTY, append, create, in_place

# Equality on free text and on columns without @index is never indexed.
BY_DESIGN = {(DOC, "title"): FREE_TEXT, (DOC, "note"): NO_INDEX}


@pytest.fixture
def graph(local_location: Location) -> Graph:
    create(local_location)
    append(local_location, "a")
    return Graph(local_location)


def _by_design(rows: list[IndexCoverage]) -> dict[tuple[str, str], str]:
    return {(row.table_key, row.column): row.reason for row in rows if not row.declared}


def test_coverage_follows_the_rows(graph: Graph) -> None:
    rows = graph.index_status()
    declared = [row for row in rows if row.declared]
    assert Counter((row.table_key, row.kind) for row in declared) == {
        (DOC, IndexKind.BTREE): 4,
        (DOC, IndexKind.INVERTED): 1,
        (DOC, IndexKind.VECTOR): 1,
        (EMPTY, IndexKind.BTREE): 2,
        (CITES, IndexKind.BTREE): 4,
    }
    assert {row.coverage for row in declared if row.table_key != EMPTY} == {Degraded((0,), 20)}
    assert {row.reason for row in declared if row.table_key == EMPTY} == {NO_ROWS}
    assert _by_design(rows) == BY_DESIGN

    ensure_indices(graph.location, MAIN, in_place)
    rows = graph.index_status()
    assert {row.coverage for row in rows if row.declared and row.table_key != EMPTY} == {Indexed()}
    assert not any(row.is_behind for row in rows)
    assert _by_design(rows) == BY_DESIGN
    assert {row.coverage for row in rows if not row.declared} == {Degraded((0,), 20)}

    append(graph.location, "b", 5)
    rows = graph.index_status()
    behind = [row for row in rows if row.is_behind]
    assert {row.coverage for row in behind} == {Degraded((1,), 5)}
    assert {row.rows for row in behind} == {25}
    assert len(behind) == 10


def test_coverage_of_a_branch(graph: Graph) -> None:
    create_branch(graph.location, "dev", "tester", read_snapshot(graph.location))
    ensure_indices(graph.location, "dev", in_place)
    rows = Graph(graph.location, branch="dev").index_status()
    assert {row.branch for row in rows} == {"dev"}
    assert not any(row.is_behind for row in rows)
    assert any(row.is_behind for row in graph.index_status())
    with pytest.raises(NotFoundError):
        Graph(graph.location, branch="nowhere").index_status()
