"""What optimize costs, counted in the raw Lance calls that do the same: compact_files and optimize_indices in a loop.

Every table has many small fragments of which the first half is indexed. Both sides work on copies of the same files.
The Spark session is started, and its workers are warm, before the clock. `BENCH_OPTIMIZE="tables fragments rows"`
measures another size. A second run, which has nothing to do, is counted in opened datasets. Then writers go on next to
a run (`bench/beside.py`), and the memory of the workers is watched from outside.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Final

import lance
import pyarrow as pa
from lance.fragment import write_fragments

import omnigraph
from bench import beside
from bench.harness import Ratio, report, sized
from bench.memory import Kind, peaks_of
from omnigraph.api.graph import Graph
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import Outcome, StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.maintenance.optimize.run import ensure_indices, optimize_all_tables
from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.stage import StagedTransaction, stage_fragments

TABLES: Final = sized(10, 2)
FRAGMENTS: Final = sized(1_000, 60)
ROWS: Final = sized(2_000, 200)
RAW_MAX: Final = sized(1.3, None)  # handing out tasks costs more than small ones do
LARGE: Final = sized((1, 2_000, 10_000), (1, 60, 1_000))
LARGE_RAW_MAX: Final = sized(1.2, None)
OPENS_MAX: Final = 20
BYTES_MAX: Final = 2 * 1024**3
_RUN: Final = "import sys, omnigraph; omnigraph.open(sys.argv[1]).optimize()"


def run(folder: Path, size: tuple[int, int, int], bar: float | None = RAW_MAX) -> list[Ratio]:
    """The ratio to raw Lance, and the opens of a run without work."""
    tables, fragments, rows = size
    name = f"{tables} tables of {fragments} fragments of {rows} rows"
    tell(f"making {name}")
    graph = make(folder / "graph.omni", tables, fragments, rows)
    raw = [Path(shutil.copytree(path, folder / "raw" / path.name)) for path in sorted(_datasets(graph))]
    workers = SparkRunner()
    warm = make(folder / "warm.omni", 2, 4, 10)
    optimize_all_tables(warm, run_tasks=workers)
    tell("optimize")
    started = perf_counter()
    stats = optimize_all_tables(graph, run_tasks=workers)
    ours = perf_counter() - started
    assert all(row.committed and row.error is None for row in stats), stats
    tell("raw Lance")
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
            bar,
            f"optimize {ours:.1f} s, raw Lance {theirs:.1f} s",
            {"optimize": ours, "raw Lance": theirs},
        ),
        Ratio(
            "opens a table without work",
            opens / tables / OPENS_MAX,
            1.0,
            f"{opens / tables:.1f} of {OPENS_MAX}",
        ),
    ]


def run_beside(folder: Path, size: tuple[int, int, int]) -> list[Ratio]:
    """What a writer waits for."""
    tell("a writer beside optimize")
    folder.mkdir()
    graph = make(folder / "graph.omni", *size)
    workers = SparkRunner()
    return beside.run(graph, folder, lambda: optimize_all_tables(graph, run_tasks=workers))


def run_updates(folder: Path, size: tuple[int, int, int]) -> list[Ratio]:
    """What is left of the fragments of one table next to a writer that updates its rows, and that writer's wait."""
    tell("a writer of updates next to optimize")
    folder.mkdir()
    graph = make(folder / "graph.omni", *size)
    workers = SparkRunner()
    optimize_all_tables(make(folder / "warm.omni", 1, 4, 10), run_tasks=workers)
    return beside.run_updates(graph, folder, lambda: optimize_all_tables(graph, run_tasks=workers))


def make(path: Path, tables: int, fragments: int, rows: int) -> Graph:
    """A graph with so many node types; the first half of each table's fragments is indexed."""
    schema = "\n".join(f"node T{n} {{ slug: String @key  age: I64 @index }}" for n in range(tables))
    graph = omnigraph.init(str(path), schema)
    half = fragments // 2
    _fill(graph, tables, (0, half), rows)
    ensure_indices(graph.location, MAIN, lambda function, tasks: [function(task) for task in tasks])
    _fill(graph, tables, (half, fragments), rows)
    return graph


def count_opens(graph: Graph) -> int:
    """How many datasets a run without work opens, those of the manifest too."""
    opened = 0
    real = lance.dataset

    def counted(*arguments: object, **options: object) -> object:
        nonlocal opened
        opened += 1
        return real(*arguments, **options)  # type: ignore[arg-type]

    lance.dataset = counted  # type: ignore[assignment]
    try:
        stats = optimize_all_tables(graph)
    finally:
        lance.dataset = real
    assert not any(row.committed for row in stats)
    return opened


def run_memory(folder: Path, fragments: int, rows: int) -> Ratio:
    """The most that a worker holds while one large table is compacted."""
    tell(f"the memory of workers at {fragments * rows:,} rows")
    graph = make(folder / "large.omni", 1, fragments, rows)
    peak = peaks_of([sys.executable, "-c", _RUN, graph.uri])[Kind.WORKER]
    name = f"worker at {fragments * rows:,} rows, of {BYTES_MAX / 1024**2:.0f} MB"
    return Ratio(name, peak / BYTES_MAX, 1.0, f"{peak / 1024**2:.0f} MB")


def _fill(graph: Graph, tables: int, span: tuple[int, int], rows: int) -> None:
    def stage(at: StagingArea) -> StagedWrite:
        effects = []
        for number in range(tables):
            target = at.writable(f"node:T{number}")
            staged = _staged(target.dataset, span, rows)
            effects.append(
                at.transaction_effect(target, staged, target.table.row_count + (span[1] - span[0]) * rows)
            )
        return at.finish(tuple(effects), frozenset(), Outcome({}))

    assert write(graph.location, MAIN, WriteRequest(WriterKind.LOAD, "bench", stage)) is not None


def _staged(dataset: Dataset, span: tuple[int, int], rows: int) -> StagedTransaction:
    """A fragment at a time, so that a large table needs no memory here."""

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


def tell(what: str) -> None:
    """Progress, on stderr."""
    print(f"optimize: {what}", file=sys.stderr, flush=True)


def main() -> bool:
    """Measure, and tell."""
    sizes = [int(text) for text in os.environ.get("BENCH_OPTIMIZE", "").split()]
    tables, fragments, rows = sizes or (TABLES, FRAGMENTS, ROWS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ratios = run(folder / "many", (tables, fragments, rows))
        shutil.rmtree(folder / "many")
        ratios += run_beside(folder / "beside", (tables, fragments, rows))
        shutil.rmtree(folder / "beside")
        ratios += run_updates(folder / "updates", (1, fragments, rows))
        shutil.rmtree(folder / "updates")
        if not sizes:
            ratios += run(folder / "large", LARGE, LARGE_RAW_MAX)
            shutil.rmtree(folder / "large")
            ratios.append(run_memory(folder, *LARGE[1:]))
    return report("optimize", ratios)
