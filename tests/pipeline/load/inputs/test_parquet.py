"""Parquet files of one type: row groups in pieces, lines as row numbers, and damaged files."""

from __future__ import annotations

import io
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.base.errors import ContentError, OmnigraphError
from omnigraph.pipeline.load.inputs.files import find_inputs
from omnigraph.pipeline.load.inputs.parquet import plan_parquet_pieces
from omnigraph.schema.build import build_catalog
from omnigraph.schema.parser import parse_schema
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.pipeline.in_place import contents, files, load_here, violations, written

SCHEMA = """\
node Person { slug: String @key  age: I32?  at: DateTime?  photo: Blob?  v: Vector(2)?  tags: [String]? }
edge Knows: Person -> Person
"""
CATALOG = build_catalog(parse_schema(SCHEMA))
PERSON = CATALOG.nodes[0]


@pytest.fixture
def root(durable_location: Location) -> Location:
    og.init(durable_location.uri, SCHEMA, storage_options=dict(durable_location.options))
    return durable_location


def parquet(rows: dict[str, Any] | pa.Table, row_group_size: int | None = None) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.table(rows), sink, row_group_size=row_group_size)
    return sink.getvalue()


def people(count: int) -> dict[str, Any]:
    return {"slug": [f"p{row:04}" for row in range(count)], "age": list(range(count))}


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit pieces to a few row groups and batches to a few rows."""
    monkeypatch.setattr("omnigraph.base.limits.LOAD_RANGE_BYTES", 1_000)
    monkeypatch.setattr("omnigraph.base.limits.LOAD_BLOCK_BYTES", 50)


@pytest.mark.usefixtures("small_pieces")
def test_row_groups_share_pieces_and_no_row_is_lost(root: Location, tmp_path: Path) -> None:
    path = written(tmp_path, "people.parquet", parquet(people(500), row_group_size=20))
    pieces = plan_parquet_pieces(find_inputs([path]), PERSON)
    assert [group for piece in pieces for group in piece.row_groups] == list(range(25))
    assert 2 < len(pieces) < 25
    assert [piece.part for piece in pieces] == list(range(len(pieces)))
    blocks = [block for piece in pieces for block in piece.blocks(CATALOG)]
    assert max(block.lines for block in blocks) < 10
    assert load_here(root, path, "Person").counts == {"node:Person": 500}
    assert [row["age"] for row in contents(root)["node:Person"]] == list(range(500))


@pytest.mark.usefixtures("small_pieces")
def test_a_line_is_the_number_of_the_row(root: Location, tmp_path: Path) -> None:
    rows = people(300)
    rows["age"][255] = 2**40
    rows["slug"][2] = None
    path = written(tmp_path, "people.parquet", parquet(rows, row_group_size=20))
    assert [violation[:4] for violation in violations(root, path, "Person")] == [
        ("people.parquet", 3, "slug", "V101"),
        ("people.parquet", 256, "age", "V104"),
    ]


def test_types_as_parquet_has_them(root: Location, tmp_path: Path) -> None:
    rows = {
        "slug": pa.array(["a"]).dictionary_encode(),
        "at": pa.array([1_000_000], pa.timestamp("us", "Europe/Berlin")),
        "photo": pa.array([b"\0\1"]),
        "v": pa.array([[1.0, 2.0]], pa.list_(pa.float64())),
        "tags": pa.array([["x"]], pa.large_list(pa.large_string())),
    }
    load_here(root, written(tmp_path, "people.parquet", parquet(rows)), "Person")
    (row,) = contents(root)["node:Person"]
    assert (row["v"], row["tags"], str(row["at"])) == ([1.0, 2.0], ["x"], "1970-01-01 00:00:01+00:00")


def test_whole_numbers_with_gaps_are_floats_in_some_files(root: Location, tmp_path: Path) -> None:
    rows = {"slug": ["a", "b"], "age": pa.array([36.0, None], pa.float64())}
    load_here(root, written(tmp_path, "people.parquet", parquet(rows)), "Person")
    assert [row["age"] for row in contents(root)["node:Person"]] == [36, None]
    rows = {"slug": ["c", "d", "e", "f"], "age": pa.array([1.0, 1.5, float("nan"), 2.0**60])}
    reported = violations(root, written(tmp_path, "people.parquet", parquet(rows)), "Person")
    assert [violation[1:4] for violation in reported] == [(row, "age", "V103") for row in (2, 3, 4)]


def test_typed_files_and_ndjson_are_one_commit(root: Location, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    written(folder, "a.parquet", parquet({"slug": ["a"]}))
    written(folder, "b.csv", "slug,age\nb,2\n")
    written(folder, "c.jsonl", '{"edge":"Knows","from":"a","to":"b"}\n')
    assert load_here(root, str(folder), "Person").counts == {"node:Person": 2, "edge:Knows": 1}


def test_files_on_an_object_store(s3_location: Location, tmp_path: Path) -> None:
    ObjectStore(s3_location).create("in/people.parquet", parquet(people(1_000), row_group_size=100))
    graph = s3_location.child("g")
    og.init(graph.uri, SCHEMA, storage_options=dict(s3_location.options))
    assert load_here(graph, s3_location.child("in").uri, "Person").total == 1_000


GOOD = parquet(people(50), row_group_size=10)
BAD = {
    "empty": (b"", "input_unreadable"),
    "text": (b"slug,age\nada,36\n", "input_unreadable"),
    "cut": (GOOD[:-20], "input_unreadable"),
    "pages": (GOOD[:4] + b"\xff" * 60 + GOOD[64:], "input_unreadable"),
    "duplicates": (parquet(pa.Table.from_arrays([pa.array(["a"])] * 2, names=["slug", "slug"])), "input_columns"),
    "unknown": (parquet({"name": ["a"], "years": [1]}), "input_columns"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_file_is_rejected(local_location: Location, tmp_path: Path, name: str) -> None:
    og.init(local_location.uri, SCHEMA)
    data, code = BAD[name]
    before = files(local_location)
    with pytest.raises(OmnigraphError) as refused:
        load_here(local_location, written(tmp_path, "people.parquet", data), "Person")
    assert (refused.value.code, "people.parquet" in refused.value.message) == (code, True)
    assert refused.value.hint
    assert files(local_location) == before


@settings(max_examples=40)
@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=8))
def test_damage_is_an_omnigraph_error_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, position: int, junk: bytes
) -> None:
    path = written(
        tmp_path_factory.mktemp("damage"), "people.parquet", GOOD[:position] + junk + GOOD[position + len(junk) :]
    )
    with suppress(ContentError):
        for piece in plan_parquet_pieces(find_inputs([path]), PERSON):
            list(piece.blocks(CATALOG))


@pytest.mark.parametrize(
    ("names", "type_name", "code"),
    [
        (["p.parquet"], None, "load_type_missing"),
        (["p.parquet"], "Persn", "type_missing"),
        (["p.jsonl"], "Person", "load_type_unused"),
        ({"Person": "p.jsonl"}, None, "load_type_unused"),
        ({"Person": "p.parquet"}, "Person", "load_type_unused"),
        ({"Person": "p.parquet", "Knows": "p.parquet"}, None, "input_twice"),
        (["p.parquet.gz"], "Person", "input_format"),
    ],
)
def test_type_is_required_for_rows_without_one(
    local_location: Location, tmp_path: Path, names: object, type_name: str | None, code: str
) -> None:
    og.init(local_location.uri, SCHEMA)
    for name in ("p.parquet", "p.jsonl", "p.parquet.gz"):
        written(tmp_path, name, GOOD)
    with chdir(tmp_path), pytest.raises(OmnigraphError) as refused:
        load_here(local_location, names, type_name)
    assert (refused.value.code, bool(refused.value.hint)) == (code, True)
