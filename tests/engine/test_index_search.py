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
import pytest

import omnigraph as og
from omnigraph.base import failpoints, limits
from omnigraph.engine.context import Trace
from omnigraph.engine.options import EngineOptions
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.query.rules.search_choice import SearchPath
from tests.engine.graphs import ask
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
def test_bm25_of_a_changed_table_differs_little(states: dict[str, Snapshot], state: str) -> None:
    body = 'match { $d: D } return { bm25($d.t, "red hen") as s } limit 9'
    rows, exact = (ask(states[state], body, options) for options in (BY_INDEX, EXACTLY))
    assert sum(score for (score,) in rows) == pytest.approx(sum(score for (score,) in exact), rel=0.05)


def test_vectors_of_other_lengths_are_searched_exactly(states: dict[str, Snapshot]) -> None:
    trace = Trace()
    body = "match { $d: D } return { $d.k, nearest($d.w, [0, 0, 0, 0, 0, 1]) as s } limit 1"
    assert [key for key, _ in ask(states["covered"], body, BY_INDEX, trace=trace)] == ["d119"]
    assert ("exactly", "length is not a multiple of 8") in trace.modes.values()


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
        assert (used["t"], used["v"]) == ((True, reason), (True, reason))
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
    assert f"by vector index (IVF_RQ on v, {uncovered}, 100 candidates)" in graph.explain(near).text
    assert "exactly (requested)" in graph.explain(near.replace("$d.v, $v)", "$d.v, $v, exact=true)")).text
    explained_text = graph.explain("query q($t: String) { match { $d: D search($d.t, $t) } return { $d.k } }").text
    assert f"by text index (Inverted on t, {uncovered})" in explained_text
    fuzzy = graph.explain('query q() { match { $d: D fuzzy($d.t, "rad") } return { $d.k } }').text
    assert "exactly (rows uncovered)" in fuzzy
    vector = [1.0, 0, 0, 0, 0, 0, 0, 0]
    explained = graph.explain(near, {"v": vector}, analyze=True)
    assert f"by vector index (IVF_RQ on v, {uncovered}, 100 candidates)" in explained.text
    assert graph.query(near, {"v": vector}).to_pylist() == graph.query(near, {"v": vector}, exact=True).to_pylist()
