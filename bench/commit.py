"""Compares a commit of 100 rows to one table with a plain Lance append of the same rows.

The other side is a dataset with as many versions as the table, because each commit lists all versions. The manifest of
the graph has at least as many. A plain append does not sync, so the graph does not either (`process`);
`bench.durability` has the price of a commit that survives a power failure. Times are CPU seconds of the process.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Final

import lance
import pyarrow as pa

import omnigraph
from bench.harness import Ratio, compare, median_seconds, sized
from bench.writes import commit_rows
from omnigraph.base.ids import CommitId, OperationId, new_ulid
from omnigraph.graph.manifest.publish import CommitDraft, ManifestChange, PublishTarget, publish
from omnigraph.graph.manifest.records import Pin, TableRecord, WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.storage.location import Location

HISTORIES: Final = sized((10, 50, 500, 2_000, 5_000), (10, 50, 250))
ROUNDS: Final = sized(48, 8)
ROWS: Final = 100
APPENDS_MAX: Final = 4.0
SHORT_HISTORY: Final = 50
HISTORY_GROWTH_MAX: Final = 1.2
ALIAS: Final = "node:Person"
SCHEMA: Final = """\
node Person { slug: String @key  age: I64? }
node Company { name: String @key }
edge Knows: Person -> Person { since: I64? }
"""


@dataclass(slots=True)
class GraphAndDataset:
    """A graph, and a plain dataset with the same rows and as many versions as its table."""

    root: Location
    plain: str
    schema: pa.Schema
    number: int = 0

    def commit(self) -> None:
        commit_rows(self.root, ALIAS, self._rows())

    def append(self) -> None:
        lance.write_dataset(self._rows(), self.plain, mode="append")

    def _rows(self) -> pa.Table:
        self.number += 1
        names = [f"{self.number}-{index}" for index in range(ROWS)]
        values = {"id": names, "slug": names, "age": list(range(ROWS))}
        return pa.table(values, schema=self.schema)


def run(folder: Path, histories: tuple[int, ...] = HISTORIES) -> list[Ratio]:
    """Return one ratio per length of history, and the growth of the ratio from a short history to the longest."""
    ratios: list[Ratio] = []
    for versions in histories:
        pair = _make(folder / str(versions), versions)
        times = median_seconds({"commit": pair.commit, "append": pair.append}, ROUNDS, process_time)
        name = f"commit of {ROWS} rows after {versions} commits"
        ratios.append(compare(name, times, ("commit", "append"), APPENDS_MAX, versions))
        shutil.rmtree(folder / str(versions))
    return [*ratios, _growth(ratios)]


def _growth(ratios: list[Ratio]) -> Ratio:
    """Return how much a commit costs more, in appends, after the longest history than after a short one."""
    short = next(ratio for ratio in ratios if ratio.size == SHORT_HISTORY)
    long = ratios[-1]
    name = f"commit after {long.size:,.0f} commits over {short.size:,.0f} commits, in appends"
    detail = f"{long.ratio:.2f} appends, {short.ratio:.2f} appends"
    return Ratio(name, long.ratio / short.ratio, HISTORY_GROWTH_MAX, detail)


def _make(folder: Path, versions: int) -> GraphAndDataset:
    folder.mkdir(parents=True)
    graph = omnigraph.init(str(folder / "graph.omni"), SCHEMA, durability="process")
    root = graph.location
    table = read_snapshot(root).tables[ALIAS]
    dataset = lance.dataset(f"{graph.uri}/{table.path}")
    for number in range(versions):
        dataset.update_config({"bench": str(number)})
    _publish_history(root, table, int(dataset.version), versions)
    shutil.copytree(f"{graph.uri}/{table.path}", folder / "plain")
    return GraphAndDataset(root, str(folder / "plain"), dataset.schema)


def _publish_history(root: Location, table: TableRecord, newest: int, commits: int) -> None:
    snapshot = read_snapshot(root)
    target = PublishTarget(root, MAIN, snapshot.branch.id, None)
    for number in range(commits):
        pin = Pin(None, newest - commits + 1 + number)
        moved = TableRecord(
            type_id=table.type_id,
            incarnation=table.incarnation,
            alias=table.alias,
            path=table.path,
            pin=pin,
            owner=table.owner,
            row_count=0,
        )
        draft = CommitDraft(
            id=CommitId(new_ulid()),
            operation=WriteOperation.LOAD,
            operation_id=OperationId(new_ulid()),
            actor="bench",
            created_us=number,
            counts={"rows": 1},
        )
        publish(target, ManifestChange(commit=draft, tables=(moved,)))
        if number % 500 == 499:
            print(f"{number + 1} commits", file=sys.stderr)
