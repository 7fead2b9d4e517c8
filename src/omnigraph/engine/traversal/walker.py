"""Following the edges of one table from a set of nodes, in one of three ways that give the same pairs.

The way is chosen at every hop, from the frontier that is really there: adjacency when it is in memory or quickly made;
lookups by index for a small frontier; adjacency again for a large one, as long as it fits the cache; otherwise a scan
of the edge table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.base import limits
from omnigraph.engine.columns.dictionary import Array, Codes, ValueDictionary, distinct_numbers
from omnigraph.engine.columns.frame import DictionaryColumn, expand_ranges, positions_in
from omnigraph.engine.context import ExecutionContext
from omnigraph.engine.options import TraversalMode
from omnigraph.engine.tables import combine_chunks
from omnigraph.engine.traversal.adjacency import (
    Adjacency,
    Neighbours,
    PublishedTable,
    build_adjacency,
    read_adjacency,
)
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.types import Table
from omnigraph.schema.property_types import IndexKind

Traversal = op.Expand | op.ExpandInto | op.EdgeExpand | op.EdgeScan

_EDGE_BYTES: Final = 160
SIDES: Final = {
    op.Direction.OUT: (("src", "dst"),),
    op.Direction.IN: (("dst", "src"),),
    op.Direction.BOTH: (("src", "dst"), ("dst", "src")),
}


class Walker:
    """Follows the edges of a table in one direction."""

    def __init__(
        self, table: Table, direction: op.Direction, step: Traversal, context: ExecutionContext
    ) -> None:
        self.table = table
        self.direction = direction
        self.reader = context.tables.reader(table)
        self._step = step
        self._context = context
        self._adjacency: Adjacency | None = None
        self._is_repeated: bool | None = None

    def choose_mode(self, frontier: int) -> TraversalMode:
        """The way to follow the edges from so many nodes."""
        mode, reason = self._decide_mode(frontier)
        self._context.record_mode(self._step, mode.value, reason)
        return mode

    def estimate_mode(self, frontier: int) -> tuple[TraversalMode, str]:
        """The way that it would be, and why, without having been asked."""
        self._is_repeated = False
        return self._decide_mode(frontier)

    def adjacency(self) -> Adjacency:
        """The adjacency of the table, built if it is not in memory."""
        if self._adjacency is None:
            self._adjacency = load_adjacency(self.table, self._context)
        return self._adjacency

    def hop(self, frontier: DictionaryColumn) -> tuple[Codes, DictionaryColumn]:
        """For each node of the frontier its distinct neighbours: the place in the frontier, and the neighbour."""
        mode = self.choose_mode(len(frontier.codes))
        if mode is TraversalMode.ADJACENCY:
            adjacency = self.adjacency()
            codes = positions_in(adjacency.near(self.direction), frontier, self._context.cache)
            positions, far = expand_neighbours(adjacency.neighbours(self.direction), codes)
            return positions, DictionaryColumn(far, adjacency.far(self.direction))
        asked = ValueDictionary(frontier.array(), is_unique=True, is_own=True)
        places_found: list[Codes] = []
        ends: list[Array] = []
        size = 0
        for near, far_name in SIDES[self.direction]:
            for batch in self.read_edges(asked.array, (near, far_name), near, mode):
                positions = asked.find(batch.column(near))
                kept = np.flatnonzero(positions >= 0)
                places_found.append(positions[kept])
                ends.append(batch.column(far_name).take(pa.array(kept)))
                size += places_found[-1].nbytes + ends[-1].nbytes
                self._context.budget.require_bytes(size)
        return _distinct_pairs(places_found, ends)

    def read_neighbours(self, frontier: DictionaryColumn) -> DictionaryColumn:
        """The distinct neighbours of a frontier, by index, when it does not matter whose neighbours they are."""
        ends: list[Array] = []
        size = 0
        for near, far in SIDES[self.direction]:
            for batch in self.reader.read_matching((far,), near, frontier.array()):
                ends.append(batch.column(far))
                size += ends[-1].nbytes
                self._context.budget.require_bytes(size)
        return _distinct_pairs([np.zeros(len(found), dtype=np.int64) for found in ends], ends)[1]

    def read_edges(
        self, texts: Array, columns: Sequence[str], near: str, mode: TraversalMode
    ) -> Iterator[pa.RecordBatch]:
        """The edges at these nodes, from storage; a scan gives other edges as well."""
        names = tuple(dict.fromkeys(columns))
        if mode is TraversalMode.INDEXED:
            return self.reader.read_matching(names, near, texts)
        return self.reader.read_batches(names, None)

    def _decide_mode(self, frontier: int) -> tuple[TraversalMode, str]:
        forced = self._context.options.mode
        if forced is not None:
            return forced, "as asked"
        rows = self.reader.row_count
        if self._adjacency or self._context.cache.get((self.reader.key, "adjacency"), Adjacency):
            return TraversalMode.ADJACENCY, "in memory"
        if rows <= limits.ENGINE_EAGER_ROWS_MAX:
            return TraversalMode.ADJACENCY, "few edges"
        fits = rows * _EDGE_BYTES <= self._context.cache.bytes_max // limits.ENGINE_CACHE_COLUMN_PART * 2
        if frontier <= limits.ENGINE_INDEXED_FRONTIER_MAX and self._is_indexed():
            if self._is_repeated is None:
                touched = self._context.cache.touch((self.reader.key, "hop"))
                self._is_repeated = touched >= limits.ENGINE_TOUCHES_MIN
            if not (self._is_repeated and fits):
                return TraversalMode.INDEXED, f"from {_nodes(frontier)}"
        if fits:
            return TraversalMode.ADJACENCY, f"from {_nodes(frontier)}"
        return TraversalMode.EDGE_SCAN, f"from {_nodes(frontier)}, and {rows:,} edges are too many to keep"

    def _is_indexed(self) -> bool:
        facts = self.reader.facts()
        return all(facts.index(near, IndexKind.BTREE) for near, _ in SIDES[self.direction])


def _nodes(count: int) -> str:
    return f"{count:,} node{'' if count == 1 else 's'}"


def load_adjacency(table: Table, context: ExecutionContext) -> Adjacency:
    """The adjacency of an edge table: from the cache, as it was persisted, or built now."""
    reader = context.tables.reader(table)
    known = context.cache.get((reader.key, "adjacency"), Adjacency)
    if known is not None:
        return known
    is_small = reader.row_count <= limits.ENGINE_EAGER_ROWS_MAX
    found = None if is_small else read_adjacency(reader.root, PublishedTable(reader.record, reader.dataset()))
    if found is None:
        batches: list[pa.RecordBatch] = []
        size = 0
        for batch in reader.read_batches(("src", "dst"), None):
            batches.append(batch)
            size += batch.nbytes
            context.budget.require_bytes(size)
        sources, targets = (
            combine_chunks(pa.chunked_array([batch.column(name) for batch in batches], pa.utf8()))
            for name in ("src", "dst")
        )
        found = build_adjacency(sources, targets, same_type=context.tables.connects_same_type(table))
    context.cache.put((reader.key, "adjacency"), found, found.nbytes)
    return found


def expand_neighbours(neighbours: Neighbours, codes: Codes) -> tuple[Codes, Codes]:
    """For each position its neighbours: the place of the position among the codes, and the neighbour."""
    positions, at = expand_ranges(neighbours.starts, codes)
    return positions, neighbours.far[at].astype(np.int64)


def _distinct_pairs(positions: list[Codes], ends: list[Array]) -> tuple[Codes, DictionaryColumn]:
    if not ends:
        nothing: Any = pa.array([], pa.utf8())
        empty = np.zeros(0, dtype=np.int64)
        return empty, DictionaryColumn(empty, ValueDictionary(nothing, is_unique=True, is_own=True))
    encoded: Any = pa.chunked_array(ends, type=pa.utf8()).dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    size = max(len(encoded.dictionary), 1)
    pairs = distinct_numbers(np.concatenate(positions) * size + codes)
    dictionary = ValueDictionary(encoded.dictionary, is_unique=True, is_own=True)
    return pairs // size, DictionaryColumn(pairs % size, dictionary)
