"""Queries over one small graph, step by step: nulls, loops, parallel edges, cycles, ties, extremes, empty tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph.base.errors import RunError
from omnigraph.engine.options import EngineOptions, TraversalMode
from omnigraph.graph.manifest.snapshot import Snapshot
from tests.engine.graphs import ask, make_snapshot

SCHEMA = """\
node P { k: String @key  n: I64?  u: U64?  f: F64?  t: String? }
node Q { k: String @key }
edge E: P -> P { w: I64? }
edge R: P -> Q
"""
# a -> b twice, b -> c -> a, c -> c, d alone; a -> x and b -> x.
TABLES: dict[str, list[dict[str, Any]]] = {
    "node:P": [
        {"k": "a", "n": 2**63 - 1, "u": 2**64 - 1, "f": 0.5, "t": "ü"},
        {"k": "b", "n": -(2**63), "u": 0, "f": -0.0, "t": None},
        {"k": "c", "n": 0, "u": None, "f": 0.0, "t": "z"},
        {"k": "d", "n": None, "u": None, "f": None, "t": "a"},
    ],
    "node:Q": [{"k": "x"}, {"k": "a"}],
    "edge:E": [
        {"src": "a", "dst": "b", "w": 1},
        {"src": "a", "dst": "b", "w": 2},
        {"src": "b", "dst": "c", "w": None},
        {"src": "c", "dst": "a", "w": 4},
        {"src": "c", "dst": "c", "w": 5},
    ],
    "edge:R": [{"src": "a", "dst": "x"}, {"src": "b", "dst": "x"}],
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return make_snapshot(tmp_path_factory.mktemp("steps"), SCHEMA, TABLES)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return make_snapshot(tmp_path_factory.mktemp("empty"), SCHEMA, {})


MODES = (None, *TraversalMode)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("$p e $q", {"ab", "bc", "ca", "cc"}),
        ("$p e{1,2} $q", {"ab", "ac", "bc", "ba", "ca", "cc", "cb"}),
        ("$p e{2,2} $q", {"ac", "ba", "cb"}),
        ("$p e{3,9} $q", set()),
        ("$p <e> $q", {"ab", "ba", "bc", "cb", "ca", "ac", "cc"}),
        ("$p <e>{2,3} $q", set()),
        ("$p e $q $q e $p", {"cc"}),
        ("$p e $q $p = $q", {"cc"}),
        ("$p e $q not { $q e $p }", {"ab", "bc", "ca"}),
        (
            "$p: P $q: P not { $p e{1,3} $q } not { $q e{1,3} $p }",
            {"ad", "bd", "cd", "dd", "da", "db", "dc", "aa", "bb"},
        ),
    ],
)
def test_reachable_pairs(
    graph: Snapshot, mode: TraversalMode | None, cached: bool, match: str, expected: set[str]
) -> None:
    options = EngineOptions(mode=mode, cached=cached, frame_rows=2, expanded_rows_max=2)
    rows = ask(graph, f"match {{ {match} }} return {{ $p.k, $q.k }}", options)
    assert sorted("".join(row) for row in rows) == sorted(expected)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_parallel_edges_are_separate_rows(graph: Snapshot, mode: TraversalMode | None, cached: bool) -> None:
    options = EngineOptions(mode=mode, cached=cached, frame_rows=2, expanded_rows_max=2)

    def pairs(match: str) -> list[tuple[Any, ...]]:
        rows = ask(graph, f"match {{ {match} }} return {{ $p.k, $q.k, $x.w }}", options)
        return sorted(rows, key=str)

    forward = [("a", "b", 1), ("a", "b", 2), ("b", "c", None), ("c", "a", 4), ("c", "c", 5)]
    assert pairs("$p $x:e $q") == forward
    back = [(far, near, w) for near, far, w in forward if near != far]
    assert pairs("$p $x:<e> $q") == sorted(forward + back, key=str)
    assert pairs("$p $x:e $q $x.w > 1") == [("a", "b", 2), ("c", "a", 4), ("c", "c", 5)]
    assert pairs('$p: P { k: "a" } $q: P { k: "b" } $p $x:e $q') == forward[:2]
    assert pairs('$p: P { k: "c" } $p $x:<e> $q') == [("c", "a", 4), ("c", "b", None), ("c", "c", 5)]


@pytest.mark.parametrize("mode", MODES)
def test_optional_keeps_rows_with_nulls(graph: Snapshot, mode: TraversalMode | None) -> None:
    options = EngineOptions(mode=mode, frame_rows=1)
    rows = ask(graph, "match { $p: P optional { $p r $q $p e $s } } return { $p.k, $q.k, $s.k, $q }", options)
    assert sorted(rows, key=str) == [
        ("a", "x", "b", {"@id": "x", "k": "x"}),
        ("b", "x", "c", {"@id": "x", "k": "x"}),
        ("c", None, None, None),
        ("d", None, None, None),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_endpoints_of_different_types_are_not_mixed(graph: Snapshot, mode: TraversalMode | None) -> None:
    options = EngineOptions(mode=mode)
    assert sorted(ask(graph, "match { $p r $q } return { $p.k, $q.k }", options)) == [("a", "x"), ("b", "x")]
    both = ask(graph, "match { $p r $q $s r $q $p != $s } return { $p.k, $s.k }", options)
    assert sorted(both) == [("a", "b"), ("b", "a")]


@pytest.mark.parametrize("frame_rows", [1, 1000])
def test_order_is_total(graph: Snapshot, frame_rows: int) -> None:
    options = EngineOptions(frame_rows=frame_rows)

    def keys(order: str) -> str:
        rows = ask(graph, f"match {{ $p: P }} return {{ $p.k }} {order}", options)
        return "".join(str(row[0]) for row in rows)

    assert keys("order { $p.n }") == "dbca"
    assert keys("order { $p.n desc }") == "acbd"
    assert keys("order { $p.u, $p.k desc }") == "dcba"
    assert keys("order { $p.u desc }") == "abcd"
    assert keys("order { $p.f }") == "dbca"
    assert keys("order { $p.f desc }") == "abcd"
    assert keys("order { $p.t }") == "bdca"
    assert keys("order { $p.t desc } limit 2") == "ac"
    assert keys("order { $p.n } limit 2 offset 1") == "bc"
    assert keys("order { $p.n } limit 0") == ""
    assert keys("order { $p.n } limit 9 offset 3") == "a"
    assert keys("order { $p.n } limit 9223372036854775807 offset 4") == ""
    assert len(keys("limit 3 offset 2")) == 2


@pytest.mark.parametrize("frame_rows", [1, 1000])
def test_groups(graph: Snapshot, frame_rows: int) -> None:
    options = EngineOptions(frame_rows=frame_rows)
    rows = ask(graph, "match { $p: P } return { $p.f, count($p) as n, count($p.u) as m, min($p.t) as t }", options)
    assert sorted(rows, key=lambda row: str(row[1:])) == [(None, 1, 0, "a"), (0.5, 1, 1, "ü"), (0.0, 2, 1, "z")]
    shown = "sum($p.n) as s, avg($p.f) as a, max($p.u) as u, min($p.n) as lo, count(distinct $p.f) as d"
    assert ask(graph, f"match {{ $p: P }} return {{ {shown} }}", options) == [(-1, 0.5 / 3, 2**64 - 1, -(2**63), 2)]
    assert ask(graph, "match { $p: P $p e $q } return { $q.k, count($p) as n } order { n desc }", options) == [
        ("c", 2),
        ("a", 1),
        ("b", 1),
    ]
    assert ask(graph, "match { $p e $q $q e $r } return { count($r) as n, sum($r.f) as s }", options) == [(6, 1.0)]


@pytest.mark.parametrize("text", ["sum($p.u)", "sum($p.n + 1)", "sum($p.n * 1)"])
def test_sum_overflow_is_an_error(graph: Snapshot, text: str) -> None:
    body = f"match {{ $p: P  $q: P }} return {{ {text} as s }}"
    if text == "sum($p.n * 1)":
        assert ask(graph, body) == [(-4,)]
        return
    with pytest.raises(RunError) as caught:
        ask(graph, body)
    assert caught.value.code == "integer_overflow"


@pytest.mark.parametrize("mode", MODES)
def test_empty_tables(empty: Snapshot, mode: TraversalMode | None) -> None:
    options = EngineOptions(mode=mode)
    for match in ("$p: P", "$p e $q", "$p $x:e $p", "$p <e>{1,3} $q", "$p: P optional { $p e $q }"):
        assert ask(empty, f"match {{ {match} }} return {{ $p.k }} order {{ $p.k }}", options) == []
        assert ask(empty, f"match {{ {match} }} return {{ count($p) as n, sum($p.n) as s }}", options) == [(0, None)]
        assert ask(empty, f"match {{ {match} }} return {{ $p.n, count($p) as n }}", options) == []


def test_number_of_paths_overflow_is_an_error(tmp_path: Path) -> None:
    """All nodes are connected, so there are 8 to the power of n + 1 paths of n hops."""
    keys = "abcdefgh"
    edges = [{"src": source, "dst": target} for source in keys for target in keys]
    graph = make_snapshot(tmp_path, SCHEMA, {"node:P": [{"k": key} for key in keys], "edge:E": edges})
    chain = " ".join(f"$p{number} e $p{number + 1}" for number in range(19))
    assert ask(graph, f"match {{ {chain} }} return {{ count($p19) as n }}") == [(8**20,)]
    grouped = f"match {{ {chain} $p19 e $p20 $p20 e $p21 }} return {{ $p21.k, count($p0) as n }}"
    with pytest.raises(RunError) as caught:
        ask(graph, grouped)
    assert caught.value.code == "integer_overflow"
