"""`Graph.query` and `Graph.prepare`: fresh rows, earlier states, every shape of a result."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import omnigraph as og
from omnigraph.api.results import json_rows
from omnigraph.base.errors import OmnigraphError, ParameterError, QueryTextError, UsageError
from omnigraph.storage.location import parse_location
from tests.engine.graphs import make_snapshot
from tests.graph.writers import Change, create, run

COUNT = "query n() { match { $p: Person } return { count($p) as n } }"
TYPES = """\
node T {
  k: String @key
  d: Date?
  t: DateTime?
  f: F32?
  l: [F32]?
  v: Vector(2)?
  b: Bool
}
edge E: T -> T { w: I64? }
"""


def test_query_reads_the_newest_commit(tmp_path: Path) -> None:
    location = parse_location(str(tmp_path / "graph.omni"))
    create(location)
    graph = og.open(location.uri)
    assert graph.query(COUNT).to_pylist() == [{"n": 0}]
    before = graph.snapshot()
    for number in range(3):
        run(location, [Change("node:Person", insert=(f"p{number}",))])
        assert graph.query(COUNT).to_pylist() == [{"n": number + 1}]
    assert graph.prepare(COUNT).run(as_of=before).to_pylist() == [{"n": 0}]
    commits = list(graph.log(None))
    assert [graph.query(COUNT, as_of=commit.id).to_pylist()[0]["n"] for commit in commits] == [3, 2, 1, 0]
    first = commits[-1].created_at
    assert graph.query(COUNT, as_of=first).to_pylist() == [{"n": 0}]
    assert graph.query(COUNT, as_of=before.version).to_pylist() == [{"n": 0}]
    assert graph.query(COUNT, as_of=before).to_pylist() == [{"n": 0}]
    with pytest.raises(OmnigraphError) as caught:
        graph.query(COUNT, as_of=first - timedelta(days=1))
    assert caught.value.code == "moment_too_early"


def test_another_graph_at_the_same_path(tmp_path: Path) -> None:
    location = parse_location(str(tmp_path / "graph.omni"))
    for count in (1, 2):
        create(location)
        run(location, [Change("node:Person", insert=tuple(f"p{number}" for number in range(count)))])
        assert og.open(location.uri).query(COUNT).to_pylist() == [{"n": count}]
        shutil.rmtree(location.uri)


def test_parameters_and_names(tmp_path: Path) -> None:
    location = parse_location(str(tmp_path / "graph.omni"))
    create(location)
    run(location, [Change("node:Person", upsert=(("ada", 36), ("'; drop", 1)))])
    graph = og.open(location.uri, read_only=True)
    text = "query a($s: String) { match { $p: Person { slug: $s } } return { $p.age } } " + COUNT
    assert graph.query(text, name="a", params={"s": "ada"}).to_pylist() == [{"p.age": 36}]
    assert graph.query(text, name="a", params={"$s": "'; drop"}).to_pylist() == [{"p.age": 1}]
    assert graph.query(text, name="a", params={"s": "' or true"}).to_pylist() == []
    assert graph.query(text, name="n").to_pylist() == [{"n": 2}]
    with pytest.raises(ParameterError):
        graph.query(text, name="a")
    with pytest.raises(UsageError):
        graph.query(text)
    with pytest.raises(UsageError, match="expected a dict of values by name, got str"):
        graph.query(text, "ada", name="a")  # type: ignore[arg-type]
    explained = graph.explain(text, name="n")
    assert str(explained) == explained.text
    assert explained._repr_html_().startswith("<pre>query n()\n  1. ")


def test_limit_of_hops_bounds_open_traversals(tmp_path: Path) -> None:
    location = parse_location(str(tmp_path / "graph.omni"))
    create(location)
    run(location, [Change("node:Person", insert=("a", "b", "c"))])
    graph = og.open(location.uri)
    graph.mutate('query m() { insert Knows { from: "a", to: "b" } insert Knows { from: "b", to: "c" } }')
    text = 'query q() { match { $p: Person { slug: "a" } $p knows{1,} $f } return { count($f) as n } }'
    with pytest.raises(QueryTextError, match="no upper bound") as caught:
        graph.query(text)
    assert "QueryLimits(hops=5)" in caught.value.problems[0].hint
    for hops, count in ((1, 1), (2, 2), (5, 2)):
        assert graph.query(text, limits=og.QueryLimits(hops=hops)).to_pylist() == [{"n": count}]
    for wrong in (0, 101):
        with pytest.raises(UsageError, match="maximum of hops"):
            og.QueryLimits(hops=wrong)


def test_shapes_of_results(tmp_path: Path) -> None:
    row = {
        "k": "a",
        "d": date(2020, 1, 2),
        "t": datetime(2020, 1, 2, 3, 4, 5, 678000, UTC),
        "f": 0.99,
        "l": [0.1],
        "v": [0.1, 1.0],
        "b": True,
    }
    edges = [{"src": "a", "dst": "b", "w": 2**62}]
    snapshot = make_snapshot(tmp_path, TYPES, {"node:T": [row, {"k": "b", "b": False}], "edge:E": edges})
    text = "query q() { match { $x: T optional { $x $e:e $y } } return { $x, $e, $x.v, $x.f, $x.t } order { $x.k } }"
    result = og.Graph(snapshot.root).prepare(text).run(as_of=snapshot)
    shown = {"@id": "a", "k": "a", "d": "2020-01-02", "t": "2020-01-02T03:04:05.678Z", "f": 0.99, "l": [0.1], "b": True}
    assert json.loads(result.to_json()) == [
        {
            "x": shown,
            "e": {"@id": "e0", "@from": "a", "@to": "b", "w": 2**62},
            "x.v": [0.1, 1.0],
            "x.f": 0.99,
            "x.t": "2020-01-02T03:04:05.678Z",
        },
        {"x": {"@id": "b", "k": "b", "b": False}, "e": None, "x.v": None, "x.f": None, "x.t": None},
    ]
    assert result.columns == ["x", "e", "x.v", "x.f", "x.t"]
    assert result.to_pylist()[0]["x.t"] == row["t"]
    assert result.to_arrow().num_rows == 2
    assert list(result.to_pandas().columns) == result.columns
    assert result.to_polars().shape == (2, 5)


def test_batches_are_read_once(tmp_path: Path) -> None:
    location = parse_location(str(tmp_path / "graph.omni"))
    create(location)
    result = og.open(location.uri).query(COUNT)
    assert [batch.num_rows for batch in result.batches()] == [1]
    with pytest.raises(UsageError) as caught:
        result.to_arrow()
    assert caught.value.code == "result_taken"


def test_infinite_sum_is_null_in_json(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node N { k: String @key  x: F64 }")
    graph.mutate('query a() { insert N { k: "a", x: 1e308 } insert N { k: "b", x: 1e308 } }')
    result = graph.query("query s() { match { $n: N } return { sum($n.x) as s, max($n.x) as x } }")
    assert result.to_pylist() == [{"s": float("inf"), "x": 1e308}]
    assert json.loads(result.to_json()) == [{"s": None, "x": 1e308}]


_ODD = [1.5, float("nan"), None, float("-inf")]
_F32_LISTS = pa.list_(pa.float32())


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(_ODD), [1.5, None, None, None]),
        (pa.array([None, None], pa.float64()), [None, None]),
        (pa.array([], _F32_LISTS), []),
        (pa.array([[0.1], None, [], _ODD], _F32_LISTS), [[0.1], None, [], [1.5, None, None, None]]),
        (pa.array([[0.1], None, [0.2], [], [0.3]], _F32_LISTS).slice(1, 3), [None, [0.2], []]),
        (pa.array([[1, 2], None, _ODD[:2], [7, 8]], pa.list_(pa.float32(), 2)).slice(1, 2), [None, [1.5, None]]),
        (
            pa.array([[[0.1], None], None, [[], _ODD[:2]]], pa.list_(_F32_LISTS)),
            [[[0.1], None], None, [[], [1.5, None]]],
        ),
        (
            pa.ListArray.from_arrays([0, 2, 3, 3], [9.0, 9.0, 1.0], mask=pa.array([True, False, False])),
            [None, [1.0], []],  # a null may have hidden items
        ),
        (pa.array([[date(2026, 1, 2), None], []]), [["2026-01-02", None], []]),
        (pa.array([[{"a": float("inf"), "b": 1}, None]]), [[{"b": 1}, None]]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_lists_in_json(array: Any, expected: list[object]) -> None:
    rows = json_rows(pa.record_batch({"x": array}))
    assert [row["x"] for row in rows] == expected


def test_items_of_lists_are_converted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion per row would be the slowest part of a query for vectors."""
    calls: list[int] = []

    def counted(array: Any) -> Any:
        calls.append(len(array))
        return is_finite(array)

    is_finite = pc.is_finite
    monkeypatch.setattr(pc, "is_finite", counted)
    vectors = pa.array([[1.0, 2.0]] * 50, pa.list_(pa.float32(), 2))
    assert len(list(json_rows(pa.record_batch({"v": vectors})))) == 50
    assert calls == [100]
