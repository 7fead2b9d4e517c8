"""Compares searches through indexes with Lance's own, with the same parameters, and with our exact path.

In: optimized documents with vectors of 300 clusters and texts of Zipf-distributed words. Out: the ratios of warm
searches in CPU time of all threads, because other processes slow both sides unevenly. The detail of a `nearest` has its
recall and the worst distance ratio at a rank: speed alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any, Final

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.query import MatchQuery

from bench.harness import Ratio, compare, is_quick, median_seconds, sized
from omnigraph.api.graph import Graph, init
from omnigraph.base import limits

ROWS: Final = sized(200_000, 20_000)
DIMENSIONS: Final = sized(768, 128)
CLUSTERS: Final = 300
ROUNDS: Final = sized(20, 5)
QUERIES: Final = 20
K: Final = 10
SCHEMA: Final = f"node Doc {{ k: String @key  n: I64 @index  t: String @index  v: Vector({DIMENSIONS}) @index }}\n"
WORDS: Final = "word1 word700"
Vectors = npt.NDArray[np.float32]
Search = Callable[[Vectors], pa.Table]


def run(folder: Path) -> list[Ratio]:
    """Return the ratios of all searches."""
    if is_quick():
        # Small tables are searched in memory otherwise.
        setattr(limits, "SEARCH_EXACT_BYTES", 0)  # noqa: B010
        setattr(limits, "SEARCH_FILTERED_BYTES", 0)  # noqa: B010
        setattr(limits, "ENGINE_EAGER_ROWS_MAX", 0)  # noqa: B010
    graph, vectors, queries = _make_graph(folder)
    dataset = _open(graph)
    ratios = []
    for name, condition, where, limit in (
        ("nearest", "", None, 1.5),
        ("nearest, filter 10 %", "$d.n < 100", "n < 100", 2.0),
        ("nearest, filter 1 %", "$d.n < 10", "n < 10", 2.0),
    ):
        ours = _nearest(graph, condition)
        theirs = _lance_nearest(dataset, where)
        matching = np.arange(ROWS) % 1000 < {None: 1000, "n < 100": 100, "n < 10": 10}[where]
        quality = _quality(ours, vectors, queries, matching)
        ratios.append(_compare(name, (ours, "lance", theirs), queries, limit, quality))
    ours, exact = _nearest(graph, ""), _nearest(graph, "", ", exact=true")
    ratios.append(_compare("nearest / exact path", (ours, "exact path", exact), queries, 0.2, ""))
    text = graph.prepare(f'query q() {{ match {{ $d: Doc }} return {{ $d.k, bm25($d.t, "{WORDS}") as s }} limit {K} }}')
    predicate = graph.prepare('query q() { match { $d: Doc search($d.t, "word700") } return { $d.k } }')
    snapshot = graph.snapshot()
    query = MatchQuery(WORDS, "t")
    ratios.append(
        _compare(
            "bm25",
            (
                lambda _: text.run(as_of=snapshot).to_arrow(),
                "lance",
                lambda _: dataset.to_table(columns=["k", "_score"], full_text_query=query, limit=K),
            ),
            queries,
            1.5,
            "",
        )
    )
    ratios.append(
        _compare(
            "search",
            (
                lambda _: predicate.run(as_of=snapshot).to_arrow(),
                "lance",
                lambda _: dataset.to_table(columns=["k", "_score"], full_text_query=MatchQuery("word700", "t")),
            ),
            queries,
            1.5,
            "",
        )
    )
    return ratios


def _compare(name: str, sides: tuple[Search, str, Search], queries: Vectors, limit: float, quality: str) -> Ratio:
    ours, other, theirs = sides
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


def _quality(search: Search, vectors: Vectors, queries: Vectors, matching: npt.NDArray[np.bool_]) -> str:
    """Return the recall and the worst ratio of a distance to the exact one at the same rank."""
    recalls, worst = [], 1.0
    candidates = vectors[matching].astype(np.float64)
    lengths = np.linalg.norm(candidates, axis=1)
    for query in queries:
        exact = np.sort(1 - candidates @ query.astype(np.float64) / (lengths * np.linalg.norm(query)))[:K]
        distances = np.array(search(query).column("s").to_pylist())
        recalls.append(float((distances <= exact[-1] * (1 + 1e-6)).mean()))
        worst = max(worst, float((distances / np.maximum(exact, 1e-12)).max()))
    return f"; recall {np.mean(recalls):.3f}, worst distance ratio {worst:.4f}"


def _nearest(graph: Graph, condition: str, options: str = "") -> Search:
    body = f"match {{ $d: Doc {condition} }} return {{ $d.k, nearest($d.v, $q{options}) as s }} limit {K}"
    prepared = graph.prepare(f"query q($q: Vector({DIMENSIONS})) {{ {body} }}")
    snapshot = graph.snapshot()
    return lambda vector: prepared.run({"q": vector.tolist()}, as_of=snapshot).to_arrow()


def _lance_nearest(dataset: lance.LanceDataset, where: str | None) -> Search:
    share = 1.0 if where is None else int(where.split()[-1]) / 1000
    partitions = max(1, ROWS // 8_192)
    options = {"column": "v", "k": K, "metric": "cosine", "refine_factor": 10}
    probes = min(partitions, -int(-16 // share))
    return lambda vector: dataset.to_table(
        columns=["k", "_distance"], nearest={**options, "q": vector, "nprobes": probes}, filter=where, prefilter=True
    )


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
    kind: Any = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIMENSIONS)
    keys = [f"k{number}" for number in range(ROWS)]
    graph = init(str(folder / "search.omni"), SCHEMA)
    graph.load({"Doc": pa.table({"k": keys, "n": np.arange(ROWS) % 1000, "t": texts, "v": kind})})
    graph.optimize()
    return graph, vectors, queries


def _open(graph: Graph) -> lance.LanceDataset:
    snapshot = graph.snapshot()
    table = snapshot.tables["node:Doc"]
    return lance.dataset(snapshot.root.child(table.path).lance_uri, version=table.pin.version)
