"""Searches through indexes equal exact ones, whatever the indexes cover: after load, update, delete and optimize."""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.base import failpoints, limits
from omnigraph.engine.context import Trace
from omnigraph.engine.options import EngineOptions
from omnigraph.graph.manifest.snapshot import Snapshot, open_table
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan.types import STRING
from omnigraph.query.rules.search_choice import SearchPath
from omnigraph.schema.property_types import TextOptions, VectorType
from omnigraph.storage.lance import indexes
from omnigraph.storage.lance.indexes import NOT_POSSIBLE
from tests.engine.graphs import ask
from tests.query.reference_search import scored
from tests.waiting import SECONDS_MAX

SCHEMA = """node D {
  k: String @key  t: String? @index  n: I64 @index  v: Vector(8)? @index  w: Vector(6)? @index
  u: String? @index(stem="english")  f: String? @index(ascii_folding=true)
}
"""
FORMS = ("running", "Runs", "run", "café", "CAFES", "generously", "generous", "İzmir", "Izmir", "houses", "ﬁne")
WORDS = ("red", "fox", "hen", "blue", "bleu", "café", "İzmir", "हिन्दी", "日本語", "w2", "redd")
BY_INDEX = EngineOptions(search=SearchPath.INDEX)
EXACTLY = EngineOptions(search=SearchPath.EXACT)
PREDICATES = (
    'search($d.t, "red")',
    'search($d.t, "hen İZMIR")',
    'search($d.t, "हिन्दी")',
    'search($d.t, "日本語") $d.n < 60',
    'search($d.t, "nothing")',
    'search($d.t, "--")',
    'search($d.t, "CAFÉ") search($d.t, "fox blue")',
    'search($d.t, "fox") length($d.k) > 2',
    'search($d.t, "fox") or $d.n = 3',
    'not search($d.t, "fox")',
    'match_text($d.t, "red fox")',
    'match_text($d.t, "red fox") $d.n > 20',
    'fuzzy($d.t, "rad", 1)',
    'fuzzy($d.t, "blue", 2)',
    'fuzzy($d.t, "W2", 0)',
    'fuzzy($d.t, "REDS", 1)',
    'fuzzy($d.t, "İzmir", 1)',
    'search($d.u, "runs") search($d.u, "CAFÉ")',
    'match_text($d.u, "run cafe")',
    'match_text($d.u, "house RUNS")',
    'fuzzy($d.u, "Running", 1)',
    'search($d.f, "CAFE fine")',
    'match_text($d.f, "run cafe")',
    'fuzzy($d.f, "CAFÉ", 1)',
    'fuzzy($d.u, "generously", 2)',
    'fuzzy($d.u, "generously", 0)',
    'search($d.u, "İzmir fine")',
)
RNG, FORMS_RNG = np.random.default_rng(7), np.random.default_rng(8)
PROCESSES = multiprocessing.get_context("forkserver")


def document(number: int) -> dict[str, Any]:
    texts = RNG.choice(WORDS, RNG.integers(1, 7))
    vector = None if number % 9 == 4 else RNG.normal(size=8).round(3).tolist()
    forms = None if number % 11 == 5 else " ".join(FORMS_RNG.choice(FORMS, FORMS_RNG.integers(1, 5)))
    return {
        "k": f"d{number}",
        "t": None if number % 7 == 3 else " ".join(texts),
        "n": number,
        "v": vector,
        "w": [1.0, 0.0, 0.0, 0.0, 0.0, float(number)],
        "u": forms,
        "f": forms,
    }


def load(graph: og.Graph, folder: Path, numbers: range) -> None:
    file = folder / "rows.jsonl"
    lines = (json.dumps({"type": "D", "data": document(number)}) for number in numbers)
    file.write_text("\n".join(lines), encoding="utf-8")
    graph.load(file, mode="merge")


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Snapshot]]:
    """Snapshots of one graph: covered, with more rows, updated and deleted, and indexed again."""
    folder = tmp_path_factory.mktemp("indexed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SEARCH_EXACT_BYTES", 0)
        patch.setattr(limits, "ENGINE_EAGER_ROWS_MAX", 0)
        graph = og.init(str(folder / "g.omni"), SCHEMA)
        load(graph, folder, range(120))
        graph.optimize()
        snapshots = {"covered": graph.snapshot()}
        load(graph, folder, range(100, 150))
        snapshots["more rows"] = graph.snapshot()
        graph.mutate("query q() { delete D where n < 10 }")
        graph.mutate('query q() { update D set { t: "hen hen zebra", v: [1, 0, 0, 0, 0, 0, 0, 0] } where n < 30 }')
        snapshots["updated and deleted"] = graph.snapshot()
        graph.optimize()
        snapshots["indexed again"] = graph.snapshot()
        yield snapshots


