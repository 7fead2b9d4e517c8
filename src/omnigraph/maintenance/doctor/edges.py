"""Edges whose nodes are not there, as a foreign write that was published by force may leave them.

In: a snapshot. Out: one `DanglingEdges` per table that has some. Reads the ids of the nodes of one type at a time,
and the ends of their edges. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.graph.manifest.records import Pin, TableId
from omnigraph.graph.manifest.snapshot import Snapshot, open_table
from omnigraph.graph.rows.lookup import SnapshotLookup
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.lance.dataset import Texts
from omnigraph.storage.lance.read import read_all_ids

Pins = tuple[tuple[TableId, Pin], ...]


@dataclass(frozen=True, slots=True)
class DanglingEdges:
    """How many edges of a table lack a node at one of their ends, and one of them: its ends and its id."""

    table_key: str
    edges: int
    example: str


def find_loose_edges(snapshot: Snapshot, edge: EdgeType) -> DanglingEdges | None:
    """The loose edges of one type."""
    lookup = SnapshotLookup(snapshot)
    aliases = {node.id: node.alias for node in snapshot.schema.catalog.nodes}
    found: set[str] = set()
    for end, node in (("src", edge.source), ("dst", edge.target)):
        loose = lookup.edges_beyond(edge.id, end, _ids(snapshot, aliases[node]))
        found.update(str(name) for name in loose.to_pylist())
    if not found:
        return None
    example = min(found)
    source, target = lookup.edge_ends(edge.id, example)
    return DanglingEdges(edge.alias, len(found), f"{source} → {target} ({example})")


def edges_to_look_at(snapshot: Snapshot) -> Iterator[tuple[EdgeType, Pins, int]]:
    """Every type with edges, the published versions that its answer depends on, and the rows that have to be read."""
    aliases = {node.id: node.alias for node in snapshot.schema.catalog.nodes}
    for edge in snapshot.schema.catalog.edges:
        names = dict.fromkeys((edge.alias, aliases[edge.source], aliases[edge.target]))
        tables = [snapshot.tables[name] for name in names]
        if tables[0].row_count:
            pins = tuple((table.id, table.pin) for table in tables)
            yield edge, pins, sum(table.row_count for table in tables)


def _ids(snapshot: Snapshot, alias: str) -> Texts:
    return read_all_ids(open_table(snapshot.root, snapshot.tables[alias]))
