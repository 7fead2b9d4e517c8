"""What `nearest` through an index promises, compared with brute force over clustered vectors.

There are as many rows as the limit, all match the filter, no distance is more than 1 % above the exact one at the same
rank, and without a filter at least 95 % of the rows are among the nearest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.base import limits
from omnigraph.engine.cache import Cache
from omnigraph.engine.context import Trace
from omnigraph.engine.options import EngineOptions
from omnigraph.engine.run import QueryRunOptions
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.query.rules.search_choice import SearchPath
from tests.engine.running import PlannedText

SIZE = 128
K = 10
QUERIES = 20
SCHEMA = f"node D {{ k: String @key  n: I64 @index  c: I64  v: Vector({SIZE}) @index }}\n"
SOAK = pytest.mark.soak
Numbers = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Distances = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """Rows of an indexed graph, and queries that are near a row, with the cluster of this row."""

    snapshot: Snapshot
    cache: Cache
    vectors: Vectors
    clusters: Numbers
    numbers: Numbers
    queries: list[tuple[Vectors, int]]


@pytest.fixture(
    scope="module",
    params=[(10_000, 60), pytest.param((200_000, 300), marks=SOAK), pytest.param((200_000, 3_000), marks=SOAK)],
    ids=lambda case: f"{case[0]} rows in {case[1]} clusters",
)
def documents(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Documents]:
    rows, count = request.param
    random = np.random.default_rng(count)
    clusters = random.integers(0, count, rows)
    centers = random.normal(size=(count, SIZE))
    vectors = (centers[clusters] + random.normal(size=(rows, SIZE)) * 0.5).astype(np.float32)
    near = random.integers(0, rows, QUERIES)
    queries = (vectors[near] + random.normal(size=(QUERIES, SIZE)) * 0.1).astype(np.float32)
    numbers = random.permutation(rows)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), SIZE)
    keys = [f"d{number}" for number in range(rows)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SEARCH_EXACT_BYTES", 0)
        graph = og.init(str(tmp_path_factory.mktemp("recall") / "g.omni"), SCHEMA)
        graph.load({"D": pa.table({"k": keys, "n": numbers, "c": clusters, "v": column})})
        graph.optimize()
        yield Documents(
            snapshot=graph.snapshot(),
            cache=Cache(),
            vectors=vectors,
            clusters=clusters,
            numbers=numbers,
            queries=list(zip(queries, clusters[near].tolist(), strict=True)),
        )


def search(
    documents: Documents,
    vector: Vectors,
    condition: str = "",
    value: int = 0,
    matching: npt.NDArray[np.bool_] | None = None,
) -> float:
    """Search through the index, check all promises but the recall, and return the recall."""
    body = f"match {{ $d: D {condition} }} return {{ $d.k, nearest($d.v, $v) as s }} limit {K}"
    query = PlannedText(f"query q($v: Vector({SIZE}), $c: I64) {{ {body} }}")
    trace = Trace()
    options = QueryRunOptions(EngineOptions(search=SearchPath.INDEX), documents.cache, trace)
    rows = query.run(documents.snapshot, {"v": vector.tolist(), "c": value}, options).to_arrow()
    positions = [int(str(key)[1:]) for key in rows.column("d.k").to_pylist()]
    assert len(set(positions)) == K
    assert matching is None or matching[positions].all()
    distances = rows.column("s").to_numpy()
    # A zero vector, which no index returns, would be nearer than a distance above 1.
    assert "by vector index" in {mode for mode, _ in trace.modes.values()} or distances[-1] >= 1
    np.testing.assert_allclose(distances, exact_distances(documents.vectors[positions], vector), rtol=1e-9)
    exact = exact_distances(documents.vectors if matching is None else documents.vectors[matching], vector)[:K]
    assert (distances <= 1.01 * exact).all()
    return float(np.mean(distances <= exact[-1] * (1 + 1e-9)))


def exact_distances(vectors: Vectors, query: Vectors) -> Distances:
    """Return the cosine distances to a query, ascending."""
    matrix, vector = vectors.astype(np.float64), query.astype(np.float64)
    return np.sort(1 - matrix @ vector / (np.linalg.norm(matrix, axis=1) * np.linalg.norm(vector)))


@pytest.mark.parametrize("are_near", [True, False], ids=["near", "far"])
def test_recall_and_distances(documents: Documents, are_near: bool) -> None:
    """Queries that are near no vector read more partitions than others need: all vectors have similar distances."""
    far = np.random.default_rng(1).normal(size=(QUERIES, SIZE)).astype(np.float32)
    queries = [vector for vector, _ in documents.queries] if are_near else far
    assert np.mean([search(documents, vector) for vector in queries]) >= 0.95


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001])
def test_distances_with_a_filter(documents: Documents, share: float) -> None:
    bound = int(share * len(documents.vectors))
    for vector, _ in documents.queries:
        search(documents, vector, "$d.n < $c", bound, documents.numbers < bound)


def test_distances_with_a_filter_that_excludes_the_region_of_the_query(documents: Documents) -> None:
    for vector, cluster in documents.queries:
        search(documents, vector, "$d.c != $c", cluster, documents.clusters != cluster)
