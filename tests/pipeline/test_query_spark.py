"""Queries on Spark return the rows of the engine: generated queries over several graphs, and difficult cases.

The session has settings that a user's session may have: no ANSI, another time zone, case-insensitive names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from omnigraph.api.graph import Graph
from omnigraph.base.errors import QueryTextError, RunError, UsageError
from omnigraph.engine.options import EngineOptions
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.pipeline.query.run import run_query_on_spark, size_bytes
from omnigraph.query.plan.types import NO_FACTS
from omnigraph.query.rules.run import rewrite_plan
from omnigraph.storage.location import parse_location
from tests.conformance.spark_backend import small_session
from tests.engine.pool import Pool, make_pool
from tests.engine.running import PlannedText
from tests.engine.test_against_reference import rows_of
from tests.pipeline.exporting import Record, load_records, make_graph
from tests.query.golden_files import checked
from tests.query.sample_graphs import choices, comparable
from tests.query.sample_parameters import bound
from tests.query.sample_queries import SampleQuery, queries

pytestmark = pytest.mark.xdist_group("spark")

STRANGE: Final = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.shuffle.partitions": "3",
}
SCHEMA: Final = """\
node N { k: String @key  i: I64?  u: U64?  w: U32?  f: F64?  s: String?  day: Date?  at: DateTime?  many: [U64]? }
edge Next: N -> N { w: F32? }
edge Of: N -> M
node M { k: String @key }
"""
CHAIN: Final = 12


@pytest.fixture(scope="module", autouse=True)
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with small_session(tmp_path_factory.mktemp("spark-home"), STRANGE):
        yield


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """A chain with a loop, loaded in two parts, so that its tables have several fragments."""
    folder = tmp_path_factory.mktemp("graph")
    root = make_graph(parse_location(str(folder / "graph.omni")), SCHEMA)
    load_records(root, folder, [*_nodes(0, 7), _edge("Next", 1, 2), _edge("Next", 2, 2)])
    rest = [_edge("Next", number, number + 1) for number in range(2, CHAIN - 1)]
    ends: list[Record] = [{"type": "M", "data": {"k": "n0"}}, {"edge": "Of", "from": "n0", "to": "n0"}]
    load_records(root, folder, [*_nodes(7, CHAIN), *ends, *rest, _edge("Next", 0, 1), _edge("Next", CHAIN - 1, 0)])
    return read_snapshot(root)


def _nodes(first: int, last: int) -> list[Record]:
    numbers = (2**63 - 1, -(2**63), 2**53, 2**53 + 1, None, 0, 7)
    floats = (2.0**53, 2.0**63, -(2.0**63), 0.5, None, 1e300, -0.0)
    texts = ("a\x00b", "Ä", "\U0001f600", "\uffff", None, "", "a")
    return [
        {
            "type": "N",
            "data": {
                "k": f"n{number}",
                "i": numbers[number % 7],
                "u": (2**64 - 1, 2**63, 2**53 + 1, 0, None, 1, 2)[number % 7],
                "w": 2**32 - 1 if number % 2 else None,
                "f": floats[(number * 3) % 7],
                "s": texts[number % 7],
                "day": ("0001-01-01", "1970-01-01", None)[number % 3],
                "at": ("0001-01-01T00:00:00Z", "1970-01-01T00:00:00.001Z", None)[number % 3],
                "many": [2**64 - 1, number] if number % 3 else None,
            },
        }
        for number in range(first, last)
    ]


def _edge(kind: str, source: int, target: int) -> Record:
    return {"edge": kind, "from": f"n{source}", "to": f"n{target}", "data": {"w": source / 8}}


@pytest.mark.parametrize(
    "text",
    [
        "match { $a: N  $b: N  $a.i < $b.f } return { $a.k, $b.k as other }",
        "match { $a: N  $b: N  $a.u >= $b.f  $a.u != $b.i } return { $a.k, $b.k as other }",
        "match { $a: N  $b: N  $a.w = $b.f or $a.f <= $b.f } return { $a.k, $b.k as other }",
        "match { $a: N  $b: N  $a.f * 1e300 - $b.f * 1e300 = $a.f } return { $a.k, $b.k as other }",
        "match { $a: N  $b: N  $a.day >= $b.at } return { $a.k, $b.k as other, $a.day, $b.at }",
        "match { $a: N  $b: N  $a.many contains $b.u } return { $a, $b.k as other }",
        "match { $a: N } return { $a.s, $a.k } order { $a.s desc }",
        "match { $a: N } return { $a.s, $a.k } order { $a.s, $a.u desc } limit 5 offset 2",
        "match { $a: N } return { min($a.s) as m, max($a.u) as u, avg($a.i) as i, count(distinct $a.f) as f }",
        "match { $a: N } return { $a.many, sum($a.w) as w, min($a.day) as d, max($a.at) as t }",
        "match { $a: N  $A: N  $a next $A } return { $a.k, $A.k as other }",
        "match { $a: N  $a next{1,100} $b } return { $a.k, count($b) as n }",
        "match { $a: N  $a next{2,3} $b } return { $a.k, $b.k as other }",
        "match { $a: N  $a <next>{2,5} $b } return { $a.k, $b.k as other }",
        "match { $a: N  $a of{1,3} $m } return { $a.k, $m.k as other }",
        "match { $a: N  $b: N  $a next{3,4} $b  $b.i = 7 } return { $a.k, $b.k as other }",
        "match { $a: N  $a $e:<next> $b } return { $a.k, $e.w, $b.k as other }",
        "match { $a: N  not { $a next $a } not { $a of $m } } return { $a.k }",
        "match { $a: N  optional { $a of $m } optional { $x of $m } optional { $x next $y } } "
        "return { $a.k, $m, $y.k as y }",
        "match { $a: N  optional { $a of $m } not { $m.k = $a.k } } return { $a.k, $m.k as other }",
    ],
)
def test_difficult_cases(graph: Snapshot, text: str) -> None:
    query = PlannedText(f"query q() {{ {text} }}")
    expected = query.run(graph).to_arrow()
    actual = query.run_on_spark(graph).to_arrow()
    assert actual.schema == expected.schema
    plan = query.plan(graph)
    assert comparable(_rows(actual), plan) == comparable(_rows(expected), plan)


def test_from_python(graph: Snapshot) -> None:
    opened = Graph(graph.root, read_only=True)
    text = "query q($k: String) { match { $a: N { k: $k }  $a next $b } return { $b.k } }"
    result = opened.query(text, params={"k": "n0"}, runner="spark")
    assert result.to_pylist() == opened.query(text, params={"k": "n0"}).to_pylist() == [{"b.k": "n1"}]
    assert result.source == opened.query(text, params={"k": "n0"}).source
    unknown: Any = "sparc"
    with pytest.raises(UsageError, match="sparc"):
        opened.query(text, params={"k": "n0"}, runner=unknown)


def _rows(table: Any) -> list[list[tuple[str, Any]]]:
    return [list(row.items()) for row in table.to_pylist()]


@pytest.mark.parametrize("expression", ["sum($a.u)", "sum($a.i * 2)", "max(-$a.u)", "max($a.u + 1)"])
def test_an_overflow_is_the_error_of_the_engine(graph: Snapshot, expression: str) -> None:
    query = PlannedText(f"query q() {{ match {{ $a: N }} return {{ {expression} as n }} }}")
    with pytest.raises(RunError) as failed:
        query.run_on_spark(graph).to_arrow()
    assert failed.value.code == "integer_overflow"


def test_unsupported_queries(graph: Snapshot, tmp_path: Path) -> None:
    root = make_graph(parse_location(str(tmp_path / "graph.omni")), "node D { t: String @index }\n")
    change = PlannedText('query q() { insert D { t: "a" } }')
    skip = PlannedText("query q($n: I64) { match { $a: N } return { $a.k } limit 1 offset $n }")
    for query, snapshot, code in ((change, read_snapshot(root), "query_is_mutation"), (skip, graph, "spark_offset")):
        with pytest.raises(UsageError) as refused:
            query.run_on_spark(snapshot, {"n": 2**31} if query is skip else None).to_arrow()
        assert refused.value.code == code
        assert refused.value.hint


SEARCHES: Final = (
    'match { $d: D search($d.t, "RED हिन्दी") } return { $d.k } order { $d.k }',
    'match { $d: D match_text($d.t, "red fox") not fuzzy($d.t, "hem", 1) } return { $d.k } order { $d.k }',
    'match { $d: D $d.k > "d1" } return { $d.k, bm25($d.t, "red fox red") as s } limit 4',
    'match { $d: D } return { $d.k, bm25($d.t, "hen") as s } order { $d.k }',
    "match { $d: D } return { $d.k, nearest($d.v, [1, 0.5, 0]) as s } limit 5",
    'match { $d: D } return { $d.k, rrf(bm25($d.t, "fox"), nearest($d.v, [0, 1, 0]), k=3) as s } limit 6',
    'match { $a l $d } return { $a.k, $d.k as d, bm25($d.t, "red") as s } limit 5',
    'match { $d: D search($d.u, "cafe") } return { $d.k, bm25($d.u, "RUN cafes") as s } limit 5',
    'match { $d: D match_text($d.u, "run cafe") not fuzzy($d.u, "runz", 0) } return { $d.k } order { $d.k }',
)


def test_search_is_that_of_the_process(tmp_path: Path) -> None:
    """Predicates, `bm25`, `nearest` and `rrf` are computed by the same functions, after scans and traversals."""
    schema = 'node D { k: String @key  t: String?  v: Vector(3)?  u: String? @index(stem="english") }\nedge L: D -> D\n'
    root = make_graph(parse_location(str(tmp_path / "graph.omni")), schema)
    texts = ("red fox", None, "red red hen", "blue fox", "", "green हिन्दी", "Red, blue", "fox red hen", "hen")
    for part in (range(5), range(5, 9)):
        rows: list[Record] = [
            {
                "type": "D",
                "data": {
                    "k": f"d{n}",
                    "t": texts[n],
                    "v": None if n % 4 == 3 else [float(n), 1.0, float(n % 3)],
                    "u": None if n % 3 == 2 else "running Cafes, runs" if n % 2 else "a cafe",
                },
            }
            for n in part
        ]
        load_records(root, tmp_path, rows)
    load_records(root, tmp_path, [{"edge": "L", "from": f"d{n}", "to": f"d{n % 3 + 4}"} for n in range(8)])
    snapshot = read_snapshot(root)
    for body in SEARCHES:
        query = PlannedText(f"query q() {{ {body} }}")
        expected = _rows(query.run(snapshot))
        assert expected, body
        assert _rows(query.run_on_spark(snapshot)) == expected, body


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    return make_pool(tmp_path_factory.mktemp("pool"))


loosely: Final = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@given(asked=queries(), numbers=choices)
@settings(max_examples=4, derandomize=True, database=None, phases=[Phase.generate], suppress_health_check=loosely)
def test_generated_queries(pool: Pool, asked: SampleQuery, numbers: dict[str, int]) -> None:
    check_generated(pool, asked, numbers)


@pytest.mark.soak
@given(asked=queries(), numbers=choices)
@settings(max_examples=150, phases=[Phase.generate], suppress_health_check=loosely)
def test_many_generated_queries(pool: Pool, asked: SampleQuery, numbers: dict[str, int]) -> None:
    check_generated(pool, asked, numbers)


def check_generated(pool: Pool, asked: SampleQuery, numbers: dict[str, int]) -> None:
    try:
        (query,) = checked(asked.text)
    except QueryTextError:
        return
    snapshot, _ = pool.choose(numbers)
    plan = bound(rewrite_plan(query.plan, NO_FACTS), asked.values)
    stream = run_query_on_spark(snapshot, plan)
    actual = [list(row.items()) for batch in stream.batches for row in batch.to_pylist()]
    assert comparable(actual, plan) == comparable(rows_of(snapshot, plan, EngineOptions()), plan), asked


def test_size_of_the_configuration_is_read_in_bytes() -> None:
    sizes = {"1g": 1024**3, "512mb": 512 * 1024**2, "64K": 64 * 1024, "1000": 1000, "0": 0, "100b": 100}
    assert {text: size_bytes(text) for text in sizes} == sizes
