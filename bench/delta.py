"""Compares maintenance with delta-rs on the same rows: optimize with its compaction, cleanup with its vacuum.

Each side has a table of many small files, without indexes, because Delta has none. The ratios have no limit: the two
give different guarantees. Run `pip install deltalake` first; the project itself does not use it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import pyarrow as pa

import omnigraph
from bench.cleanup import LaterClock
from bench.harness import Ratio, sized
from bench.writes import commit_rows
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.pipeline.spark.runner import SparkRunner

COMMITS: Final = sized(1_000, 40)
ROWS: Final = sized(2_000, 500)
ALIAS: Final = "node:T"
SCHEMA: Final = "node T { slug: String  age: I64 }"


def run(folder: Path, commits: int = COMMITS, rows: int = ROWS) -> list[Ratio]:
    """Return two ratios, ours over delta-rs."""
    from deltalake import DeltaTable, write_deltalake

    graph = omnigraph.init(str(folder / "graph.omni"), SCHEMA)
    delta_path = str(folder / "delta")
    for number in range(commits):
        table = _rows(number * rows, rows)
        commit_rows(graph.location, ALIAS, table)
        write_deltalake(delta_path, table, mode="append")
        if number % 200 == 199:
            print(f"delta: {number + 1} commits on each side", file=sys.stderr, flush=True)
    workers = SparkRunner()
    _warm_up(folder / "warm.omni", workers)
    started = perf_counter()
    optimize_all_tables(graph, run_tasks=workers)
    optimized = perf_counter() - started
    started = perf_counter()
    delta = DeltaTable(delta_path)
    delta.optimize.compact()
    compacted = perf_counter() - started
    started = perf_counter()
    policy = CleanupPolicyOptions(keep_versions=1, confirm=True)
    cleanup_all_tables(graph, policy, environment=WriteEnvironment(clock=LaterClock()))
    cleaned = perf_counter() - started
    started = perf_counter()
    DeltaTable(delta_path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    vacuumed = perf_counter() - started
    name = f"{commits} commits of {rows} rows"
    return [
        _ratio(f"optimize / compact, {name}", optimized, compacted),
        _ratio(f"cleanup / vacuum, {name}", cleaned, vacuumed),
    ]


def _ratio(name: str, ours: float, theirs: float) -> Ratio:
    detail = f"ours {ours:.2f} s, delta-rs {theirs:.2f} s"
    return Ratio(name, ours / theirs, None, detail, {"ours": ours, "delta-rs": theirs})


def _rows(first: int, count: int) -> pa.Table:
    names = [f"k{number:09d}" for number in range(first, first + count)]
    return pa.table({"id": names, "slug": names, "age": list(range(count))})


def _warm_up(path: Path, workers: Any) -> None:
    """Start the session and its workers before the measurement."""
    graph = omnigraph.init(str(path), SCHEMA)
    for number in range(4):
        commit_rows(graph.location, ALIAS, _rows(number * 10, 10))
    optimize_all_tables(graph, run_tasks=workers)
    shutil.rmtree(path)
