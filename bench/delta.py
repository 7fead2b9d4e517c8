"""Compares maintenance with delta-rs on the same rows: optimize with its compaction, cleanup with its vacuum.

Each side has a table of many small files. Optimize also builds the index of the ids, which every table has; Delta has
no indexes. Optimize runs in this process (`runner="local"`), and on Spark, which `auto` chooses for this size: the
session is started and its workers are warm before the measurement. Run `pip install deltalake` first; the project
itself does not use it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Final

import pyarrow as pa

import omnigraph
from bench.cleanup import LaterClock
from bench.harness import Ratio, sized
from bench.writes import commit_rows
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.pipeline.runner import LocalRunner, RunTasks
from omnigraph.pipeline.spark.auto import AutoRunner
from omnigraph.pipeline.spark.runner import SparkRunner

COMMITS: Final = sized(1_000, 40)
ROWS: Final = sized(2_000, 500)
OPTIMIZE_MAX: Final = sized(2.0, None)  # small tables measure the fixed cost of a commit
CLEANUP_MAX: Final = sized(4.0, None)
WORKERS: Final = os.cpu_count() or 1
ALIAS: Final = "node:T"
SCHEMA: Final = "node T { slug: String  age: I64 }"


def run(folder: Path, commits: int = COMMITS, rows: int = ROWS) -> list[Ratio]:
    """Return the ratios, ours over delta-rs."""
    from deltalake import DeltaTable, write_deltalake

    graph = omnigraph.init(str(folder / "graph.omni"), SCHEMA)
    delta_path = str(folder / "delta")
    for number in range(commits):
        table = _rows(number * rows, rows)
        commit_rows(graph.location, ALIAS, table)
        write_deltalake(delta_path, table, mode="append")
        if number % 200 == 199:
            print(f"delta: {number + 1} commits on each side", file=sys.stderr, flush=True)
    local = omnigraph.open(shutil.copytree(graph.uri, folder / "local.omni"))
    optimized_here = _timed(lambda: optimize_all_tables(local, run_tasks=LocalRunner()))
    _warm_up(folder / "warm.omni", SparkRunner())
    optimized = _timed(lambda: optimize_all_tables(graph, run_tasks=AutoRunner()))
    compacted = _timed(lambda: DeltaTable(delta_path).optimize.compact(None))
    policy, environment = CleanupPolicyOptions(keep_versions=1, confirm=True), WriteEnvironment(clock=LaterClock())
    cleaned = _timed(lambda: cleanup_all_tables(graph, policy, environment=environment))
    vacuumed = _timed(
        lambda: DeltaTable(delta_path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    )
    name = f"{commits} commits of {rows} rows"
    return [
        _ratio(f"optimize / compact, {name}", optimized_here, compacted, OPTIMIZE_MAX),
        _ratio(f"optimize on Spark / compact, {name}", optimized, compacted, OPTIMIZE_MAX),
        _ratio(f"cleanup / vacuum, {name}", cleaned, vacuumed, CLEANUP_MAX),
    ]


def _timed(action: Callable[[], object]) -> float:
    started = perf_counter()
    action()
    return perf_counter() - started


def _ratio(name: str, ours: float, theirs: float, limit: float | None) -> Ratio:
    detail = f"ours {ours:.2f} s, delta-rs {theirs:.2f} s"
    return Ratio(name, ours / theirs, limit, detail, {"ours": ours, "delta-rs": theirs})


def _rows(first: int, count: int) -> pa.Table:
    names = [f"k{number:09d}" for number in range(first, first + count)]
    return pa.table({"id": names, "slug": names, "age": list(range(count))})


def _warm_up(path: Path, workers: RunTasks) -> None:
    """Start the session and a worker per core before the measurement: each task rewrites one table."""
    graph = omnigraph.init(str(path), "\n".join(f"node W{number} {{ slug: String }}" for number in range(WORKERS)))
    for number in range(4):
        for table in range(WORKERS):
            commit_rows(graph.location, f"node:W{table}", _rows(number * 10, 10).drop_columns("age"))
    optimize_all_tables(graph, run_tasks=workers)
    shutil.rmtree(path)
