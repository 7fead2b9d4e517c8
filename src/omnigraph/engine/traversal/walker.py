"""Follows edges from a set of nodes, in one of three modes that return the same pairs.

The edges are those of one table, or of several tables that connect the same types. The mode is chosen at each hop, from
the actual size of the frontier: adjacency if it is in memory or quickly built; lookups by index for a small frontier;
adjacency for a large frontier if it fits the cache; otherwise a scan of the edge tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.base import limits
from omnigraph.base.display import format_count
from omnigraph.engine.columns.dictionary import Array, Codes, ValueDictionary, distinct_numbers, encode_values
from omnigraph.engine.columns.frame import DictionaryColumn, expand_ranges, positions_in
from omnigraph.engine.context import ExecutionContext
from omnigraph.engine.options import TraversalMode
from omnigraph.engine.traversal.adjacency import Adjacency, Neighbours, build_adjacency, read_adjacency
from omnigraph.query.plan import operators as op
from omnigraph.schema.property_types import IndexKind

Traversal = op.Expand | op.ExpandInto | op.EdgeExpand | op.EdgeScan

_EDGE_BYTES: Final = 160
SIDES: Final = {
    op.Direction.OUT: (("src", "dst"),),
    op.Direction.IN: (("dst", "src"),),
    op.Direction.BOTH: (("src", "dst"), ("dst", "src")),
}


class Walker:
    """Follows the edges of an operator's tables in the direction of the operator."""

    def __init__(self, operator: Traversal, context: ExecutionContext) -> None:
        self.table = operator.table if isinstance(operator, op.Expand | op.ExpandInto) else operator.edge.table
        if isinstance(operator, op.EdgeScan):
            self.direction = op.Direction.BOTH if operator.undirected else op.Direction.OUT
        else:
            self.direction = operator.direction
        self.reader = context.reader(self.table)
        more = operator.more if isinstance(operator, op.Expand | op.ExpandInto) else ()
        self._readers = (self.reader, *(context.reader(table) for table in more))
        self._more_keys = tuple(reader.key for reader in self._readers[1:])
        self._operator = operator
        self._context = context
        self._adjacency: Adjacency | None = None
        self._is_repeated: bool | None = None

    def choose_mode(self, frontier: int) -> TraversalMode:
        """Return the mode for a frontier of this size, and record it in the trace."""
        mode, reason = self._decide_mode(frontier)
        self._context.record_mode(self._operator, mode.value, reason)
        return mode

    def estimate_mode(self, frontier: int) -> tuple[TraversalMode, str]:
        """Return the mode that a first request would use, and the reason."""
        self._is_repeated = False
        return self._decide_mode(frontier)

    def adjacency(self) -> Adjacency:
        """Return the adjacency of the table from the cache or its file, or build it; cache it."""
        key, cache = (self.reader.key, "adjacency", self._more_keys), self._context.cache
        adjacency = self._adjacency or cache.get(key, Adjacency)
        if adjacency is None:
            if len(self._readers) == 1 and self.reader.row_count > limits.ENGINE_EAGER_ROWS_MAX:
                adjacency = read_adjacency(self.reader.root, self.reader.record, self.reader.dataset())
            if adjacency is None:
                adjacency = self._build_adjacency()
            cache.put(key, adjacency, adjacency.nbytes)
        self._adjacency = adjacency
        return adjacency

    def hop(self, frontier: DictionaryColumn) -> tuple[Codes, DictionaryColumn]:
        """Return the distinct neighbours of each node: positions of nodes in the frontier, and the neighbours."""
        mode = self.choose_mode(len(frontier.codes))
        if mode is TraversalMode.ADJACENCY:
            adjacency = self.adjacency()
            codes = positions_in(adjacency.near(self.direction), frontier, self._context.cache)
            positions, far = expand_neighbours(adjacency.neighbours(self.direction), codes)
            return positions, DictionaryColumn(far, adjacency.far(self.direction))
        nodes = ValueDictionary(frontier.array(), is_unique=True, is_per_query=True)
        position_parts: list[Codes] = []
        far_parts: list[Array] = []
        size = 0
        for near, far_name in SIDES[self.direction]:
            for batch in self.read_edges(nodes.array, (near, far_name), near, mode):
                positions = nodes.find(batch.column(near))
                rows = np.flatnonzero(positions >= 0)
                position_parts.append(positions[rows])
                far_parts.append(batch.column(far_name).take(pa.array(rows)))
                size += position_parts[-1].nbytes + far_parts[-1].nbytes
                self._context.budget.require_bytes(size)
        return _distinct_pairs(position_parts, far_parts)

    def read_neighbours(self, frontier: DictionaryColumn) -> DictionaryColumn:
        """Read the distinct neighbours of all nodes of a frontier together, by index."""
        texts = frontier.array()
        far_parts = self._context.budget.collect(
            batch.column(far)
            for near, far in SIDES[self.direction]
            for reader in self._readers
            for batch in reader.read_matching((far,), near, texts)
        )
        return _distinct_pairs([np.zeros(len(part), dtype=np.int64) for part in far_parts], far_parts)[1]

    def read_edges(
        self, texts: Array, columns: Sequence[str], near: str, mode: TraversalMode
    ) -> Iterator[pa.RecordBatch]:
        """Read the edges at these nodes from storage; a scan also returns other edges."""
        names = tuple(dict.fromkeys(columns))
        for reader in self._readers:
            if mode is TraversalMode.INDEXED:
                yield from reader.read_matching(names, near, texts)
            else:
                yield from reader.read_batches(names, None)

    def _build_adjacency(self) -> Adjacency:
        batches = self._context.budget.collect(
            batch for reader in self._readers for batch in reader.read_batches(("src", "dst"), None)
        )
        sources, targets = (
            pa.chunked_array([batch.column(name) for batch in batches], pa.utf8()).combine_chunks()
            for name in ("src", "dst")
        )
        return build_adjacency(sources, targets, same_type=self._context.connects_same_type(self.table))

    def _decide_mode(self, frontier: int) -> tuple[TraversalMode, str]:
        forced = self._context.options.mode
        if forced is not None:
            return forced, "forced"
        rows = sum(reader.row_count for reader in self._readers)
        if self._adjacency or self._context.cache.get((self.reader.key, "adjacency", self._more_keys), Adjacency):
            return TraversalMode.ADJACENCY, "in memory"
        if rows <= limits.ENGINE_EAGER_ROWS_MAX:
            return TraversalMode.ADJACENCY, "few edges"
        fits = rows * _EDGE_BYTES <= self._context.cache.bytes_max // limits.ENGINE_CACHE_COLUMN_PART * 2
        if frontier <= limits.ENGINE_INDEXED_FRONTIER_MAX and self._is_indexed():
            if self._is_repeated is None:
                touched = self._context.cache.touch((self.reader.key, "hop", self._more_keys))
                self._is_repeated = touched >= limits.ENGINE_TOUCHES_MIN
            if not (self._is_repeated and fits):
                return TraversalMode.INDEXED, f"from {format_count(frontier, 'node')}"
        if fits:
            return TraversalMode.ADJACENCY, f"from {format_count(frontier, 'node')}"
        return (
            TraversalMode.EDGE_SCAN,
            f"from {format_count(frontier, 'node')}, and {format_count(rows, 'edge')} do not fit into the cache",
        )

    def _is_indexed(self) -> bool:
        return all(
            reader.facts().index(near, IndexKind.BTREE) for reader in self._readers for near, _ in SIDES[self.direction]
        )


def expand_neighbours(neighbours: Neighbours, codes: Codes) -> tuple[Codes, Codes]:
    """Return the neighbours of each node: the positions of the nodes among the codes, and the neighbours."""
    positions, indices = expand_ranges(neighbours.starts, codes)
    return positions, neighbours.far[indices].astype(np.int64)


def _distinct_pairs(positions: list[Codes], far: list[Array]) -> tuple[Codes, DictionaryColumn]:
    codes, dictionary = encode_values(pa.chunked_array(far, type=pa.utf8()), is_per_query=True)
    size = max(len(dictionary), 1)
    pairs = distinct_numbers(np.concatenate([codes[:0], *positions]) * size + codes)
    return pairs // size, DictionaryColumn(pairs % size, dictionary)
