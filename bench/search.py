"""Compares searches through indexes with Lance's own, with the same parameters, and with our exact path.

In: optimized documents with vectors of 300 clusters and texts of Zipf-distributed words. Out: the ratios of warm
searches in CPU time of all threads, because other processes slow both sides unevenly, and the memory of an exact search
over a table that is larger than its limit. Speed alone proves nothing, so each detail compares the results too: the
recall and the worst ratio of a distance or score to the exact one at the same rank.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any, Final

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.query import MatchQuery, PhraseQuery

from bench.harness import Ratio, compare, is_quick, median_seconds, sized
from omnigraph.api.graph import Graph, init
from omnigraph.base import limits
from omnigraph.engine.cache import SHARED_CACHE
from omnigraph.query.rules.search_choice import candidate_count, probe_count

ROWS: Final = sized(200_000, 20_000)
DIMENSIONS: Final = sized(768, 128)
CLUSTERS: Final = 300
ROUNDS: Final = sized(20, 5)
QUERIES: Final = 20
K: Final = 10
SCHEMA: Final = f"node Doc {{ k: String @key  n: I64 @index  t: String @index  v: Vector({DIMENSIONS}) @index }}\n"
WORDS: Final = "word1 word700"
MEMORY_ROWS: Final = sized(2_000_000, 100_000)
MEMORY_DIMENSIONS: Final = 128
MEMORY_MIB: Final = 256
_LOADED_ROWS: Final = 250_000
# The search of a small table first, so that imports and threads do not count.
_GROWTH: Final = f"""
import sys, omnigraph
graph = omnigraph.open(sys.argv[1], read_only=True)
limits = omnigraph.QueryLimits(memory_bytes={MEMORY_MIB << 20})
for kind in ("Few", "Many"):
    score = "nearest($d.v, {[1.0] * MEMORY_DIMENSIONS})"
    text = f"query q() {{{{ match {{{{ $d: {{kind}} }}}} return {{{{ $d.k, {{score}} as s }}}} limit {K} }}}}"
    assert len(graph.query(text, exact=True, limits=limits).to_pylist()) == {K}
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""
Vectors = npt.NDArray[np.float32]
Search = Callable[[Vectors], pa.Table]


def run(folder: Path) -> list[Ratio]:
    """Return the ratios of all searches, and the memory of an exact one."""
    if is_quick():
        # Small tables are searched in memory otherwise.
        setattr(limits, "SEARCH_EXACT_BYTES", 0)  # noqa: B010
        setattr(limits, "SEARCH_FILTERED_BYTES", 0)  # noqa: B010
        setattr(limits, "ENGINE_EAGER_ROWS_MAX", 0)  # noqa: B010
    graph, vectors, queries = _make_graph(folder)
    return [*_vector_ratios(graph, vectors, queries), *_text_ratios(graph, queries), _memory_of_exact(folder)]


def _vector_ratios(graph: Graph, vectors: Vectors, queries: Vectors) -> Iterator[Ratio]:
    dataset = _open(graph)
    for name, bound, limit in (
        ("nearest", 1000, 1.5),
        ("nearest, filter 10 %", 100, 2.0),
        ("nearest, filter 1 %", 10, 2.0),
    ):
        ours = _nearest(graph, "" if bound == 1000 else f"$d.n < {bound}")
        quality = _quality(ours, vectors[np.arange(ROWS) % 1000 < bound], queries)
        yield _compare(name, (ours, "lance", _lance_nearest(dataset, bound)), queries, limit, quality)
        if bound == 1000:
            exact = _nearest(graph, "", ", exact=true")
            yield _compare("nearest / exact path", (ours, "exact path", exact), queries, 0.2, quality)


def _text_ratios(graph: Graph, queries: Vectors) -> Iterator[Ratio]:
    dataset = _open(graph)

    def lance_search(query: MatchQuery | PhraseQuery, limit: int | None = None) -> Search:
        return lambda _: dataset.to_table(columns=["k", "_score"], full_text_query=query, limit=limit)

    ours, exact = (_text_search(graph, "", f', bm25($d.t, "{WORDS}"{more}) as s') for more in ("", ", exact=true"))
    scores, exact_scores = (np.array(side(queries).column("s").to_pylist()) for side in (ours, exact))
    quality = (
        f"; sum of scores {scores.sum() / exact_scores.sum():.4f}, worst score {(scores / exact_scores).min():.4f}"
    )
    yield _compare("bm25", (ours, "lance", lance_search(MatchQuery(WORDS, "t"), K)), queries, 1.5, quality)
    for name, condition, query in (
        ("search", 'search($d.t, "word700")', MatchQuery("word700", "t")),
        ("match_text", 'match_text($d.t, "word3 word5")', PhraseQuery("word3 word5", "t")),
        ("fuzzy", 'fuzzy($d.t, "wird700", 1)', MatchQuery("wird700", "t", fuzziness=1, max_expansions=1_000_000)),
    ):
        ours = _text_search(graph, condition)
        text = f"query q() {{ match {{ $d: Doc {condition} }} return {{ $d.k }} }}"
        keys, exact_keys = (
            {*rows.column(0).to_pylist()} for rows in (ours(queries), graph.query(text, exact=True).to_arrow())
        )
        quality = f"; {len(keys & exact_keys):,} of {len(exact_keys):,} rows, {len(keys - exact_keys):,} others"
        yield _compare(name, (ours, "lance", lance_search(query)), queries, 1.5, quality)


def _text_search(graph: Graph, condition: str, score: str = "") -> Search:
    limit = f"limit {K}" if score else ""
    prepared = graph.prepare(f"query q() {{ match {{ $d: Doc {condition} }} return {{ $d.k{score} }} {limit} }}")
    snapshot = graph.snapshot()
    return lambda _: prepared.run(as_of=snapshot).to_arrow()


