"""Measures branches and merges by size: their cost may grow with the change, but not with the table.

They are compared with an upsert of the same rows to main, without limits; `bench.merge` has the limits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.harness import Ratio, compare, sized
from bench.merge import FEW, People, prepared_medians

TABLES: Final = sized((10_000, 100_000, 1_000_000), (1_000, 10_000))
CHANGES: Final = sized((100, 1_000, 10_000, 100_000), (100, 1_000))
ROUNDS: Final = sized(7, 3)


def run(folder: Path) -> list[Ratio]:
    """Return ratios by the size of the table, then by the size of a change of the largest table."""
    graphs = {rows: People.make(folder / f"{rows}.omni", rows) for rows in TABLES}
    ratios: list[Ratio] = []
    created: dict[int, float] = {}
    for rows, people in graphs.items():
        times = prepared_medians(
            {
                "create a branch": people.branch,
                "merge": lambda people=people: people.merge(FEW),  # type: ignore[misc]
                "upsert": lambda people=people: people.load(FEW),  # type: ignore[misc]
            },
            ROUNDS,
        )
        created[rows] = times["create a branch"]
        ratios.append(compare(f"table of {rows:,}: merge {FEW} rows", times, ("merge", "upsert"), None, rows))
    ratios += [_created(rows, created) for rows in TABLES]
    largest = graphs[TABLES[-1]]
    for changed in CHANGES:
        times = prepared_medians(
            {
                "merge": lambda changed=changed: largest.merge(changed),  # type: ignore[misc]
                "upsert": lambda changed=changed: largest.load(changed),  # type: ignore[misc]
            },
            ROUNDS,
        )
        ratios.append(compare(f"changed {changed:,} rows: merge", times, ("merge", "upsert"), None, changed))
    return ratios


def _created(rows: int, created: dict[int, float]) -> Ratio:
    smallest = TABLES[0]
    return Ratio(
        f"branch of {rows:,} rows over one of {smallest:,}",
        created[rows] / created[smallest],
        None,
        f"{created[rows] * 1e3:.1f} ms",
        {"create a branch": created[rows]},
        rows,
    )
