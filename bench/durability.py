"""Compares commits that survive a power failure (`sync`) with commits that survive a crash of processes (`process`).

The ratio depends on the disk, so it has no limit. A disk without a battery or a journal may take many milliseconds for
each sync.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Final

import pyarrow as pa

import omnigraph
from bench.harness import Ratio, compare, median_seconds, sized
from bench.writes import commit_rows
from omnigraph.api.graph import Graph

ROUNDS: Final = sized(48, 8)
ROWS: Final = sized((1, 100, 100_000), (1, 100, 10_000))
SETTINGS: Final = ("sync", "process")
COMMITS: Final = count()
ALIAS: Final = "node:Person"
SCHEMA: Final = "node Person { slug: String @key  age: I64? }"


def run(folder: Path) -> list[Ratio]:
    """Return one ratio per number of rows."""
    ratios = []
    for rows in ROWS:
        graphs = {
            setting: omnigraph.init(str(folder / f"{setting}-{rows}.omni"), SCHEMA, durability=setting)
            for setting in SETTINGS
        }
        times = median_seconds(
            {setting: lambda graph=graph: _commit(graph, rows) for setting, graph in graphs.items()},  # type: ignore[misc]  # noqa: B023
            ROUNDS,
        )
        name = f"commit of {rows:,} {'row' if rows == 1 else 'rows'} that survives a power failure"
        ratios.append(compare(name, times, SETTINGS, None, rows))
    return ratios


def _commit(graph: Graph, rows: int) -> None:
    commit = next(COMMITS)
    names = [f"{commit}-{number}" for number in range(rows)]
    commit_rows(graph.location, ALIAS, pa.table({"id": names, "slug": names, "age": list(range(rows))}))
