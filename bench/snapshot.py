"""Compares the opening of a graph and the reading of its snapshot with plain Lance.

The other side is a plain Lance table of one fragment with the same rows, opened and read completely. After many commits
the manifest has many versions, which each open lists; that part is reported separately.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import lance

import omnigraph
from bench.harness import Ratio, compare, median_seconds, sized
from omnigraph.base import limits
from omnigraph.base.ids import CommitId, OperationId, new_ulid
from omnigraph.graph.manifest.publish import CommitDraft, ManifestChange, PublishTarget, publish
from omnigraph.graph.manifest.records import Pin, WriteOperation
from omnigraph.storage.location import parse_location

COMMITS: Final = sized(5_000, 200)
ROUNDS: Final = sized(60, 10)
TABLES: Final = 20


@dataclass(frozen=True, slots=True)
class GraphAndTables:
    """A graph, and plain tables of one fragment: all rows of its manifest, and those of a snapshot."""

    graph: str
    equal: str
    snapshot_rows: str

    def read_snapshot(self) -> object:
        """Open the manifest and read the snapshot, the first part of each read."""
        return omnigraph.Graph(parse_location(self.graph)).snapshot()

    def open_and_read_snapshot(self) -> object:
        """The same after `omnigraph.open`, which also opens the manifest, to report errors immediately."""
        return omnigraph.open(self.graph).snapshot()

    def open_manifest(self) -> object:
        return lance.dataset(f"{self.graph}/__manifest")


def run(folder: Path, commits: int = COMMITS) -> list[Ratio]:
    """Return all ratios of this benchmark."""
    return [*_fresh(folder), *_by_number_of_tables(folder), *_with_history(folder, commits)]


def _fresh(folder: Path) -> list[Ratio]:
    pair = _make_pair(folder, "fresh", _make_graph(folder / "fresh.omni", TABLES))
    times = median_seconds({"graph": pair.read_snapshot, "table": lambda: _scan(pair.equal)}, ROUNDS)
    return [compare(f"open and snapshot, {TABLES} tables", times, ("graph", "table"), 2.0)]


def _by_number_of_tables(folder: Path) -> list[Ratio]:
    few = _make_pair(folder, "few", _make_graph(folder / "few.omni", 10))
    many = _make_pair(folder, "many", _make_graph(folder / "many.omni", 200))
    actions = {"200 tables": many.read_snapshot, "10 tables": few.read_snapshot}
    times = median_seconds(actions, ROUNDS)
    return [compare("snapshot of 200 tables over 10", times, ("200 tables", "10 tables"), 2.0)]


def _with_history(folder: Path, commits: int) -> list[Ratio]:
    graph = _make_graph(folder / "history.omni", TABLES)
    _publish_commits(graph, commits)
    pair = _make_pair(folder, "history", graph)
    actions = {
        "graph": pair.read_snapshot,
        "table": lambda: _scan(pair.equal),
        "omnigraph.open": pair.open_and_read_snapshot,
        "snapshot's rows": lambda: _scan(pair.snapshot_rows),
        "open": pair.open_manifest,
        "open of table": lambda: lance.dataset(pair.equal),
    }
    times = median_seconds(actions, ROUNDS)
    name = f"after {commits} commits"
    return [
        compare(f"open and snapshot {name}", times, ("graph", "table"), 3.5),
        compare(f"omnigraph.open and snapshot {name}", times, ("omnigraph.open", "table"), None),
        compare(f"the same over the snapshot's rows alone {name}", times, ("graph", "snapshot's rows"), None),
        compare(f"a plain Lance open {name}", times, ("open", "open of table"), None),
    ]


def _make_graph(path: Path, tables: int) -> omnigraph.Graph:
    schema = "\n".join(f"node Type{number} {{ name: String @key  value: I64? }}" for number in range(tables))
    return omnigraph.init(str(path), schema)


def _publish_commits(graph: omnigraph.Graph, commits: int) -> None:
    """Publish `commits` times, then until the manifest has its maximum of fragments."""
    snapshot = graph.snapshot()
    target = PublishTarget(snapshot.root, snapshot.branch.name, snapshot.branch.id, None)
    tables = list(snapshot.tables.values())
    number = 0
    while number < commits or len(graph.snapshot().manifest.dataset.fragment_rows()) <= limits.MANIFEST_FRAGMENTS_MAX:
        table = tables[number % len(tables)]
        moved = replace(table, pin=Pin(None, table.pin.version + 1))
        tables[number % len(tables)] = moved
        draft = CommitDraft(
            id=CommitId(new_ulid()),
            operation=WriteOperation.LOAD,
            operation_id=OperationId(new_ulid()),
            actor="bench",
            created_us=number,
            counts={"rows": 1},
        )
        publish(target, ManifestChange(commit=draft, tables=(moved,)))
        number += 1
        if number % 500 == 0:
            print(f"{number} commits", file=sys.stderr)


def _make_pair(folder: Path, name: str, graph: omnigraph.Graph) -> GraphAndTables:
    rows = lance.dataset(f"{graph.uri}/__manifest").to_table()
    kinds = rows.column("object_type").to_pylist()
    snapshot_rows = [index for index, kind in enumerate(kinds) if kind not in ("graph_commit", "recovery")]
    pair = GraphAndTables(graph.uri, str(folder / f"{name}.equal"), str(folder / f"{name}.rows"))
    for uri, table in ((pair.equal, rows), (pair.snapshot_rows, rows.take(snapshot_rows))):
        lance.write_dataset(table, uri, enable_stable_row_ids=True, data_storage_version="2.2")
    return pair


def _scan(uri: str) -> object:
    return lance.dataset(uri).to_table()
