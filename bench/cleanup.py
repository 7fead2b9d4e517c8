"""Compares the cleanup of 1,000 versions of a table with Lance's cleanup of the same datasets.

Our cleanup checks for pending writes, drift, branches and snapshots, plans the list of files, and deletes exactly
these. Lance's is `cleanup_old_versions` on the manifest and on each table. Each run works on a new copy.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import lance
import pyarrow as pa

import omnigraph
from bench.harness import Ratio, compare, sized
from bench.writes import commit_rows
from omnigraph.base.clock import SystemClock
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.layout import EDGES, MANIFEST, NODES
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.storage.location import Location

VERSIONS: Final = sized(1_000, 60)
KEEP: Final = 10
ROWS: Final = 100
OVERWRITE_EVERY: Final = 20
ROUNDS: Final = sized(5, 2)
RATIO_MAX: Final = sized(1.2, None)  # with few versions the safety checks take most of the time
ALIAS: Final = "node:Person"
SCHEMA: Final = "node Person { slug: String @key  age: I64? }"
HOUR_US: Final = 3_600_000_000


class LaterClock(SystemClock):
    """An hour ahead, so that no file is too young to be deleted."""

    def now_us(self) -> int:
        return super().now_us() + HOUR_US


def run(folder: Path, versions: int = VERSIONS) -> list[Ratio]:
    """Return one ratio."""
    graph = omnigraph.init(str(folder / "graph.omni"), SCHEMA)
    for number in range(versions):
        _commit(graph.location, number)
        if number % 200 == 199:
            print(f"{number + 1} commits", file=sys.stderr)
    original = Path(graph.uri)
    times: dict[str, list[float]] = {"ours": [], "Lance": []}
    for _ in range(ROUNDS):
        times["ours"].append(_timed(original, folder, _clean_ours))
        times["Lance"].append(_timed(original, folder, _clean_plain))
    medians = {name: median(seconds) for name, seconds in times.items()}
    name = f"cleanup of {versions} versions, keeping {KEEP}"
    return [compare(name, medians, ("ours", "Lance"), RATIO_MAX)]


def _commit(root: Location, number: int) -> None:
    names = [f"{number}-{index}" for index in range(ROWS)]
    rows = pa.table({"id": names, "slug": names, "age": list(range(ROWS))})
    commit_rows(root, ALIAS, rows, mode="append" if number % OVERWRITE_EVERY else "overwrite")


def _timed(original: Path, folder: Path, clean: Callable[[str], None]) -> float:
    copy = folder / "copy.omni"
    shutil.copytree(original, copy)
    started = perf_counter()
    clean(str(copy))
    seconds = perf_counter() - started
    shutil.rmtree(copy)
    return seconds


def _clean_ours(uri: str) -> None:
    options = CleanupPolicyOptions(keep_versions=KEEP, confirm=True)
    rows = cleanup_all_tables(omnigraph.open(uri), options, environment=WriteEnvironment(clock=LaterClock()))
    assert all(row.error is None and row.files_removed for row in rows)


def _clean_plain(uri: str) -> None:
    tables = [path for kind in (NODES, EDGES) for path in sorted(Path(uri, kind).glob("*"))]
    for path in [Path(uri, MANIFEST), *tables]:
        stats = lance.dataset(str(path)).cleanup_old_versions(timedelta(0), KEEP)
        assert stats.old_versions > 0