STATES = ("covered", "more rows", "updated and deleted", "indexed again")


@pytest.mark.parametrize("state", STATES)
def test_predicates_match_the_same_rows(states: dict[str, Snapshot], state: str) -> None:
    modes = []
    for predicate in (*PREDICATES, 'search($d.t, "zebra")'):
        trace = Trace()
        body = f"match {{ $d: D {predicate} }} return {{ $d.k }} order {{ $d.k }}"
        assert ask(states[state], body, BY_INDEX, trace=trace) == ask(states[state], body, EXACTLY), predicate
        modes += [mode for mode, _ in trace.modes.values()]
    assert modes.count("by text index") >= 10


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("condition", ["", "$d.n > 40", "$d.n = 33", "$d.n in [31, 44, 45, 46, 47]"])
def test_nearest_is_the_same(states: dict[str, Snapshot], state: str, condition: str) -> None:
    for vector in ([1, 0, 0, 0, 0, 0, 0, 0], [0.5, -1, 2, 0.25, 1, 1, -3, 0.1], [0] * 8):
        score = f"nearest($d.v, {vector})"
        body = f'match {{ $d: D {condition} }} return {{ $d.k, {score} as s, bm25($d.t, "red") as b }} limit 7'
        trace = Trace()
        rows = ask(states[state], body, BY_INDEX, trace=trace)
        assert rows == ask(states[state], body, EXACTLY)
        is_indexed = "by vector index" in {mode for mode, _ in trace.modes.values()}
        assert is_indexed is (any(vector) and len(rows) == 7)


@pytest.mark.parametrize("condition", ["", "$d.n > 40"])
def test_bm25_of_a_covered_table_is_the_same(states: dict[str, Snapshot], condition: str) -> None:
    queries = (("t", "red"), ("t", "hen red red"), ("t", "café 日本語"), ("t", "nothing"), ("u", "RUN cafe houses"))
    for column, words in queries:
        body = f'match {{ $d: D {condition} }} return {{ $d.k, bm25($d.{column}, "{words}") as s }} limit 9'
        trace = Trace()
        rows = ask(states["covered"], body, BY_INDEX, trace=trace)
        exact = ask(states["covered"], body, EXACTLY)
        assert "by text index" in {mode for mode, _ in trace.modes.values()}
        assert [score for _, score in rows] == pytest.approx([score for _, score in exact], rel=1e-5)


@pytest.mark.parametrize("state", ["more rows", "updated and deleted", "indexed again"])
@pytest.mark.parametrize("score", ['bm25($d.t, "red hen")', 'bm25($d.t, "İZMIR zebra")', 'bm25($d.u, "Runs houses")'])
def test_bm25_of_a_changed_table_is_the_same(states: dict[str, Snapshot], state: str, score: str) -> None:
    """Lance's scores are not: it counts deleted rows. So its best rows are scored again."""
    more = ', bm25($d.t, "fox") as other, bm25($d.t, "--") as none'
    for order in ("limit 9", "limit 4 offset 3", "order { s, $d.n desc } limit 5"):
        body = f"match {{ $d: D }} return {{ $d.k, $d.n, {score} as s{more} }} {order}"
        trace = Trace()
        assert are_equal(ask(states[state], body, BY_INDEX, trace=trace), ask(states[state], body, EXACTLY))
        assert "by text index" in {mode for mode, _ in trace.modes.values()}


def are_equal(rows: list[tuple[Any, ...]], exact: list[tuple[Any, ...]]) -> bool:
    """Whether rows are the same, in order, with scores that differ by 1e-5 at most."""
    return rows == [
        tuple(pytest.approx(cell, rel=1e-5) if isinstance(cell, float) else cell for cell in row) for row in exact
    ]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("bound", [40, 100, 130])
