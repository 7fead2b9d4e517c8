"""Patches: what a row omits keeps its value, in every format; null is a value; a new row is like that of a merge."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.run import LoadCounts, LoadRejectedError, LoadRequest, load
from omnigraph.pipeline.runner import Result, Task
from omnigraph.storage.location import Location, parse_location
from tests.pipeline.in_place import contents, in_place, load_here, written
from tests.pipeline.load.test_run import source

SCHEMA = """\
node Person { slug: String @key  name: String  age: I32?  mood: String @default("calm")  tags: [String]?  v: Vector(2)?
  photo: Blob?  first: String?  last: String? @unique(first, last) }
node Note { text: String?  size: I32? }
edge Knows: Person -> Person { since: Date?  weight: F64? }
edge Likes: Person -> Person { weight: F64?  note: String?  @key(@src, @dst) }
"""
ADA = {
    "id": "ada", "slug": "ada", "name": "Ada", "age": 36, "mood": "glad", "tags": ["x"], "v": [1.0, 2.0],
    "photo": "base64:AAEC", "first": "a", "last": "b",
}  # fmt: skip


@pytest.fixture
def root(local_location: Location) -> Location:
    og.init(local_location.uri, SCHEMA)
    load_here(local_location, [node(ADA), node({"slug": "bob", "name": "Bob", "first": "b", "last": "b"})])
    return local_location


def node(data: Mapping[str, object], type_name: str = "Person") -> dict[str, object]:
    return {"type": type_name, "data": data}


def person(root: Location, slug: str) -> dict[str, Any]:
    lines = BytesIO()
    og.open(root.uri).export(lines)
    rows = map(json.loads, lines.getvalue().splitlines())
    people = [row["data"] for row in rows if row.get("type") == "Person"]
    return next({**row, "id": slug} for row in people if row["slug"] == slug)


def parquet(place: Path, columns: Mapping[str, Sequence[object]]) -> str:
    pq.write_table(pa.table(dict(columns)), place / "people.parquet")
    return str(place / "people.parquet")


FORMATS: dict[str, Callable[[Path], object]] = {
    "ndjson": lambda place: written(
        place, "people.jsonl", '{"type":"Person","data":{"slug":"ada","age":37}}\n'
        '{"type":"Person","data":{"slug":"bob","age":null,"name":"Robert"}}\n',
    ),
    "csv": lambda place: written(place, "people.csv", "slug,age,name\nada,37,Ada\nbob,,Robert\n"),
    "parquet": lambda place: parquet(place, {"slug": ["ada", "bob"], "age": [37, None], "name": ["Ada", "Robert"]}),
    "pandas": lambda _: pd.DataFrame({"slug": ["ada", "bob"], "age": [37, None], "name": ["Ada", "Robert"]}),
    "dicts": lambda _: [{"slug": "ada", "age": 37}, {"slug": "bob", "age": None, "name": "Robert"}],
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_omitted_properties_keep_their_value(root: Location, tmp_path: Path, name: str) -> None:
    loaded = load_here(root, FORMATS[name](tmp_path), None if name == "ndjson" else "Person", mode="patch")
    assert loaded.changes == {"node:Person": LoadCounts(replaced=2)}  # rows of types with blobs are not compared
    assert person(root, "ada") == {**ADA, "age": 37}
    expected = {"id": "bob", "slug": "bob", "name": "Robert", "mood": "calm", "first": "b", "last": "b"}
    assert {name: value for name, value in person(root, "bob").items() if value is not None} == expected


def test_null_is_a_value(root: Location) -> None:
    load_here(root, [{"slug": "ada", "age": None, "tags": None, "photo": None, "v": None}], "Person", mode="patch")
    cleared = dict.fromkeys(["age", "tags", "photo", "v"])
    assert {**cleared, **person(root, "ada")} == {**ADA, **cleared}


def test_a_new_row_is_inserted_with_defaults(root: Location) -> None:
    loaded = load_here(root, [{"slug": "cy", "name": "Cy"}, {"slug": "ada", "age": 1}], "Person", mode="patch")
    assert loaded.changes == {"node:Person": LoadCounts(inserted=1, replaced=1)}
    assert (person(root, "cy")["mood"], person(root, "ada")["mood"]) == ("calm", "glad")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"slug": "cy"}, ("name", "V101")),  # new, so a required property is missing
        ({"slug": "ada", "name": None}, ("name", "V101")),
        ({"slug": "bob", "first": "a"}, ("first, last", "V402")),  # with the value of `last` in the graph
        ({"id": "ada", "slug": "bob"}, ("id", "V301")),
        ({"age": 1}, ("slug", "V101")),
    ],
)
def test_completed_rows_are_checked(root: Location, row: Mapping[str, object], expected: tuple[str, str]) -> None:
    with pytest.raises(LoadRejectedError) as rejected:
        load_here(root, [row], "Person", mode="patch")
    assert expected in {(violation.property, violation.rule.code) for violation in rejected.value.report.first}


def test_rows_are_recognized_by_id_alone(root: Location) -> None:
    load_here(root, [{"id": "ada", "age": 40}], "Person", mode="patch")
    assert person(root, "ada") == {**ADA, "age": 40}
    notes = [node({"id": "n1", "text": "x", "size": 1}, "Note")]
    load_here(root, notes)
    loaded = load_here(root, [node({"id": "n1", "size": 2}, "Note"), node({"text": "y"}, "Note")], mode="patch")
    assert loaded.changes == {"node:Note": LoadCounts(inserted=1, replaced=1, inserted_without_key=1)}
    assert {(row["text"], row["size"]) for row in contents(root)["node:Note"]} == {("x", 2), ("y", None)}


def test_edges_keep_their_endpoints(root: Location) -> None:
    edge = {"edge": "Knows", "from": "ada", "to": "bob", "data": {"id": "e1", "since": "1843-01-01"}}
    like = {"edge": "Likes", "from": "ada", "to": "bob", "data": {"weight": 1.0, "note": "n"}}
    load_here(root, [edge, like])
    load_here(root, [{"edge": "Knows", "data": {"id": "e1", "weight": 0.5}}], mode="patch")
    load_here(root, pa.table({"from": ["ada"], "to": ["bob"], "weight": [2.0]}), "Likes", mode="patch")
    rows = contents(root)
    (knows,), (likes,) = rows["edge:Knows"], rows["edge:Likes"]
    assert (knows["src"], knows["dst"], str(knows["since"]), knows["weight"]) == ("ada", "bob", "1843-01-01", 0.5)
    assert (likes["weight"], likes["note"]) == (2.0, "n")


def test_a_value_of_a_concurrent_writer_is_kept(root: Location, tmp_path: Path) -> None:
    """Another load changes the row while the patch is staged: the patch reads the row again."""
    mine = tmp_path / "mine.jsonl"
    mine.write_text(json.dumps(node({"slug": "ada", "age": 50})), encoding="utf-8")
    runs: list[int] = []

    def run(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        runs.append(len(tasks))
        parts = in_place(function, tasks)
        if len(runs) == 1:
            load_here(root, [{"slug": "ada", "mood": "sad"}], "Person", mode="patch")
        return parts

    load(root, LoadRequest(source=source(mine), mode=LoadMode.PATCH, actor="ada"), run)
    assert (person(root, "ada")["age"], person(root, "ada")["mood"]) == (50, "sad")
    assert runs == [1, 1]


_values = st.none() | st.integers(0, 9)
_rows = st.fixed_dictionaries(
    {"id": st.sampled_from("abc")}, optional={"size": _values, "text": st.none() | st.just("t")}
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=15)
@given(
    before=st.lists(_rows, max_size=3, unique_by=lambda row: row["id"]),
    patches=st.lists(_rows, max_size=3, unique_by=lambda row: row["id"]),
)
def test_a_patch_is_an_update_of_dicts(before: list[dict[str, object]], patches: list[dict[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = parse_location(f"{directory}/graph.omni")
        og.init(root.uri, SCHEMA)
        load_here(root, before, "Note")
        load_here(root, patches, "Note", mode="patch")
        rows = {row["id"]: row for row in contents(root)["node:Note"]}
    expected = {row["id"]: {"text": None, "size": None, **row} for row in before}
    for row in patches:
        expected[row["id"]] = {"text": None, "size": None, **expected.get(row["id"], {}), **row}
    assert rows == expected


def test_a_new_text_does_not_keep_the_vector_of_the_old_one(tmp_path: Path) -> None:
    """As with `update`: the vector becomes pending, unless the row has one."""
    schema = 'node Note { k: String @key  text: String  n: I32?  v: Vector(2)? @embed("text") }'
    graph = og.init(tmp_path / "n.omni", schema)
    graph.load([{"k": k, "text": f"text of {k}", "v": [1.0, 0.0]} for k in "abc"], type="Note")
    patch = [{"k": "a", "text": "new"}, {"k": "b", "n": 1}, {"k": "c", "text": "new", "v": [0.0, 1.0]}]
    graph.load(patch, type="Note", mode="patch")
    rows = graph.query("query q() { match { $n: Note } return { $n.k as k, $n.v as v } }").to_pylist()
    assert {row["k"]: row["v"] for row in rows} == {"a": None, "b": [1.0, 0.0], "c": [0.0, 1.0]}
    assert graph.embed(dry_run=True).pending == 1
