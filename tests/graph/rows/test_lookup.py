"""Lookups of many values in a snapshot return what a scan of every row returns."""

from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.rows.lookup import SnapshotLookup
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.lance.read import combine_batches
from omnigraph.storage.location import Location, parse_location
from tests.storage.raw_writes import stage_append

SCHEMA = """
node Person { slug: String @key  mail: String? @unique }
edge Knows: Person -> Person @card(0..9)
"""
ROWS = 20_000
MANY = (1_500, 9_000, 30_000)


@pytest.fixture(scope="module")
def lookup(tmp_path_factory: pytest.TempPathFactory) -> SnapshotLookup:
    root = parse_location(omnigraph.init(str(tmp_path_factory.mktemp("lookup") / "g.omni"), SCHEMA).uri)
    names = [f"p{number}" for number in range(ROWS)]
    mails = [None if number % 3 == 0 else f"{number}@example.org" for number in range(ROWS)]
    ends = [f"p{number % 100}" for number in range(ROWS)]
    _append(root, "node:Person", {"id": names, "slug": names, "mail": mails})
    _append(root, "edge:Knows", {"id": [f"e{name}" for name in names], "src": ends, "dst": names})
    return SnapshotLookup(read_snapshot(root))


def _append(root: Location, alias: str, columns: dict[str, list[str | None] | list[str]]) -> None:
    def stage(area: StagingArea) -> StagedWrite:
        target = area.open_for_write(alias)
        rows = pa.table(columns, schema=target.dataset.schema)
        staged = area.transaction_effect(target, stage_append(target.dataset, rows), ROWS)
        return area.finish((staged,), frozenset(), {"inserted": ROWS})

    assert write(root, MAIN, WriteRequest(kind=WriteOperation.LOAD, actor="test", stage=stage)) is not None


@pytest.mark.parametrize("count", MANY)
def test_present_ids(lookup: SnapshotLookup, count: int) -> None:
    person = lookup.snapshot.tables["node:Person"].type_id
    numbers = range(0, 2 * count, 2)
    is_present = lookup.present_ids(person, pa.array([f"p{number}" for number in numbers]))
    assert is_present.to_pylist() == [number < ROWS for number in numbers]


@pytest.mark.parametrize("count", MANY)
def test_ids_with_values(lookup: SnapshotLookup, count: int) -> None:
    person = lookup.snapshot.tables["node:Person"].type_id
    rows = pa.RecordBatch.from_pydict({"mail": [f"{number}@example.org" for number in range(count)]})
    expected = [f"p{number}" if number < ROWS and number % 3 else None for number in range(count)]
    assert lookup.ids_with_values(person, ("mail",), rows).to_pylist() == expected


@pytest.mark.parametrize("count", MANY)
def test_edges_of_nodes(lookup: SnapshotLookup, count: int) -> None:
    knows = lookup.snapshot.tables["edge:Knows"].type_id
    nodes = pa.array([f"p{number}" for number in range(50, 50 + count)])
    counts = lookup.edge_counts(knows, nodes).to_pylist()
    assert counts == [ROWS // 100 if number < 100 else 0 for number in range(50, 50 + count)]
    sources = lookup.edge_sources(knows, pa.array([f"ep{number}" for number in range(count)])).to_pylist()
    assert sources == [f"p{number % 100}" if number < ROWS else None for number in range(count)]
    other_nodes = pa.array([f"p{number}" for number in range(10, 10 + count)])
    beyond = set(lookup.edges_at_other_nodes(knows, "src", other_nodes).to_pylist())
    assert beyond == {f"ep{number}" for number in range(ROWS) if number % 100 < 10}


def test_joined_batches() -> None:
    batches = [pa.RecordBatch.from_pydict({"id": list(range(start, start + 4))}) for start in range(0, 20, 4)]
    joined = list(combine_batches(batches, 7))
    assert [batch.num_rows for batch in joined] == [8, 8, 4]
    assert pa.Table.from_batches(joined).column("id").to_pylist() == list(range(20))
    assert list(combine_batches([], 7)) == []