def test_filter_does_not_change_bm25(states: dict[str, Snapshot], state: str, bound: int) -> None:
    """Although Lance's statistics of uncovered rows are those of the rows that pass the filter."""
    trace = Trace()
    body = 'match {{ $d: D {} }} return {{ $d.k, bm25($d.t, "red hen") as s }} limit 150'
    by_filter = dict(ask(states[state], body.format(f"$d.n > {bound}"), BY_INDEX, trace=trace))
    every = dict(ask(states[state], body.format(""), EXACTLY))
    assert by_filter == pytest.approx({key: every[key] for key in by_filter}, rel=1e-5)
    assert by_filter.keys() == {key for key, _ in ask(states[state], body.format(f"$d.n > {bound}"), EXACTLY)}
    assert "by text index" in {mode for mode, _ in trace.modes.values()}


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    """Documents of which 5, 60 and 5,000 have the same vector and the same text, in a random order."""
    numbers = RNG.permutation(6_000)
    words = np.array(["one", "five", "sixty", "many"])
    groups = np.digitize(numbers, [935, 940, 1_000])
    vectors = np.where(groups[:, None] > 0, np.eye(8)[groups], RNG.normal(size=(6_000, 8)) - [0, 2, 2, 2, 0, 0, 0, 0])
    table = pa.table(
        {
            "k": [f"d{number:04d}" for number in numbers],
            "t": [f"{words[group]} text" for group in groups],
            "n": numbers,
            "v": pa.array(list(vectors), pa.list_(pa.float32(), 8)),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SEARCH_EXACT_BYTES", 0)
        patch.setattr(limits, "ENGINE_EAGER_ROWS_MAX", 0)
        graph = og.init(str(tmp_path_factory.mktemp("tied") / "g.omni"), SCHEMA)
        graph.load({"D": table})
        graph.optimize()
        yield graph.snapshot()


@pytest.mark.parametrize("score", ["nearest($d.v, {})", 'bm25($d.t, "{}")'])
@pytest.mark.parametrize(("group", "limit"), [("five", 3), ("five", 5), ("five", 8), ("sixty", 40), ("many", 7)])
def test_equal_scores_are_ordered_by_id(tied: Snapshot, score: str, group: str, limit: int) -> None:
    """Also where the limit separates them; if an index cannot return all of them, the search runs exactly."""
    near = {"five": [0, 1, 0, 0], "sixty": [0, 0, 1, 0], "many": [0, 0, 0, 1]}[group] + [0.1, 0, 0, 0]
    value = score.format(near if "nearest" in score else group)
    body = f"match {{ $d: D }} return {{ $d.k, {value} as s }} limit {limit}"
    trace = Trace()
    rows = ask(tied, body, BY_INDEX, trace=trace)
    exact = ask(tied, body, EXACTLY)
    assert [key for key, _ in rows] == [key for key, _ in exact]
    assert [number for _, number in rows] == pytest.approx([number for _, number in exact], rel=1e-5)
    ((mode, reason),) = (pair for pair in trace.modes.values() if "memory" not in pair[0] and "storage" not in pair[0])
    assert (mode, reason) == ("exactly", "too few candidates") if group == "many" else mode.startswith("by ")


def test_zero_vectors_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the distance 1, although no index returns them."""
    monkeypatch.setattr(limits, "SEARCH_EXACT_BYTES", 0)
    vectors = np.abs(np.random.default_rng(4).normal(size=(300, 8))).round(3)
    vectors[::50] = 0
    graph = og.init(str(tmp_path / "g.omni"), "node D { k: String @key  v: Vector(8) @index }\n")
    for first, last in ((0, 200), (200, 300)):  # covered, and uncovered
        keys = [f"d{number}" for number in range(first, last)]
        part = vectors[first:last]
        graph.load({"D": pa.table({"k": keys, "v": pa.array(list(part), pa.list_(pa.float32(), 8))})}, mode="append")
        if not first:
            graph.optimize()
    for sign, limit, mode in ((-1, 4, "exactly"), (-1, 20, "exactly"), (1, 20, "by vector index")):
        body = f"match {{ $d: D }} return {{ $d.k, nearest($d.v, {[sign] * 8}) as s }} limit {limit}"
        trace = Trace()
        assert ask(graph.snapshot(), body, BY_INDEX, trace=trace) == ask(graph.snapshot(), body, EXACTLY)
        assert mode in {mode for mode, _ in trace.modes.values()}


def test_nearest_reads_all_partitions_after_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index has the partitions of the rows that it was built over."""
    monkeypatch.setattr(limits, "SEARCH_EXACT_BYTES", 0)
    monkeypatch.setattr(indexes, "_ROWS_PER_PARTITION", 100)
    random = np.random.default_rng(6)
    vectors = random.normal(size=(2_000, 8)).round(3)
    graph = og.init(str(tmp_path / "g.omni"), "node D { k: String @key  n: I64  v: Vector(8) @index }\n")
    keys, column = [f"d{number}" for number in range(2_000)], pa.array(list(vectors), pa.list_(pa.float32(), 8))
    graph.load({"D": pa.table({"k": keys, "n": range(2_000), "v": column})})
    graph.optimize()
    graph.mutate("query q() { delete D where n < 1800 }")
    for vector in random.normal(size=(5, 8)).round(3).tolist():
        body = f"match {{ $d: D }} return {{ $d.k, nearest($d.v, {vector}) as s }} limit 10"
        trace = Trace()
        assert ask(graph.snapshot(), body, BY_INDEX, trace=trace) == ask(graph.snapshot(), body, EXACTLY)
        assert "by vector index" in {mode for mode, _ in trace.modes.values()}


def test_bm25_after_deleted_rows_were_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text index still has them, and would return them instead of rows that exist."""
    monkeypatch.setattr(limits, "SEARCH_EXACT_BYTES", 64 * 1024**2)
    monkeypatch.setattr(limits, "ENGINE_EAGER_ROWS_MAX", 0)
    graph = og.init(str(tmp_path / "g.omni"), "node D { k: String @key  t: String? @index  n: I64 }\n")
    texts = ["rare" if number < 200 else f"rare {'word ' * (number % 7)}" for number in range(1_000)]
    texts[990:] = [None, "", "--", "once", "once", *["\u0345"] * 5]  # type: ignore[list-item]
    keys = [f"d{number}" for number in range(1_000)]
    graph.load({"D": pa.table({"k": keys, "t": pa.array(texts, pa.utf8()), "n": range(1_000)})})
    queries = [
        f'match {{ $d: D }} return {{ $d.k, bm25($d.t, "{words}") as s }} limit {limit}'
        for words, limit in (("rare", 10), ("once", 10), ("rare once", 900))
    ]
    graph.optimize()
    graph.mutate("query q() { delete D where n < 200 }")
    graph.optimize()
    snapshot = graph.snapshot()
    assert not open_table(snapshot.root, snapshot.tables["node:D"]).has_deleted_rows()
    for body in queries:
        exact = ask(snapshot, body, EXACTLY)
        trace = Trace()
        assert ask(snapshot, body, trace=trace) == exact
        assert ("exactly", "below 64 MiB") in trace.modes.values()
        assert are_equal(ask(snapshot, body, BY_INDEX), exact)


@pytest.mark.parametrize("uri", ["", "memory://{}/g.omni"], ids=["disk", "memory"])
def test_bm25_of_words_whose_rows_were_deleted(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step changes the number of texts with one word, in fragments that are compacted and in others."""
    monkeypatch.setattr(limits, "SEARCH_EXACT_BYTES", 0)
    monkeypatch.setattr(limits, "ENGINE_EAGER_ROWS_MAX", 0)
    monkeypatch.setattr(limits, "COMPACTION_ROWS", 300)
    rng = np.random.default_rng(5)
    main = og.init(
        uri.format(tmp_path.name) or str(tmp_path / "g.omni"), "node D { k: String @key  t: String? @index  n: I64 }\n"
    )

    def load(first: int, mode: str) -> None:
        numbers = range(first, first + 300)
        texts = [" ".join(rng.choice(WORDS, 1 + number % 7)) or None for number in numbers]
        keys = [f"d{number}" for number in numbers]
        main.load({"D": pa.table({"k": keys, "t": pa.array(texts, pa.utf8()), "n": numbers})}, mode=mode)

    def check(graph: og.Graph) -> None:
        snapshot = graph.snapshot()
        for words in ("red", "hen red", "日本語 CAFÉ", "w2 nothing fox"):
            for condition in ("", "$d.n > 450"):
                body = f'match {{ $d: D {condition} }} return {{ $d.k, bm25($d.t, "{words}") as s }} limit 10'
                trace = Trace()
                by_index, exact = ask(snapshot, body, BY_INDEX, trace=trace), ask(snapshot, body, EXACTLY)
                scores, exact_scores = ([score for _, score in rows] for rows in (by_index, exact))
                assert scores == pytest.approx(exact_scores, rel=1e-5), (words, condition)
                assert "by text index" in {mode for mode, _ in trace.modes.values()}

    for first in (0, 300, 600):
        load(first, "append")
    main.optimize()
    dev = main.create_branch("dev")
    for graph in (main, dev):
        check(graph)
        graph.mutate('query q() { match { $d: D  search($d.t, "red")  $d.n < 300 } delete $d }')
        check(graph)
        graph.mutate(
            'query q() { match { $d: D  search($d.t, "w2")  $d.n > 500 } update $d set { t: "zebra hen fox red" } }'
        )
        check(graph)
    load(100, "merge")
    load(900, "append")
    check(main)
    main.merge("dev", strategy="ours")
    for graph in (main, dev):
        check(graph)
        graph.optimize()
        check(graph)
        graph.mutate('query q() { match { $d: D  search($d.t, "hen")  $d.n < 400 } delete $d }')
        graph.optimize()
        check(graph)


def test_optimize_rebuilds_indexes_with_many_deleted_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted rows count in the statistics of a text index, and are among the candidates of a vector index."""
    monkeypatch.setattr(limits, "SEARCH_EXACT_BYTES", 0)
    rng, count, first = np.random.default_rng(3), 20_000, 18_000
    vectors = rng.normal(size=(count, 128)).astype(np.float32)
    texts = [" ".join(rng.choice(WORDS[:5] if number < first else WORDS, 1 + number % 7)) for number in range(count)]
    graph = og.init(
        str(tmp_path / "g.omni"), "node D { k: String @key  n: I64  t: String @index  v: Vector(128) @index }\n"
    )
    column = pa.array(list(vectors), pa.list_(pa.float32(), 128))
    graph.load({"D": pa.table({"k": [f"d{n}" for n in range(count)], "n": range(count), "t": texts, "v": column})})
    graph.optimize()
    graph.mutate(f"query q() {{ delete D where n < {first} }}")
    graph.optimize()
    snapshot = graph.snapshot()
    searches = [f"nearest($d.v, {vector})" for vector in rng.normal(size=(20, 128)).round(3).tolist()]
    recalls = []
    for score in (*searches, 'bm25($d.t, "red")', 'bm25($d.t, "fox café hen")', 'bm25($d.t, "日本語 w2")'):
        body = f"match {{ $d: D }} return {{ $d.k, {score} as s }} limit 10"
        trace = Trace()
        by_index, exact = dict(ask(snapshot, body, BY_INDEX, trace=trace)), dict(ask(snapshot, body, EXACTLY))
        assert [mode for mode, _ in trace.modes.values() if mode.startswith("by ")]
        ratios = np.array(list(by_index.values())) / np.array(list(exact.values()))
        if "bm25" in score:
            assert ratios == pytest.approx(1, rel=1e-5)
        else:  # Lance chooses the centroids and the rotation at random
            assert ratios.max() <= 1.01
            recalls.append(len(by_index.keys() & exact.keys()) / 10)
    assert np.mean(recalls) >= 0.98
    dataset = open_table(snapshot.root, snapshot.tables["node:D"])
    present = indexes.count_entries(dataset, indexes.read_indexes(dataset))
    assert {index.name: index.entries for index in present if index.entries} == {
        "t_inverted": count - first, "v_vector": count - first
    }  # fmt: skip
    version = graph.snapshot().tables["node:D"].pin.version
    graph.optimize()
    assert graph.snapshot().tables["node:D"].pin.version == version


def test_vectors_of_other_lengths_are_searched_exactly(states: dict[str, Snapshot]) -> None:
    trace = Trace()
    body = "match { $d: D } return { $d.k, nearest($d.w, [0, 0, 0, 0, 0, 1]) as s } limit 1"
    assert [key for key, _ in ask(states["covered"], body, BY_INDEX, trace=trace)] == ["d119"]
    assert ("exactly", "length is not a multiple of 8") in trace.modes.values()


STEMMED = ex.ColumnRef("d", "u", STRING, nullable=True, text=TextOptions(stem="english"))
WORDS_SCORE = ex.Bm25(STEMMED, ex.Literal("runs cafe", STRING))
NEAR_TEXT = "nearest($d.v, [1, 0, 2, 0, 1, 0, 0, 1]{})"
NEAR = ex.Nearest(
    ex.ColumnRef("d", "v", VectorType(8), nullable=True), ex.Literal((1.0, 0, 2, 0, 1, 0, 0, 1), VectorType(8))
)
SCORES: dict[str, tuple[ex.Score, str]] = {
    NEAR_TEXT: (NEAR, "requested"),
    'bm25($d.u, "runs cafe"{})': (WORDS_SCORE, "requested"),
    f'rrf({NEAR_TEXT.format("")}, bm25($d.u, "runs cafe"), k=9{{}})': (ex.Rrf(NEAR, WORDS_SCORE, 9), "fused ranks"),
}


@pytest.mark.parametrize("text", SCORES)
@pytest.mark.parametrize("state", STATES)
def test_exact_scores_equal_brute_force(states: dict[str, Snapshot], state: str, text: str) -> None:
    """With the argument `exact=true`, and with the option for a whole query, although the columns have indexes."""
    score, reason = SCORES[text]
    table = ask(states[state], "match { $d: D } return { $d.k, $d.u, $d.v, $d.n }")
    rows = [{"d.id": key, "d.u": words, "d.v": vector, "d.n": number} for key, words, vector, number in table]
    values = scored(score, rows, row_value, lambda _: [row["d.u"] for row in rows])
    matching = [
        (value if score is NEAR else -value, row["d.id"])
        for value, row in zip(values, rows, strict=True)
        if value is not None
    ]
    for argument, limits_of_query in ((", exact=true", og.QueryLimits()), ("", og.QueryLimits(exact=True))):
        body = f"match {{ $d: D }} return {{ $d.k, {text.format(argument)} as s }} limit 90"
        trace = Trace()
        result = ask(states[state], body, limits_of_query.engine_options(), trace=trace)
        assert ("exactly", reason) in trace.modes.values()
        assert [key for key, _ in result] == [key for _, key in sorted(matching)[:90]]
        expected = [abs(value) for value, _ in sorted(matching)[:90]]
        assert [value for _, value in result] == pytest.approx(expected, rel=1e-9)


def row_value(expr: ex.Expr, row: dict[str, Any]) -> Any:
    return row[expr.name] if isinstance(expr, ex.ColumnRef) else getattr(expr, "value")  # noqa: B009


def optimize_until(point: str, uri: str) -> None:
    """Optimize a graph in a process that is killed at a failpoint."""
    setattr(limits, "SEARCH_EXACT_BYTES", 0)  # noqa: B010
    failpoints._actions = failpoints._parse(f"{point}=kill")
    og.open(uri).optimize()


def test_results_are_the_same_after_a_killed_optimize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a branch, of an earlier commit and of main, also after `optimize` on main replaced the segments they use."""
    monkeypatch.setattr(limits, "SEARCH_EXACT_BYTES", 0)
    monkeypatch.setattr(limits, "ENGINE_EAGER_ROWS_MAX", 0)
    graph = og.init(str(tmp_path / "g.omni"), SCHEMA)
    load(graph, tmp_path, range(60))
    graph.optimize()
    graph.create_branch("dev")
    branch = graph.checkout("dev")
    load(branch, tmp_path, range(60, 80))
    earlier = graph.snapshot()
    graph.mutate('query q() { update D set { t: "zebra" } where n < 40 }')
    graph.mutate("query q() { update D set { v: [1, 0, 2, 0, 1, 0, 0, 0] } where n = 7 }")
    body = "match {{ $d: D {} }} return {{ $d.k{} }} {}"
    bodies = (
        body.format('search($d.t, "red zebra")', "", "order { $d.k }"),
        body.format("", ", nearest($d.v, [1, 0, 2, 0, 1, 0, 0, 1]) as s", "limit 8"),
    )
    states: dict[str, Callable[[], Snapshot]] = {
        "main": graph.snapshot,
        "earlier": lambda: earlier,
        "branch": branch.snapshot,
    }
    expected = {name: [ask(state(), text, EXACTLY) for text in bodies] for name, state in states.items()}
    for point in ("index.commit.before@2", "publish.before"):
        process = PROCESSES.Process(target=optimize_until, args=(point, graph.uri))
        process.start()
        process.join(SECONDS_MAX)
        assert process.exitcode == -signal.SIGKILL, f"{point} was not reached"
        for name, state in states.items():
            assert [ask(state(), text, BY_INDEX) for text in bodies] == expected[name], (point, name)
    graph.optimize()
    for name, state in states.items():
        assert [ask(state(), text, BY_INDEX) for text in bodies] == expected[name], name


def test_an_index_of_an_earlier_release_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are folded and cut, and its vectors are not compressed; the next `optimize` replaces it."""
    monkeypatch.setattr(limits, "SEARCH_EXACT_BYTES", 0)
    monkeypatch.setattr(limits, "ENGINE_EAGER_ROWS_MAX", 0)
    graph = og.init(str(tmp_path / "g.omni"), SCHEMA)
    load(graph, tmp_path, range(60))
    table = graph.snapshot().tables["node:D"]
    native: Any = lance.dataset(graph.location.child(table.path).lance_uri)
    native.create_scalar_index("t", "INVERTED", name="t_inverted", stem=False, ascii_folding=True, max_token_length=40)
    native.create_index("v", "IVF_FLAT", name="v_vector", num_partitions=1, metric="cosine")
    graph.repair(unverified="publish", dry_run=False)
    bodies = (
        'match { $d: D search($d.t, "cafe CAFÉ") } return { $d.k } order { $d.k }',
        "match { $d: D } return { $d.k, nearest($d.v, [1, 0, 2, 0, 1, 0, 0, 1]) as s } limit 8",
    )
    for reason in ("parameters differ", ""):
        used = {row.column: (row.is_built, row.reason) for row in graph.index_status() if row.table_key == "node:D"}
        assert (used["t"], used["v"], used["w"]) == ((True, reason), (True, reason), (False, NOT_POSSIBLE))
        for text in bodies:
            trace = Trace()
            assert ask(graph.snapshot(), text, BY_INDEX, trace=trace) == ask(graph.snapshot(), text, EXACTLY)
            is_indexed = any(mode.endswith("index") for mode, _ in trace.modes.values())
            assert is_indexed is not bool(reason)
        graph.optimize()


def test_explain_shows_the_path_and_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.init(str(tmp_path / "g.omni"), SCHEMA)
    load(graph, tmp_path, range(60))
    monkeypatch.setattr(limits, "SEARCH_EXACT_BYTES", 64 * 1024**2)
    near = "query q($v: Vector(8)) { match { $d: D } return { $d.k, nearest($d.v, $v) as s } limit 10 }"
    assert "exactly (below 64 MiB)" in graph.explain(near).text
    monkeypatch.setattr(limits, "SEARCH_EXACT_BYTES", 0)
    monkeypatch.setattr(limits, "ENGINE_EAGER_ROWS_MAX", 0)
    assert "exactly (no index)" in graph.explain(near).text
    graph.optimize()
    load(graph, tmp_path, range(60, 65))
    uncovered = "1 segment, 5 rows uncovered"
    assert f"by vector index (IVF_RQ on v, {uncovered}, 200 candidates)" in graph.explain(near).text
    assert "exactly (requested)" in graph.explain(near.replace("$d.v, $v)", "$d.v, $v, exact=true)")).text
    explained_text = graph.explain("query q($t: String) { match { $d: D search($d.t, $t) } return { $d.k } }").text
    assert f"by text index (Inverted on t, {uncovered})" in explained_text
    fuzzy = graph.explain('query q() { match { $d: D fuzzy($d.t, "rad") } return { $d.k } }').text
    assert "exactly (rows uncovered)" in fuzzy
    vector = [1.0, 0, 0, 0, 0, 0, 0, 0]
    explained = graph.explain(near, {"v": vector}, analyze=True)
    assert f"by vector index (IVF_RQ on v, {uncovered}, 200 candidates)" in explained.text
    assert graph.query(near, {"v": vector}).to_pylist() == graph.query(near, {"v": vector}, exact=True).to_pylist()
