"""Frames of Python: every kind is loaded in the same way, and no scratch file is left."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.scratch import open_scratch
from omnigraph.pipeline.load.inputs import frames
from omnigraph.pipeline.load.run import LoadRejectedError
from omnigraph.storage.location import Location
from tests.pipeline.in_place import contents, files, load_here, violations, written

SCHEMA = """\
node Person { slug: String @key  age: I32?  score: F64?  born: Date?  tags: [String]?  v: Vector(2)? }
edge Knows: Person -> Person { since: Date? }
"""
ROWS: dict[str, list[Any]] = {
    "slug": ["ada", "grace"],
    "age": [36, None],
    "score": [0.5, None],
    "born": [date(1815, 12, 10), None],
    "tags": [["x", "y"], None],
    "v": [[1.0, 2.0], None],
}
TABLE = pa.table({**ROWS, "age": pa.array(ROWS["age"], pa.int64())})


class ToArrow:
    """An object whose only interface is `to_arrow`, as in some libraries."""

    def to_arrow(self) -> pa.Table:
        return TABLE


class Streamed:
    """An object whose only interface is the stream protocol."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]


FRAMES: dict[str, Callable[[], object]] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "reader": TABLE.to_reader,
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas with an index": lambda: pd.DataFrame(ROWS, index=pd.Index([7, 9], name="place")),
    "pandas on arrow": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.DataFrame(ROWS),
    "lazy polars": lambda: pl.LazyFrame(ROWS),
    "dicts": lambda: [{name: ROWS[name][row] for name in ROWS} for row in range(2)],
    "polars from arrow": lambda: pl.from_arrow(TABLE),
    "stream": Streamed,
    "to_arrow": ToArrow,
}


@pytest.fixture
def root(local_location: Location) -> Location:
    og.init(local_location.uri, SCHEMA)
    return local_location


@pytest.mark.parametrize("name", FRAMES)
def test_every_kind_of_frame_is_loaded(root: Location, name: str) -> None:
    before = files(root)
    loaded = load_here(root, FRAMES[name](), "Person")
    assert loaded.counts == {"node:Person": 2}
    ada, grace = contents(root)["node:Person"]
    assert ada == {"id": "ada", **{name: values[0] for name, values in ROWS.items()}}
    assert grace == {"id": "grace", "slug": "grace", **dict.fromkeys(list(ROWS)[1:])}
    assert not {path for path in files(root) - before if path.startswith("__scratch")}


def test_several_frames_and_files_are_one_commit(root: Location, tmp_path: Path) -> None:
    edges = pl.DataFrame({"from": ["ada"], "to": ["mary"]})
    people = [written(tmp_path, f"{name}.csv", f"slug,age\n{name},90\n") for name in ("ada", "mary")]
    loaded = load_here(root, {"Person": people, "Knows": edges})
    assert loaded.counts == {"node:Person": 2, "edge:Knows": 1}
    assert loaded.commit is not None
    assert loaded.commit.counts == {**loaded.counts, "inserted": 3, "updated": 0, "deleted": 0}


def test_frames_on_s3(s3_location: Location) -> None:
    og.init(s3_location.uri, SCHEMA, storage_options=dict(s3_location.options))
    load_here(s3_location, {"Person": TABLE, "Knows": pd.DataFrame({"from": ["ada"], "to": ["grace"]})})
    assert [row["slug"] for row in contents(s3_location)["node:Person"]] == ["ada", "grace"]
    assert not {path for path in files(s3_location) if path.startswith("__scratch")}


def test_a_large_frame_is_read_in_pieces(root: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.base.limits.LOAD_RANGE_BYTES_MIN", 1_000)
    monkeypatch.setattr("omnigraph.base.limits.LOAD_RANGES_MIN", 3)
    monkeypatch.setattr("omnigraph.base.limits.LOAD_RANGE_BYTES", 2_000)
    monkeypatch.setattr("omnigraph.base.limits.LOAD_BLOCK_BYTES", 500)
    table = pa.table({"slug": [f"p{row:04}" for row in range(1_000)], "age": list(range(1_000))})
    bad = table.set_column(1, "age", pa.array([2**40 if row == 777 else 0 for row in range(1_000)]))
    assert [violation[:4] for violation in violations(root, bad, "Person")] == [("<Person>", 778, "age", "V104")]
    assert load_here(root, table, "Person").total == 1_000
    assert [row["age"] for row in contents(root)["node:Person"]] == list(range(1_000))
    with open_scratch(root) as scratch:
        person = read_snapshot(root).schema.catalog.node_named("Person")
        assert person is not None
        sizes = [piece.size_bytes for piece in frames.stage_frame(table, person, scratch)]
    assert all(1_000 <= size < 1_500 for size in sizes[:3]), "the first pieces are small, so that no core waits"
    assert all(2_000 <= size < 2_500 for size in sizes[3:-1])
    assert len(sizes) > 5


def test_scratch_is_deleted_after_a_rejection(root: Location) -> None:
    before = files(root)
    with pytest.raises(LoadRejectedError) as rejected:
        load_here(root, {"Person": pd.DataFrame({"slug": ["a", "a"]})})
    assert rejected.value.report.first[0].file == "<Person>"
    with pytest.raises(OmnigraphError):
        load_here(root, {"Person": TABLE, "Knows": pd.DataFrame({"nothing": [1]})})
    assert files(root) == before


@pytest.mark.parametrize(
    ("data", "type_name", "code"),
    [
        (TABLE, None, "load_type_missing"),
        (BytesIO(b"slug"), None, "load_data"),
        (TABLE, "Persn", "type_missing"),
        (TABLE, "Knows", "input_columns"),
        ({"Person": TABLE}, "Person", "load_type_unused"),
        (object(), "Person", "load_data"),
        (17, "Person", "load_data"),
        ([], None, "load_data"),
        ([TABLE], "Person", "load_data"),
        (b"people.jsonl", None, "load_data"),
        (pd.DataFrame({"slug": ["a", 1, b"x"]}), "Person", "input_columns"),
        (pd.DataFrame([[1, 2]], columns=["slug", "slug"]), "Person", "input_columns"),
        (pa.Table.from_arrays([pa.array(["a"])] * 2, names=["slug", "slug"]), "Person", "input_columns"),
        (pd.Series(["a"], name="slug"), "Person", "load_data"),
    ],
)
def test_other_objects_are_rejected(root: Location, data: object, type_name: str | None, code: str) -> None:
    before = files(root)
    with pytest.raises(OmnigraphError) as refused:
        load_here(root, data, type_name)
    assert (refused.value.code, bool(refused.value.hint)) == (code, True)
    assert files(root) == before


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        ([{"slug": "a"}, 5], "load_data", "in each item of the list, got an object of type int at [1]"),
        (({"slug": name} for name in "ab"), "load_data", "Pass a list: `list(…)`."),
        (pl.scan_csv("nope.csv"), "input_missing", "cannot read the LazyFrame <Person>: "),
    ],
)
def test_message_names_what_is_unsupported(root: Location, data: object, code: str, text: str) -> None:
    with pytest.raises(OmnigraphError) as refused:
        load_here(root, data, "Person")
    assert refused.value.code == code
    assert text in f"{refused.value.message}\n{refused.value.hint}"
    assert refused.value.hint


def test_read_only_graph_rejects_a_load(root: Location) -> None:
    graph = og.open(root.uri, read_only=True)
    with pytest.raises(OmnigraphError) as refused:
        graph.load(TABLE, type="Person")
    assert refused.value.code == "graph_read_only"
