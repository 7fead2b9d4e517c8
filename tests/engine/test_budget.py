"""Budgets, and what does not need them: rows that stream are never held."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.api.querying import PreparedQuery
from omnigraph.base.errors import RunError
from omnigraph.engine.budget import Budget
from omnigraph.engine.cache import Cache
from omnigraph.engine.options import EngineOptions
from omnigraph.engine.run import RunOptions
from omnigraph.engine.scope import Trace
from omnigraph.graph.snapshot import Snapshot
from tests.engine.graphs import ask, make_snapshot

SCHEMA = "node P { k: String @key  n: I64 }\nedge E: P -> P\n"
ROWS = 50_000


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    keys = [f"{number:06d}" for number in range(ROWS)]
    nodes = pa.table({"id": keys, "k": keys, "n": np.arange(ROWS)})
    near, far = np.arange(3000) % 1000, np.arange(3000) // 3
    ids = [f"e{number}" for number in range(3000)]
    edges = pa.table({"id": ids, "src": np.array(keys)[near], "dst": np.array(keys)[far]})
    return make_snapshot(tmp_path_factory.mktemp("budget"), SCHEMA, {"node:P": nodes, "edge:E": edges})


SMALL = EngineOptions(memory_bytes_max=200_000, frame_rows=2_000)
NO_CACHE = Cache(bytes_max=10_000)
"""So small that every column is read from storage."""


@pytest.mark.parametrize(
    "body",
    [
        "match { $p: P } return { $p.k } order { $p.k }",
        "match { $p: P } return { $p.n, count($p) as c }",
        "match { $p: P $q: P } return { $p.k, $q.k } order { $q.n } limit 3",
        "match { $p: P } return { count(distinct $p.n) as c }",
    ],
)
def test_a_query_that_must_hold_too_much_says_so(graph: Snapshot, body: str) -> None:
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
    ],
)
def test_what_streams_needs_no_memory(graph: Snapshot, body: str, count: int) -> None:
    assert len(ask(graph, body, SMALL, cache=NO_CACHE)) == count


def test_a_limit_stops_reading(graph: Snapshot) -> None:
    trace = Trace()
    ask(graph, "match { $p: P } return { $p.k } limit 5", SMALL, cache=NO_CACHE, trace=trace)
    assert max(trace.rows.values()) <= SMALL.frame_rows


def test_time_is_a_budget_too(graph: Snapshot) -> None:
    with pytest.raises(RunError) as caught:
        ask(graph, "match { $p: P $q: P } return { count($p.k) as c }", EngineOptions(seconds_max=0.0))
    assert caught.value.code == "query_time"
    assert "time budget" in caught.value.message


def test_what_is_released_counts_no_more() -> None:
    budget = Budget(EngineOptions(memory_bytes_max=10))
    budget.hold(10)
    budget.release(10)
    budget.allow(10)
    budget.hold(6)
    with pytest.raises(RunError):
        budget.allow(5)


def test_a_result_sees_one_snapshot_to_its_end(graph: Snapshot) -> None:
    how = RunOptions(SMALL, NO_CACHE)
    result = PreparedQuery("query q() { match { $p: P } return { $p.k } }").run(graph, None, how)
    sizes = [batch.num_rows for batch in result.batches()]
    assert sum(sizes) == ROWS
    assert max(sizes) <= 2_000