def _compare(name: str, sides: tuple[Search, str, Search], queries: Vectors, limit: float, quality: str) -> Ratio:
    ours, other, theirs = sides
    SHARED_CACHE.forget_all()  # words that an exact search cached are searched instead of an index
    turn = {"omnigraph": 0, other: 0}

    def next_query(side: str) -> Vectors:
        turn[side] += 1
        vector: Vectors = queries[turn[side] % len(queries)]
        return vector

    actions: dict[str, Callable[[], object]] = {
        "omnigraph": lambda: ours(next_query("omnigraph")),
        other: lambda: theirs(next_query(other)),
    }
    ratio = compare(name, median_seconds(actions, ROUNDS, process_time), ("omnigraph", other), limit)
    return Ratio(ratio.name, ratio.ratio, ratio.limit, ratio.detail + quality, ratio.sides)


def _quality(search: Search, matching: Vectors, queries: Vectors) -> str:
    """Return the recall and the worst ratio of a distance to the exact one at the same rank."""
    recalls, worst = [], 1.0
    candidates = matching.astype(np.float64)
    lengths = np.linalg.norm(candidates, axis=1)
    for query in queries:
        exact = np.sort(1 - candidates @ query.astype(np.float64) / (lengths * np.linalg.norm(query)))[:K]
        distances = np.array(search(query).column("s").to_pylist())
        recalls.append(float((distances <= exact[-1] * (1 + 1e-6)).mean()))
        worst = max(worst, float((distances / np.maximum(exact, 1e-12)).max()))
    return f"; recall {np.mean(recalls):.3f}, worst distance {worst:.4f}"


def _nearest(graph: Graph, condition: str, options: str = "") -> Search:
    body = f"match {{ $d: Doc {condition} }} return {{ $d.k, nearest($d.v, $q{options}) as s }} limit {K}"
    prepared = graph.prepare(f"query q($q: Vector({DIMENSIONS})) {{ {body} }}")
    snapshot = graph.snapshot()
    return lambda vector: prepared.run({"q": vector.tolist()}, as_of=snapshot).to_arrow()


def _lance_nearest(dataset: lance.LanceDataset, bound: int) -> Search:
    probes = probe_count(ROWS, ROWS * bound // 1000)
    options = {"column": "v", "k": K, "metric": "cosine", "refine_factor": candidate_count(K) // K, "nprobes": probes}
    where = None if bound == 1000 else f"n < {bound}"
    return lambda vector: dataset.to_table(
        columns=["k", "_distance"], nearest={**options, "q": vector}, filter=where, prefilter=True
    )


def _memory_of_exact(folder: Path) -> Ratio:
    growth = exact_search_growth(folder, MEMORY_ROWS)
    name = f"memory of exact nearest, {MEMORY_ROWS:,} x {MEMORY_DIMENSIONS}, of {MEMORY_MIB} MB"
    ratio = growth / (MEMORY_MIB * 1024**2)
    return Ratio(name, ratio, 1.0, f"{growth / 1024**2:.0f} MB", {"query": growth / 1024**2}, unit="MB")


def exact_search_growth(folder: Path, rows: int) -> int:
    """Return by how many bytes an exact `nearest` over a table raises the peak memory of a process."""
    columns = f"{{ k: I64 @key  v: Vector({MEMORY_DIMENSIONS}) }}"
    graph = init(str(folder / "memory.omni"), f"node Few {columns}\nnode Many {columns}\n")
    random = np.random.default_rng(2)
    for kind, count in (("Few", 100), ("Many", rows)):
        for start in range(0, count, _LOADED_ROWS):
            keys = np.arange(start, min(start + _LOADED_ROWS, count))
            vectors = random.random((len(keys), MEMORY_DIMENSIONS), np.float32)
            graph.load({kind: pa.table({"k": keys, "v": _vector_column(vectors)})})
    done = subprocess.run([sys.executable, "-c", _GROWTH, graph.uri], check=True, stdout=subprocess.PIPE)
    before, after = (int(kilobytes) * 1024 for kilobytes in done.stdout.split())
    return after - before


def _make_graph(folder: Path) -> tuple[Graph, Vectors, Vectors]:
    random = np.random.default_rng(1)
    centers = random.normal(size=(CLUSTERS, DIMENSIONS))
    spread = random.normal(size=(ROWS, DIMENSIONS)) * 0.5
    vectors: Vectors = (centers[random.integers(0, CLUSTERS, ROWS)] + spread).astype(np.float32)
    queries: Vectors = (vectors[random.integers(0, ROWS, QUERIES)] + random.normal(size=DIMENSIONS) * 0.1).astype(
        np.float32
    )
    numbers = (random.zipf(1.3, ROWS * 8) % 5_000).reshape(ROWS, 8)
    texts = [" ".join(f"word{number}" for number in row) for row in numbers.tolist()]
    keys = [f"k{number}" for number in range(ROWS)]
    graph = init(str(folder / "search.omni"), SCHEMA)
    graph.load({"Doc": pa.table({"k": keys, "n": np.arange(ROWS) % 1000, "t": texts, "v": _vector_column(vectors)})})
    graph.optimize()
    return graph, vectors, queries


def _vector_column(vectors: npt.NDArray[Any]) -> Any:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float32).reshape(-1)), vectors.shape[1])


def _open(graph: Graph) -> lance.LanceDataset:
    snapshot = graph.snapshot()
    table = snapshot.tables["node:Doc"]
    return lance.dataset(snapshot.root.child(table.path).lance_uri, version=table.pin.version)
