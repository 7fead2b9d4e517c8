"""The cache between queries: its bounds, the choice of adjacency, and the validation of adjacency files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.cache import Cache, TableKey
from omnigraph.engine.columns.dictionary import ValueDictionary, compact_codes, distinct_numbers
from omnigraph.engine.context import Trace
from omnigraph.engine.options import EngineOptions, TraversalMode
from omnigraph.engine.prepare import QueryPlanner, QuerySource
from omnigraph.engine.traversal.adjacency import (
    adjacency_path,
    build_adjacency,
    decode_adjacency,
    encode_adjacency,
    read_adjacency,
    write_adjacency,
)
from omnigraph.graph.manifest.identity import BranchIdentity
from omnigraph.graph.manifest.snapshot import Snapshot, open_table
from omnigraph.query.plan import operators as op
from omnigraph.storage.lance.dataset import create_dataset
from tests.engine.graphs import ask, make_snapshot

SCHEMA = "node P { k: String @key  n: I64 }\nedge E: P -> P\n"
EDGES = 30_000


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Return a graph with more edges than are cached at the first request."""
    keys = np.array([f"k{number}" for number in range(1000)])
    dice = np.random.default_rng(3)
    nodes = pa.table({"id": keys, "k": keys, "n": np.arange(1000)})
    endpoints = dice.integers(0, 1000, (2, EDGES))
    edges = pa.table(
        {"id": [f"e{number}" for number in range(EDGES)], "src": keys[endpoints[0]], "dst": keys[endpoints[1]]}
    )
    tables = {"node:P": nodes, "edge:E": edges}
    return make_snapshot(
        tmp_path_factory.mktemp("caches"), SCHEMA, tables, {"edge:E": ("src", "dst"), "node:P": ("id",)}
    )


def _key(table: str, version: int = 1) -> TableKey:
    return TableKey(BranchIdentity("i"), table, None, version)


def test_least_recently_used_entries_are_evicted() -> None:
    cache = Cache(bytes_max=10)
    keys = {name: (_key(name), "x") for name in "abcde"}
    for name in "abc":
        cache.put(keys[name], name, 4)
    assert [cache.get(keys[name], str) for name in "abc"] == [None, "b", "c"]
    cache.get(keys["b"], str)
    cache.put(keys["d"], "d", 4)
    assert [cache.get(keys[name], str) for name in "bcd"] == ["b", None, "d"]
    cache.put(keys["e"], "e", 11)
    assert (cache.get(keys["e"], str), cache.nbytes) == (None, 8)
    cache.put(keys["b"], "B", 1)
    assert (cache.get(keys["b"], str), cache.nbytes) == ("B", 5)
    assert [cache.touch("x"), cache.touch("x"), cache.touch("y")] == [0, 1, 0]


def test_versions_and_tables_are_bounded() -> None:
    cache = Cache(tables_max=4, versions_max=2)
    for version in (1, 2):
        for part in "xy":
            cache.put((_key("a", version), part), part, 1)
    cache.put((_key("b"), "x"), "x", 1)
    assert cache.get((_key("a", 1), "x"), str) == "x"
    cache.put((_key("a", 3), "x"), "x", 1)
    assert (cache.tables, cache.nbytes) == ((_key("b"), _key("a", 1), _key("a", 3)), 4)
    assert cache.get((_key("a", 2), "y"), str) is None
    for table in "cd":
        cache.put((_key(table), "x"), "x", 1)
    assert list(cache.tables) == [_key("a", 1), _key("a", 3), _key("c"), _key("d")]
    cache.put((_key("c"), "x"), "too large", cache.bytes_max + 1)
    assert list(cache.tables) == [_key("a", 1), _key("a", 3), _key("d")]


def test_translation_exists_as_long_as_both_dictionaries() -> None:
    grown: list[int] = []
    first, second = (ValueDictionary(pa.array(texts), is_unique=True) for texts in (["a", "b"], ["b", "c"]))
    first.on_growth = lambda dictionary: grown.append(dictionary.nbytes)
    before = first.nbytes
    assert first.translation(second) is None
    assert first.translate(second).tolist() == [-1, 0]
    assert grown == [before + 16]
    translation = first.translation(second)
    assert translation is not None
    assert translation.tolist() == [-1, 0]
    del second
    assert first.nbytes == before


