"""Persists the adjacency of edge tables below `__graph_index/`, where queries find it.

In: a snapshot. Out: one object per edge table version that has none yet; nothing of the graph refers to it, readers
verify it, and what is missing is built in memory. So a failure is only a warning. Older ones are cleanup's business.
"""

from __future__ import annotations

import logging

from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.events import log_event
from omnigraph.engine.adjacency import build_adjacency
from omnigraph.engine.adjacency_file import PublishedTable, adjacency_path, write_adjacency
from omnigraph.engine.tables import one_array
from omnigraph.graph.layout import GRAPH_INDEX
from omnigraph.graph.snapshot import Snapshot
from omnigraph.graph.tables import open_table
from omnigraph.schema import EdgeType
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.optimize")


def persist_adjacencies(snapshot: Snapshot, types: frozenset[str] | None) -> int:
    """Write what is missing for the edge types, by name or alias (None: all); how many were written."""
    try:
        there = {entry.path for entry in ObjectStore(snapshot.root).list(GRAPH_INDEX)}
    except OmnigraphError as error:
        logger.warning("the persisted adjacencies cannot be listed: %s", error.message)
        return 0
    edges = [
        edge for edge in snapshot.schema.catalog.edges if types is None or types & {edge.name, edge.alias}
    ]
    return sum(_persist(snapshot, edge, there) for edge in edges)


def _persist(snapshot: Snapshot, edge: EdgeType, there: set[str]) -> bool:
    record = snapshot.tables[edge.alias]
    if adjacency_path(record) in there or not 0 < record.row_count <= limits.ADJACENCY_EDGES_MAX:
        return False
    pin = record.pin
    try:
        dataset = open_table(snapshot.root, record)
        ends = dataset.read(["src", "dst"])
        sources, targets = one_array(ends.column("src")), one_array(ends.column("dst"))
        adjacency = build_adjacency(sources, targets, one_type=edge.source == edge.target)
        written = write_adjacency(snapshot.root, PublishedTable(record, dataset), adjacency)
    except OmnigraphError as error:
        logger.warning("the adjacency of %s is not persisted: %s", edge.alias, error.message)
        return False
    sentence = f"persisted the adjacency of {edge.alias} at version {pin.version}"
    log_event(logger, sentence, table=edge.alias, version=pin.version)
    return written
