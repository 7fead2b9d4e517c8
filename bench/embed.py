"""Compares `embed` with mock vectors on Spark with one pass of plain Lance over the same texts in this process.

The plain side computes the same vectors in one thread and adds them as one column, in one commit; `embed` makes a
commit per wave. The second ratio is the time of a late wave over that of an early one: a wave must cost its own rows,
not the table. `BENCH_EMBED=ROWS` sets another size.
"""

from __future__ import annotations

import os
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import lance
import numpy as np
import pyarrow as pa

import omnigraph
from bench.harness import Ratio, sized
from bench.writes import commit_rows
from omnigraph.base import limits
from omnigraph.embedding.provider import ConfiguredProvider, find_provider
from omnigraph.embedding.vectors import make_mock_vector
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.pipeline.embed.run import EmbedRequest, EmbedResult, embed
from omnigraph.pipeline.spark.auto import AutoRunner, RunnerChoice
from omnigraph.storage.location import Location

ROWS: Final = int(os.environ.get("BENCH_EMBED", "0")) or sized(200_000, 20_000)
WAVE_ROWS: Final = sized(limits.EMBED_WAVE_ROWS, 1_000)
FILE_ROWS: Final = 100_000
SIZE: Final = 64
PLAIN_MAX: Final = sized(2.0, None)  # with few rows the start of the tasks takes most of the time
WAVE_MAX: Final = sized(1.5, None)
ALIAS: Final = "node:Note"
SCHEMA: Final = f'node Note {{ k: String @key  text: String  vec: Vector({SIZE})? @embed("text") }}'


def run(folder: Path, rows: int = ROWS) -> list[Ratio]:
    """Return the ratio to plain Lance, and the ratio of a late wave to an early one."""
    graph = make(folder / "graph.omni", rows)
    plain = Path(shutil.copytree(_dataset(graph.location), folder / "plain.lance"))
    _embed(make(folder / "warm.omni", 100).location)
    _print_progress(f"embed of {rows:,} rows")
    started = perf_counter()
    result = _embed(graph.location)
    ours = perf_counter() - started
    assert (result.embedded, result.failed) == (rows, 0), result
    _print_progress("plain Lance")
    started = perf_counter()
    _add_vectors(plain)
    theirs = perf_counter() - started
    return [
        Ratio(
            f"embed of {rows:,} rows over plain Lance",
            ours / theirs,
            PLAIN_MAX,
            f"embed {ours:.1f} s in {len(result.commits)} commits, plain Lance {theirs:.1f} s",
            {"embed": ours, "plain Lance": theirs},
        ),
        _compare_waves(graph, result),
    ]


def make(path: Path, rows: int) -> omnigraph.Graph:
    """Create a graph whose rows have texts and no vectors."""
    _print_progress(f"making {rows:,} rows")
    graph = omnigraph.init(str(path), SCHEMA)
    for start in range(0, rows, FILE_ROWS):
        numbers = range(start, min(start + FILE_ROWS, rows))
        names = [f"k{number:09d}" for number in numbers]
        texts = [f"note {number} about subject {number * 7919 % 1_000_003}" for number in numbers]
        vectors = pa.nulls(len(names), pa.list_(pa.float32(), SIZE))
        commit_rows(graph.location, ALIAS, pa.table({"id": names, "k": names, "text": texts, "vec": vectors}))
    return graph


def _embed(root: Location) -> EmbedResult:
    provider = find_provider({"OMNIGRAPH_EMBED_PROVIDER": "mock"})
    assert isinstance(provider, ConfiguredProvider)
    request = EmbedRequest(actor="bench", provider=provider, wave_rows=WAVE_ROWS)
    return embed(root, request, AutoRunner(RunnerChoice.SPARK))


def _compare_waves(graph: omnigraph.Graph, result: EmbedResult) -> Ratio:
    """Return the median time of the last tenth of the waves over that of the first tenth."""
    times = sorted(commit.created_us for commit in graph.log(limit=len(result.commits)))
    seconds = [(after - before) / 1e6 for before, after in pairwise(times)]
    count = max(1, len(seconds) // 10)
    first, last = median(seconds[:count]), median(seconds[-count:])
    detail = f"last waves {last:.2f} s, first waves {first:.2f} s each"
    return Ratio(f"a wave of {WAVE_ROWS:,} rows, the last over the first", last / first, WAVE_MAX, detail)


def _add_vectors(path: Path) -> None:
    dataset = lance.dataset(str(path))
    dataset.drop_columns(["vec"])

    def compute(batch: pa.RecordBatch) -> pa.RecordBatch:
        texts: list[Any] = batch.column("text").to_pylist()
        vectors = np.array([make_mock_vector(text, SIZE) for text in texts], np.float32)
        make_list: Any = pa.FixedSizeListArray.from_arrays
        return pa.record_batch([make_list(pa.array(vectors.reshape(-1)), SIZE)], ["vec"])

    dataset.add_columns(lance.batch_udf(pa.schema({"vec": pa.list_(pa.float32(), SIZE)}))(compute), ["text"])


def _dataset(root: Location) -> Path:
    return Path(root.uri.removeprefix("file://")) / read_snapshot(root).tables[ALIAS].path


def _print_progress(text: str) -> None:
    print(f"embed: {text}", file=sys.stderr, flush=True)