def test_mode_depends_on_size_of_frontier(graph: Snapshot) -> None:
    cache = Cache()
    few = 'match { $p: P { k: "k1" } $p e $q } return { count($q) as n }'
    many = "match { $p: P $p e $q } return { count($q) as n }"

    def modes(body: str, cache: Cache) -> set[str]:
        trace = Trace()
        ask(graph, body, cache=cache, trace=trace)
        return {mode for mode, _ in trace.modes.values()} - {"from memory", "from storage"}  # the modes of scans

    assert modes(few, cache) == {"indexed"}
    assert modes(many, cache) == {"adjacency"}
    assert modes(few, cache) == {"adjacency"}
    repeated = Cache()
    assert [modes(few, repeated) for _ in range(3)] == [{"indexed"}, {"indexed"}, {"adjacency"}]
    tiny = Cache(bytes_max=100_000)
    assert modes(few, tiny) == {"indexed"}
    assert modes(many, tiny) == {"edge scan"}


@pytest.mark.parametrize("mode", TraversalMode)
def test_all_modes_reach_the_same_nodes(graph: Snapshot, mode: TraversalMode) -> None:
    body = "match { $p: P $p.n < 3 $p e{1,2} $q } return { $p.k, count($q) as n } order { $p.k }"
    expected = ask(graph, body, EngineOptions(mode=TraversalMode.ADJACENCY, cached=False))
    assert len(expected) == 3
    assert ask(graph, body, EngineOptions(mode=mode)) == expected


def test_adjacency_file_is_read_and_verified(graph: Snapshot) -> None:
    record = graph.tables["edge:E"]
    dataset = open_table(graph.root, record)
    sources, targets = pa.array(["a", "b", "a"] * 10_000), pa.array(["b", "ü", "b"] * 10_000)
    adjacency = build_adjacency(sources, targets, same_type=True)
    assert read_adjacency(graph.root, record, dataset) is None
    assert write_adjacency(graph.root, record, dataset, adjacency)
    stored = read_adjacency(graph.root, record, dataset)
    assert stored is not None
    assert stored.sources is stored.targets
    assert stored.sources.array.to_pylist() == ["a", "b", "ü"]
    assert stored.neighbours(op.Direction.BOTH).far.tolist() == [1, 0, 2, 1]
    # Queries use the file: no node of the graph is among its endpoints.
    body = "match { $p: P $p e $q } return { count($q) as n }"
    assert ask(graph, body, cache=Cache()) == [(0,)]
    assert ask(graph, body, EngineOptions(mode=TraversalMode.EDGE_SCAN), cache=Cache()) != [(0,)]
    data = encode_adjacency(record, dataset, adjacency)
    assert decode_adjacency(record, dataset, data) is not None
    for damaged in (
        data[:-1],
        data + b" ",
        data[:200] + bytes([data[200] ^ 1]) + data[201:],
        data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
        b"OGADJ002" + data[8:],
        b"",
        data.replace(f'"version": {record.pin.version}'.encode(), b'"version": 9'),
    ):
        assert decode_adjacency(record, dataset, damaged) is None
    # The same version and number of edges, but other data files, as in a backup that was written to.
    other = create_dataset(graph.root.child("other"), pa.table({"src": ["a"], "dst": ["b"]}))
    assert decode_adjacency(record, other, data) is None
    path = Path(graph.root.uri) / adjacency_path(record)
    path.unlink()


def test_find_missing_texts_and_nulls() -> None:
    texts = pa.array([f"t{number}" for number in range(1000)])
    dictionary = ValueDictionary(texts, is_unique=True)
    requested = pa.array(["t5", None, "missing", "t999"] * 10)
    assert dictionary.find(requested).tolist() == [5, -1, -1, 999] * 10
    assert dictionary.find(requested.slice(1, 3)).tolist() == [-1, -1, 999]


def test_compact_codes_and_distinct_numbers() -> None:
    codes = np.array([5, -1, 3, 5, 3])
    for size in (6, 1_000_000):
        used, ranks = compact_codes(codes, size)
        assert (used.tolist(), ranks.tolist()) == ([3, 5], [1, -1, 0, 1, 0])
    assert distinct_numbers(np.array([3, 1, 3, 2])).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "is_cached"),
    [
        ("query nowhere($n: I64) { match { $p: P { n: $n } } return { $p.k } }", True),
        ("query timed($n: I64) { match { $p: P { n: $n } } return { $p.k, now() as t } }", False),
    ],
)
def test_bound_plans_are_cached_unless_they_read_the_clock(graph: Snapshot, text: str, is_cached: bool) -> None:
    planner = QueryPlanner(source=QuerySource(text))
    assert (planner.bound_plan(graph, {"n": 3}) is planner.bound_plan(graph, {"n": 3})) is is_cached
    assert planner.bound_plan(graph, {"n": 4}) is not planner.bound_plan(graph, {"n": 3})
