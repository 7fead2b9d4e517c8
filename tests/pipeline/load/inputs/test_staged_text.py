"""Dicts and streams: they are loaded like files of the same content, and errors name the row."""

from __future__ import annotations

import gzip
from datetime import UTC, date, datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.base.authorization import AllowAll
from omnigraph.base.errors import UsageError
from omnigraph.pipeline.load.inputs.staged_text import StreamInput
from omnigraph.pipeline.load.plan import LoadOptions, plan_load, run_load
from omnigraph.pipeline.load.run import LoadRejectedError
from omnigraph.pipeline.load.source import NamedData
from tests.pipeline.in_place import files

SCHEMA = """\
node Person { slug: String @key  age: I32?  score: F64?  born: Date?  seen: DateTime?  photo: Blob?  v: Vector(2)? }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture(params=["disk", "memory"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> og.Graph:
    return og.init(
        f"memory://{uuid4().hex}/graph.omni" if request.param == "memory" else str(tmp_path / "graph.omni"), SCHEMA
    )


def rows(graph: og.Graph, name: str) -> list[dict[str, Any]]:
    return sorted(graph.table(name).to_table().to_pylist(), key=lambda row: str(row["id"]))


def test_dicts_of_a_type_are_its_rows(graph: og.Graph) -> None:
    people: list[dict[str, object]] = [
        {
            "slug": "ada",
            "age": np.int64(36),
            "born": date(1815, 12, 10),
            "photo": b"\x00\xff",
            "v": np.array([1.0, 2.0]),
        },
        {"slug": "grace", "photo": b"\x00\xff", "seen": datetime(2024, 5, 31, 12, tzinfo=UTC), "score": 0.5},
    ]
    result = graph.load({"Person": people, "Knows": [{"from": "ada", "to": "grace", "since": "1843-01-01"}]})
    assert dict(result.counts) == {"node:Person": 2, "edge:Knows": 1}
    ada, grace = rows(graph, "Person")
    assert (ada["age"], ada["born"], ada["v"]) == (36, date(1815, 12, 10), [1.0, 2.0])
    assert (grace["seen"], grace["score"]) == (datetime(2024, 5, 31, 12, tzinfo=UTC), 0.5)
    assert [(edge["src"], edge["dst"]) for edge in rows(graph, "Knows")] == [("ada", "grace")]


def test_dicts_without_a_type_are_lines_of_graph_data(graph: og.Graph) -> None:
    graph.load([{"type": "Person", "data": {"slug": "ada"}}, {"edge": "Knows", "from": "ada", "to": "ada"}])
    assert len(rows(graph, "Knows")) == 1


def test_errors_name_the_row_of_a_dict(graph: og.Graph) -> None:
    with pytest.raises(LoadRejectedError) as rejected:
        graph.load([{"slug": "a"}, {"slug": "b", "score": float("nan")}, {"age": 1, "nickname": "x"}], type="Person")
    rejected_rows = [(each.file, each.line, each.property) for each in rejected.value.report.first]
    assert rejected_rows == [("<Person>", 2, "score"), ("<Person>", 3, "nickname"), ("<Person>", 3, "slug")]


def test_many_dicts_are_several_pieces(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.base.limits.LOAD_RANGE_BYTES_MIN", 500)
    people = [{"slug": f"p{row:03}", "age": row % 100} for row in range(100)]
    assert graph.load(people, type="Person").total == 100
    with pytest.raises(LoadRejectedError) as rejected:
        graph.load([*people, {"slug": "x", "age": "old"}], type="Person", mode="merge")
    assert [each.line for each in rejected.value.report.first] == [101]


def test_no_dicts_of_a_type_are_no_rows(graph: og.Graph) -> None:
    assert graph.load([], type="Person").commit is None


LINES = b'{"type": "Person", "data": {"slug": "ada", "age": 36}}\n'


def _parquet() -> bytes:
    buffer = BytesIO()
    pq.write_table(pa.table({"slug": ["ada"], "age": [36]}), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "type_name"),
    [
        (LINES, None),
        (b"\xef\xbb\xbf" + LINES, None),
        (gzip.compress(LINES, mtime=0), None),
        (b"slug,age\nada,36\n", "Person"),
        (b" slug , age\nada,36\n", "Person"),
        (gzip.compress(b"slug,age\nada,36\n", mtime=0), "Person"),
        (_parquet(), "Person"),
    ],
    ids=["lines", "lines with a mark", "gzip", "csv", "csv with blanks", "csv in gzip", "parquet"],
)
def test_a_stream_is_loaded_by_its_content(tmp_path: Path, data: bytes, type_name: str | None) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA)
    before = files(graph.location)
    source = [NamedData(StreamInput(BytesIO(data), "<stdin>"), type_name)]
    run_load(plan_load(graph.location, "main", source, LoadOptions(mode="append", actor="ada", gate=AllowAll())))
    assert [(row["slug"], row["age"]) for row in rows(graph, "Person")] == [("ada", 36)]
    assert not [name for name in files(graph.location) - before if "__scratch" in name]


@pytest.mark.parametrize(
    ("data", "type_name", "code"), [(_parquet(), None, "load_type_missing"), (LINES, "Person", "load_type_unused")]
)
def test_a_stream_of_another_kind_is_rejected(tmp_path: Path, data: bytes, type_name: str | None, code: str) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA)
    source = [NamedData(StreamInput(BytesIO(data), "<stdin>"), type_name)]
    with pytest.raises(UsageError) as refused:
        run_load(plan_load(graph.location, "main", source, LoadOptions(mode="append", actor="ada", gate=AllowAll())))
    assert refused.value.code == code
