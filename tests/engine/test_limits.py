"""Limits of memory and time; rows that are streamed need no memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.base.errors import RunError, StorageError, UsageError
from omnigraph.engine.cache import Cache
from omnigraph.engine.context import Trace
from omnigraph.engine.limits import Budget, iterate_until_deadline
from omnigraph.engine.options import EngineOptions
from omnigraph.engine.run import QueryRunOptions
from omnigraph.graph.manifest.snapshot import Snapshot
from tests.engine.graphs import ask, make_snapshot
from tests.engine.running import PlannedText
from tests.waiting import SECONDS_MAX

SCHEMA = "node P { k: String @key  n: I64 }\nnode D { k: String @key  t: String  v: Vector(16) }\nedge E: P -> P\n"
ROWS = 50_000
TEXTS = 4_000
VECTOR = [1.0] * 16


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    keys = [f"{number:06d}" for number in range(ROWS)]
    nodes = pa.table({"id": keys, "k": keys, "n": np.arange(ROWS)})
    near, far = np.arange(3000) % 1000, np.arange(3000) // 3
    ids = [f"e{number}" for number in range(3000)]
    edges = pa.table({"id": ids, "src": np.array(keys)[near], "dst": np.array(keys)[far]})
    texts = [f"word{number} of a text with words" for number in range(TEXTS)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(16 * TEXTS, np.float32)), 16)
    documents = pa.table({"id": keys[:TEXTS], "k": keys[:TEXTS], "t": texts, "v": vectors})
    tables = {"node:P": nodes, "node:D": documents, "edge:E": edges}
    return make_snapshot(tmp_path_factory.mktemp("budget"), SCHEMA, tables)


SMALL = EngineOptions(memory_bytes_max=200_000, frame_rows=2_000)
NO_CACHE = Cache(bytes_max=10_000)
"""So small that all columns are read from storage."""


@pytest.mark.parametrize(
    "body",
    [
        "match { $p: P } return { $p.k } order { $p.k }",
        "match { $p: P } return { $p.n, count($p) as c }",
        "match { $p: P $q: P } return { $p.k, $q.k } order { $q.n } limit 3",
        "match { $p: P } return { count(distinct $p.n) as c }",
        "match { $p: P $p.n < 10 optional { $q: P } } return { $p.k, $q.k } limit 3",
        'match { $d: D } return { $d.k, $d.t, bm25($d.t, "word7") as s } order { $d.k }',
    ],
)
def test_query_above_memory_limit_fails(graph: Snapshot, body: str) -> None:
    with pytest.raises(RunError) as caught:
        ask(graph, body, SMALL, cache=NO_CACHE)
    assert caught.value.code == "query_memory"
    limit = {"resource": "memory", "limit": 200_000, "unit": "bytes"}
    assert caught.value.facts["resource_limit"] == limit


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("match { $p: P $p.n > 100 } return { $p.k }", ROWS - 101),
        ("match { $p: P $p.n * 1 > 100 } return { $p.k }", ROWS - 101),
        ("match { $p: P } return { $p.k } limit 5", 5),
        ("match { $p: P } return { $p.k } order { $p.n desc } limit 5", 5),
        ("match { $p: P } return { sum($p.n) as s, count($p) as c, min($p.k) as k }", 1),
        ('match { $d: D search($d.t, "word7 word8") } return { $d.k }', 2),
        ('match { $d: D fuzzy($d.t, "wordy7", 1) } return { $d.k }', 10),
        ('match { $d: D search($d.t, "word7 word8") } return { bm25($d.t, "word7") as s }', 2),
        ('match { $d: D } return { $d.k, bm25($d.t, "word7 text") as s } limit 3', 3),
        (f"match {{ $d: D }} return {{ $d.k, $d.v, nearest($d.v, {VECTOR}) as s }} limit 3", 3),
        (f'match {{ $d: D }} return {{ rrf(bm25($d.t, "word7"), nearest($d.v, {VECTOR})) as s }} limit 3', 3),
    ],
)
def test_streamed_rows_need_no_memory(graph: Snapshot, body: str, count: int) -> None:
    result = PlannedText(f"query q() {{ {body} }}").run(graph, None, QueryRunOptions(SMALL, NO_CACHE))
    assert sum(batch.num_rows for batch in result.batches()) == count


def test_limit_stops_reading(graph: Snapshot) -> None:
    trace = Trace()
    ask(graph, "match { $p: P } return { $p.k } limit 5", SMALL, cache=NO_CACHE, trace=trace)
    assert max(trace.rows.values()) <= SMALL.frame_rows


@pytest.mark.parametrize(
    "body",
    [
        "match { $p: P $q: P } return { count($p.k) as c }",
        "match { $p: P $p.n * 1 < 0 } return { $p.k }",
        'match { $d: D search($d.t, "nothing") } return { $d.k }',
    ],
)
def test_query_above_time_limit_fails(graph: Snapshot, body: str) -> None:
    """The time limit also ends a scan without matching rows."""
    with pytest.raises(RunError) as caught:
        ask(graph, body, EngineOptions(seconds_max=0.0), cache=NO_CACHE)
    assert caught.value.code == "query_time"
    assert "time limit" in caught.value.message
    assert "seconds=" in caught.value.hint


def test_deadline_ends_blocked_iterator() -> None:
    is_over = Event()

    def stuck() -> Iterator[int]:
        yield 1
        is_over.wait(SECONDS_MAX)
        yield 2

    items = iterate_until_deadline(stuck(), Budget(EngineOptions(seconds_max=0.05)))
    assert next(items) == 1
    with pytest.raises(RunError, match="time limit"):
        next(items)
    is_over.set()


def test_items_and_errors_before_deadline_are_passed_on() -> None:
    budget = Budget(EngineOptions())
    assert list(iterate_until_deadline(iter(range(100)), budget)) == list(range(100))

    def failing() -> Iterator[int]:
        yield 1
        raise StorageError("failed", code="failed")

    items = iterate_until_deadline(failing(), budget)
    assert next(items) == 1
    with pytest.raises(StorageError, match="failed"):
        next(items)


def test_result_as_one_table_counts_against_memory_limit(graph: Snapshot) -> None:
    text = "query q() { match { $p: P } return { $p.k, $p.n } }"
    options = QueryRunOptions(SMALL, NO_CACHE)
    with pytest.raises(RunError, match="memory limit"):
        PlannedText(text).run(graph, None, options).to_arrow()
    assert sum(batch.num_rows for batch in PlannedText(text).run(graph, None, options).batches()) == ROWS


def test_words_count_in_cache_and_long_texts_are_not_cached(graph: Snapshot) -> None:
    cache = Cache()
    ask(graph, 'match { $d: D $d.t contains "word7 " } return { $d.k }', cache=cache)
    before = cache.nbytes
    ask(graph, 'match { $d: D search($d.t, "word7") } return { $d.k }', cache=cache)
    words = TEXTS * 6  # in each text
    assert cache.nbytes - before > words * 12
    small = Cache(bytes_max=200_000)
    for _ in range(4):
        assert ask(graph, 'match { $d: D $d.k = "000007" } return { $d.t }', cache=small)
    assert small.nbytes < 200_000


def test_limits_of_user(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), "node P { k: String @key  n: I64? }\n")
    rows = " ".join(f'insert P {{ k: "{number}" }}' for number in range(300))
    head = graph.mutate(f"query m() {{ {rows} }}").commit
    few = og.QueryLimits(memory_bytes=1_000)
    with pytest.raises(RunError, match="memory limit"):
        graph.query("query q() { match { $p: P } return { $p.k } order { $p.k } }", limits=few).to_arrow()
    with pytest.raises(RunError, match="memory limit"):
        graph.mutate("query m() { update P set { n: 1 } where true }", limits=few)
    with pytest.raises(RunError, match="time limit"):
        graph.query("query q() { match { $p: P } return { $p.k } }", limits=og.QueryLimits(seconds=1e-9)).to_arrow()
    assert head is not None
    assert graph.snapshot().head == head.id
    assert graph.mutate("query m() { update P set { n: 1 } where true }").affected_nodes == 300
    for wrong in ({"memory_bytes": 0}, {"seconds": -1.0}):
        with pytest.raises(UsageError, match="limit of a query"):
            og.QueryLimits(**wrong)


def test_released_bytes_do_not_count() -> None:
    budget = Budget(EngineOptions(memory_bytes_max=10))
    budget.reserve(10)
    budget.release(10)
    budget.require_bytes(10)
    budget.reserve(6)
    with pytest.raises(RunError):
        budget.require_bytes(5)


def test_result_reads_one_snapshot(graph: Snapshot) -> None:
    options = QueryRunOptions(SMALL, NO_CACHE)
    result = PlannedText("query q() { match { $p: P } return { $p.k } }").run(graph, None, options)
    sizes = [batch.num_rows for batch in result.batches()]
    assert sum(sizes) == ROWS
    assert max(sizes) <= 2_000
