"""Edges whose nodes do not exist, as after external changes that repair published by force.

In: a snapshot. Out: the types to check, and for a type the number of such edges with an example. Reads the ids of the
nodes of one type at a time, and the endpoints of their edges. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.graph.manifest.records import Pin, TableId
from omnigraph.graph.manifest.snapshot import Snapshot, open_table
from omnigraph.graph.rows.lookup import SnapshotLookup
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.lance.read import read_all_ids

Pins = tuple[tuple[TableId, Pin], ...]


def describe_dangling_edges(snapshot: Snapshot, edge: EdgeType) -> str:
    """Read the edges of one type without a node at an endpoint; return their number and an example, empty if none."""
    lookup = SnapshotLookup(snapshot)
    aliases = {node.id: node.alias for node in snapshot.schema.catalog.nodes}
    edge_ids: set[str] = set()
    for endpoint, node in (("src", edge.source), ("dst", edge.target)):
        node_ids = read_all_ids(open_table(snapshot.root, snapshot.tables[aliases[node]]))
        dangling = lookup.edges_beyond(edge.id, endpoint, node_ids)
        edge_ids.update(str(edge_id) for edge_id in dangling.to_pylist())
    if not edge_ids:
        return ""
    example = min(edge_ids)
    source, target = lookup.edge_ends(edge.id, example)
    count = f"{len(edge_ids):,} {'edge lacks' if len(edge_ids) == 1 else 'edges lack'}"
    return f"{count} a node at an endpoint, for example {source} → {target} ({example})"


def list_edge_checks(snapshot: Snapshot) -> Iterator[tuple[EdgeType, Pins, int]]:
    """Yield each type with edges, the published versions that its result depends on, and the number of rows to read."""
    aliases = {node.id: node.alias for node in snapshot.schema.catalog.nodes}
    for edge in snapshot.schema.catalog.edges:
        names = dict.fromkeys((edge.alias, aliases[edge.source], aliases[edge.target]))
        tables = [snapshot.tables[name] for name in names]
        if tables[0].row_count:
            pins = tuple((table.id, table.pin) for table in tables)
            yield edge, pins, sum(table.row_count for table in tables)
