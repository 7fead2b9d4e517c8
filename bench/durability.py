"""Compares commits that survive a power failure (`sync`) with commits that survive a crash of processes (`process`).

The ratio depends on the disk, so it has no limit. A disk without a battery or a journal may take many milliseconds for
each sync.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import pyarrow as pa

import omnigraph
from bench.harness import Ratio, compare, median_seconds, report, sized
from omnigraph.api.graph import Graph
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import Outcome, StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.lance.stage import stage_fragments, write_rows

ROUNDS: Final = sized(48, 8)
ROWS: Final = sized((1, 100, 100_000), (1, 100, 10_000))
SETTINGS: Final = ("sync", "process")
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
    def stage(area: StagingArea) -> StagedWrite:
        target = area.writable(ALIAS)
        first = target.table.row_count
        names = [str(number) for number in range(first, first + rows)]
        values = {"id": names, "slug": names, "age": list(range(rows))}
        table = pa.table(values, schema=target.dataset.schema)
        staged = stage_fragments(target.dataset, write_rows(target.dataset, table))
        return area.finish(
            (area.transaction_effect(target, staged, first + rows),), frozenset(), Outcome({"inserted": rows})
        )

    assert write(graph.location, MAIN, WriteRequest(WriterKind.LOAD, "bench", stage)) is not None


def main() -> bool:
    """Run in a temporary directory; the ratios have no limit."""
    with tempfile.TemporaryDirectory() as folder:
        return report("durability", run(Path(folder)))
