"""Searches through indexes equal exact ones after any history of writes, `optimize`, branches and merges."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.base import limits
from omnigraph.engine.context import Trace
from omnigraph.engine.options import EngineOptions
from omnigraph.query.rules.search_choice import SearchPath
from tests.engine.graphs import ask

SCHEMA: Final = "node D { k: String @key  t: String? @index  n: I64  v: Vector(8)? @index }\n"
BY_INDEX: Final = EngineOptions(search=SearchPath.INDEX)
EXACTLY: Final = EngineOptions(search=SearchPath.EXACT)
WORDS: Final = ("red", "Red", "fox", "redd", "İzmir", "café", "CAFÉ", "हिन्दी", "日本語", "ΟΔΟΣ", "w2", "--")
ROWS_MAX: Final = 40

texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
vectors = st.lists(st.integers(-3, 3), min_size=8, max_size=8).filter(any)
values = st.fixed_dictionaries({"t": st.none() | texts, "v": st.none() | vectors})
steps = st.one_of(
    st.tuples(st.just("load"), st.dictionaries(st.integers(0, ROWS_MAX - 1), values, min_size=1, max_size=12)),
    st.tuples(st.just("update"), st.integers(0, ROWS_MAX), texts),
    st.tuples(st.just("delete"), st.integers(0, ROWS_MAX)),
    st.sampled_from([("optimize",), ("optimize",), ("branch",), ("merge",)]),
)
histories = st.lists(steps, min_size=4, max_size=8)
queries = st.tuples(texts.filter(lambda text: "--" not in text), vectors, st.integers(0, ROWS_MAX))
too_slow: Final = [HealthCheck.too_slow, HealthCheck.data_too_large]


@given(history=histories, query=queries)
@settings(max_examples=3, derandomize=True, database=None, phases=[Phase.generate], suppress_health_check=too_slow)
def test_searches_agree_after_a_history(history: list[Any], query: tuple[str, list[int], int]) -> None:
    check_history(history, query)


@pytest.mark.soak
@given(history=histories, query=queries)
@settings(max_examples=60, phases=[Phase.generate], suppress_health_check=too_slow)
def test_searches_agree_after_many_histories(history: list[Any], query: tuple[str, list[int], int]) -> None:
    check_history(history, query)


def check_history(history: list[Any], query: tuple[str, list[int], int]) -> None:
    """Apply a history, starting with a load and `optimize`; compare all searches on all branches after each step."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SEARCH_EXACT_BYTES", 0)
        patch.setattr(limits, "ENGINE_EAGER_ROWS_MAX", 0)
        main = graph = og.init(str(Path(folder) / "g.omni"), SCHEMA)
        rows = {number: {"t": WORDS[number % len(WORDS)], "v": [number + 1] * 8} for number in range(5)}
        for step in (("load", rows), ("optimize",), *history):
            graph = apply(main, graph, step)
            for branch in (main, graph):
                check_searches(branch, query)


def apply(main: og.Graph, graph: og.Graph, step: tuple[Any, ...]) -> og.Graph:
    """Run a step on the current branch; return the branch of the next step. A branch is merged before the next one."""
    match step:
        case ("load", rows):
            kinds = {"t": pa.utf8(), "v": pa.list_(pa.float32(), 8)}
            columns = {name: pa.array([row[name] for row in rows.values()], kind) for name, kind in kinds.items()}
            keys = [f"d{number:02}" for number in rows]
            graph.load({"D": pa.table({"k": keys, "n": pa.array(list(rows)), **columns})}, mode="merge")
        case ("update", bound, text):
            graph.mutate(
                f'query q() {{ update D set {{ t: "{text}", v: [1, 0, 2, 0, 0, 1, 0, 0] }} where n < {bound} }}'
            )
        case ("delete", bound):
            graph.mutate(f"query q() {{ delete D where n >= {bound} }}")
        case ("optimize",):
            main.optimize()
            graph.optimize()
        case ("branch",) if graph is main:
            return main.create_branch(f"b{main.snapshot().version}")
        case ("merge",) if graph is not main:
            main.merge(graph.branch)
            return main
    return graph


def check_searches(graph: og.Graph, query: tuple[str, list[int], int]) -> None:
    text, vector, bound = query
    snapshot = graph.snapshot()
    for condition in (f'search($d.t, "{text}")', f'match_text($d.t, "{text}")', f'fuzzy($d.t, "{text}", 1)'):
        for more in ("", f"$d.n < {bound}"):
            body = f"match {{ $d: D {condition} {more} }} return {{ $d.k }} order {{ $d.k }}"
            trace = Trace()
            assert ask(snapshot, body, BY_INDEX, trace=trace) == ask(snapshot, body, EXACTLY), body
            for mode, _ in trace.modes.values():
                event(f"predicate {mode}")
    body = f"match {{ $d: D }} return {{ $d.k, nearest($d.v, {vector}) as s }} limit 3"
    assert ask(snapshot, body, BY_INDEX) == ask(snapshot, body, EXACTLY)
    every = dict(ask(snapshot, f'match {{ $d: D }} return {{ $d.k, bm25($d.t, "{text}") as s }} limit 99', EXACTLY))
    for condition, limit in (("", ROWS_MAX), ("", 3), (f"$d.n < {bound}", 5)):
        body = f'match {{ $d: D {condition} }} return {{ $d.k, bm25($d.t, "{text}") as s }} limit {limit}'
        by_index, exact = (ask(snapshot, body, options) for options in (BY_INDEX, EXACTLY))
        assert [score for _, score in by_index] == pytest.approx([score for _, score in exact], rel=1e-5)
        assert dict(by_index) == pytest.approx({key: every[key] for key, _ in by_index}, rel=1e-5)
