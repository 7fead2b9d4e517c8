"""Compares optimize with the equivalent Lance calls: `compact_files` and `optimize_indices` in a loop.

Each table has many small fragments, of which the first half is indexed. Both sides work on copies of the same files.
The Spark session is started and its workers are warm before the measurement. `BENCH_OPTIMIZE="tables fragments rows"`
sets another size. For a second run, which has nothing to do, the opened datasets are counted. Then writers run during
optimize (`bench/concurrent_writer.py`), and the peak memory of the workers is measured.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Final

import lance
import pyarrow as pa
from lance.fragment import write_fragments

import omnigraph
from bench import concurrent_writer
from bench.harness import Ratio, sized
from bench.memory import Kind, peaks_of
from omnigraph.api.graph import Graph
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.maintenance.optimize.run import ensure_indices, optimize_all_tables
from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.stage import StagedTransaction, stage_fragments

TABLES: Final = sized(10, 2)
FRAGMENTS: Final = sized(1_000, 60)
ROWS: Final = sized(2_000, 200)
RAW_MAX: Final = sized(1.3, None)  # the distribution of small tasks takes longer than the tasks
LARGE: Final = sized((1, 2_000, 10_000), (1, 60, 1_000))
LARGE_RAW_MAX: Final = sized(1.2, None)
OPENS_MAX: Final = 20
BYTES_MAX: Final = 2 * 1024**3
_RUN: Final = "import sys, omnigraph; omnigraph.open(sys.argv[1]).optimize(runner='spark')"


def run_alone(folder: Path, size: tuple[int, int, int], limit: float | None = RAW_MAX) -> list[Ratio]:
    """Return the ratio to plain Lance, and the opened datasets of a run without work."""
    tables, fragments, rows = size
    name = f"{tables} tables of {fragments} fragments of {rows} rows"
    print_progress(f"making {name}")
    graph = make(folder / "graph.omni", tables, fragments, rows)
    raw = [Path(shutil.copytree(path, folder / "raw" / path.name)) for path in sorted(_datasets(graph))]
    workers = SparkRunner()
    warm = make(folder / "warm.omni", 2, 4, 10)
    optimize_all_tables(warm, run_tasks=workers)
    print_progress("optimize")
    started = perf_counter()
    stats = optimize_all_tables(graph, run_tasks=workers)
    ours = perf_counter() - started
    assert all(row.committed and row.error is None for row in stats), stats
    print_progress("raw Lance")
    started = perf_counter()
    for path in raw:
        lance.dataset(str(path)).optimize.compact_files()
        lance.dataset(str(path)).optimize.optimize_indices()
    theirs = perf_counter() - started
    opens = count_opens(graph)
    return [
        Ratio(
            f"optimize of {name}",
            ours / theirs,
            limit,
            f"optimize {ours:.1f} s, raw Lance {theirs:.1f} s",
            {"optimize": ours, "raw Lance": theirs},
        ),
        Ratio("opens per table without work", opens / tables / OPENS_MAX, 1.0, f"{opens / tables:.1f} of {OPENS_MAX}"),
    ]


def run_with_appends(folder: Path, size: tuple[int, int, int]) -> list[Ratio]:
    """Measure the wait of a writer that appends rows."""
    print_progress("a writer of appends during optimize")
    folder.mkdir()
    graph = make(folder / "graph.omni", *size)
    workers = SparkRunner()
    return concurrent_writer.run(graph, folder, lambda: optimize_all_tables(graph, run_tasks=workers))


def run_updates(folder: Path, size: tuple[int, int, int]) -> list[Ratio]:
    """Measure the fragments before and after several runs, and the waits of a writer that updates rows."""
    print_progress("a writer of updates during optimize")
    folder.mkdir()
    graph = make(folder / "graph.omni", *size)
    optimize_all_tables(make(folder / "warm.omni", 1, 4, 10), run_tasks=SparkRunner())
    return concurrent_writer.run_updates(graph, folder, lambda: optimize_all_tables(graph))


def make(path: Path, tables: int, fragments: int, rows: int) -> Graph:
    """Create a graph with `tables` node types; the first half of the fragments of each table is indexed."""
    schema = "\n".join(f"node T{n} {{ slug: String @key  age: I64 @index }}" for n in range(tables))
    graph = omnigraph.init(str(path), schema)
    half = fragments // 2
    _fill(graph, tables, (0, half), rows)
    ensure_indices(graph.location, MAIN, lambda function, tasks: [function(task) for task in tasks])
    _fill(graph, tables, (half, fragments), rows)
    return graph


def count_opens(graph: Graph) -> int:
    """Return how many datasets a run without work opens, including the manifest."""
    opened = 0
    real = lance.dataset

    def counting(*arguments: object, **options: object) -> object:
        nonlocal opened
        opened += 1
        return real(*arguments, **options)  # type: ignore[arg-type]

    lance.dataset = counting  # type: ignore[assignment]
    try:
        stats = optimize_all_tables(graph)
    finally:
        lance.dataset = real
    assert not any(row.committed for row in stats)
    return opened


def run_memory(folder: Path, fragments: int, rows: int) -> Ratio:
    """Measure the peak memory of a worker that compacts one large table."""
    print_progress(f"the memory of workers at {fragments * rows:,} rows")
    graph = make(folder / "large.omni", 1, fragments, rows)
    peak = peaks_of([sys.executable, "-c", _RUN, graph.uri])[Kind.WORKER]
    name = f"worker at {fragments * rows:,} rows, of {BYTES_MAX / 1024**2:.0f} MB"
    return Ratio(name, peak / BYTES_MAX, 1.0, f"{peak / 1024**2:.0f} MB")


def _fill(graph: Graph, tables: int, span: tuple[int, int], rows: int) -> None:
    def stage(area: StagingArea) -> StagedWrite:
        effects = []
        for number in range(tables):
            target = area.open_for_write(f"node:T{number}")
            staged = _stage_rows(target.dataset, span, rows)
            effects.append(area.transaction_effect(target, staged, target.table.row_count + (span[1] - span[0]) * rows))
        return area.finish(tuple(effects), frozenset(), {})

    assert write(graph.location, MAIN, WriteRequest(kind=WriteOperation.LOAD, actor="bench", stage=stage)) is not None


def _stage_rows(dataset: Dataset, span: tuple[int, int], rows: int) -> StagedTransaction:
    """Stage rows one fragment at a time, so that a large table needs little memory."""

    def batches() -> Iterator[pa.RecordBatch]:
        for fragment in range(*span):
            numbers = range(fragment * rows, (fragment + 1) * rows)
            names = pa.array([f"k{number:09d}" for number in numbers])
            ages = pa.array([number * 7919 % 1_000_003 for number in numbers], pa.int64())
            yield pa.record_batch([names, names, ages], schema=dataset.schema)

    reader = pa.RecordBatchReader.from_batches(dataset.schema, batches())
    return stage_fragments(dataset, write_fragments(reader, dataset.native, max_rows_per_file=rows))


def _datasets(graph: Graph) -> list[Path]:
    snapshot = read_snapshot(graph.location)
    return [Path(graph.uri) / table.path for table in snapshot.tables.values()]


def print_progress(text: str) -> None:
    """Print progress to stderr."""
    print(f"optimize: {text}", file=sys.stderr, flush=True)


def run(folder: Path) -> list[Ratio]:
    """Return the ratios of optimize alone, with writers and for a large table, and the memory of its workers."""
    sizes = [int(text) for text in os.environ.get("BENCH_OPTIMIZE", "").split()]
    tables, fragments, rows = sizes or (TABLES, FRAGMENTS, ROWS)
    ratios = run_alone(folder / "many", (tables, fragments, rows))
    shutil.rmtree(folder / "many")
    ratios += run_with_appends(folder / "appends", (2, fragments, rows))
    shutil.rmtree(folder / "appends")
    ratios += run_updates(folder / "updates", (1, fragments, rows))
    shutil.rmtree(folder / "updates")
    if not sizes:
        ratios += run_alone(folder / "large", LARGE, LARGE_RAW_MAX)
        shutil.rmtree(folder / "large")
        ratios.append(run_memory(folder, *LARGE[1:]))
    return ratios
