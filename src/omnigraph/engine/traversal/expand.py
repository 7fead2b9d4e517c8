"""Traversals without a bound edge: every reachable node once per row, or the rows whose two ends are so connected.

Where nothing above needs more of a row than the node it ends at, equal rows are counted instead of kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.base import limits
from omnigraph.engine.columns.dictionary import Codes, Mask, ValueDictionary, compact_codes, distinct_numbers
from omnigraph.engine.columns.frame import (
    Column,
    DictionaryColumn,
    Frame,
    Weights,
    count_codes,
    distinct_sources,
    multiply_weights,
    output_slices,
    positions_in,
    range_counts,
)
from omnigraph.engine.context import ExecutionContext, RequiredColumns
from omnigraph.engine.options import TraversalMode
from omnigraph.engine.traversal.adjacency import Adjacency, Neighbours
from omnigraph.engine.traversal.walker import Walker, expand_neighbours
from omnigraph.query.plan import operators as op

_STRIDE = np.int64(2**31)


@dataclass(frozen=True, slots=True)
class ReachedPairs:
    """Pairs of a source, by its place among those asked for, and a destination. `stop` sources are done."""

    positions: Codes
    targets: DictionaryColumn
    start: int
    stop: int


def reachable_pairs(
    walker: Walker, sources: DictionaryColumn, bounds: tuple[int, int], context: ExecutionContext
) -> Iterator[ReachedPairs]:
    """The pairs of distinct sources and their destinations, some sources at a time, ordered by source."""
    if not len(sources.codes):
        return
    if walker.choose_mode(len(sources.codes)) is not TraversalMode.ADJACENCY:
        positions, targets = _reach_by_storage(walker, sources, bounds, context)
        yield ReachedPairs(positions, targets, 0, len(sources.codes))
        return
    adjacency = walker.adjacency()
    neighbours = adjacency.neighbours(walker.direction)
    near, far = adjacency.near(walker.direction), adjacency.far(walker.direction)
    codes = positions_in(near, sources, context.cache)
    high = bounds[1] if near is far else 1
    step = len(codes) if high == 1 else max(1, limits.ENGINE_REACH_CELLS_MAX // max(len(far), 1))
    for start in range(0, len(codes), step):
        context.budget.require_time()
        part = codes[start : start + step]
        pairs = _reach_by_adjacency(neighbours, part, (bounds[0], high), len(far), context)
        yield ReachedPairs(pairs[0] + start, DictionaryColumn(pairs[1], far), start, start + len(part))


def _reach_by_adjacency(
    neighbours: Neighbours, codes: Codes, bounds: tuple[int, int], size: int, context: ExecutionContext
) -> tuple[Codes, Codes]:
    low, high = bounds
    positions, far = expand_neighbours(neighbours, codes)
    if high == 1:
        return (positions, far) if low == 1 else (positions[:0], far[:0])
    seen = _VisitedPairs(len(codes), size)
    known = codes >= 0
    seen.add(np.flatnonzero(known) * size + codes[known])
    found = []
    if low == 1:
        loops = far == codes[positions]
        found.append(positions[loops] * size + far[loops])
    frontier = seen.add_new(positions * size + far)
    for distance in range(1, high + 1):
        context.budget.require_time()
        if distance >= low:
            found.append(frontier)
        if distance == high or not len(frontier):
            break
        at, far = expand_neighbours(neighbours, frontier % size)
        context.budget.require_bytes(far.nbytes * 3 + sum(part.nbytes for part in found))
        frontier = seen.add_new(frontier[at] // size * size + far)
    pairs = np.concatenate(found) if found else positions[:0]
    if len(found) > 1:
        pairs.sort()
    return pairs // size, pairs % size


class _VisitedPairs:
    """Which pairs were met: one cell for each."""

    def __init__(self, sources: int, size: int) -> None:
        self._cells = np.zeros(sources * size, dtype=np.bool_)

    def add(self, pairs: Codes) -> None:
        self._cells[pairs] = True

    def add_new(self, pairs: Codes) -> Codes:
        """The pairs that were not met before, each once, sorted; they are met now."""
        if len(pairs) * 8 < len(self._cells):
            new = distinct_numbers(pairs[~self._cells[pairs]])
            self._cells[new] = True
            return new
        marked: Mask = np.zeros(len(self._cells), dtype=np.bool_)
        marked[pairs] = True
        marked &= ~self._cells
        self._cells |= marked
        return np.flatnonzero(marked)


def _reach_by_storage(
    walker: Walker, sources: DictionaryColumn, bounds: tuple[int, int], context: ExecutionContext
) -> tuple[Codes, DictionaryColumn]:
    low, high = bounds
    known = ValueDictionary(sources.array(), is_unique=True, is_own=True)
    start = np.arange(len(known))
    positions, targets = walker.hop(DictionaryColumn(start, known))
    connects_same_type = context.tables.connects_same_type(walker.table)
    if high == 1 or not connects_same_type:
        kept = slice(None) if low == 1 else slice(0, 0)
        return positions[kept], DictionaryColumn(targets.codes[kept], targets.dictionary)
    known, far = _extend(known, targets)
    seen = start * _STRIDE + start
    pairs = positions * _STRIDE + far
    found = [pairs[positions == far]] if low == 1 else []
    frontier = _unvisited(pairs, seen)
    for distance in range(1, high + 1):
        if distance >= low:
            found.append(frontier)
        if distance == high or not len(frontier):
            break
        context.budget.require_time()
        seen = np.sort(np.concatenate([seen, frontier]))
        nodes, inverse = compact_codes(frontier % _STRIDE, len(known))
        if len(start) == 1 and walker.choose_mode(len(nodes)) is TraversalMode.INDEXED:
            known, pairs = _extend(known, walker.read_neighbours(DictionaryColumn(nodes, known)))
        else:
            at, targets = walker.hop(DictionaryColumn(nodes, known))
            known, far = _extend(known, targets)
            pairs = _join_on_nodes(frontier // _STRIDE, inverse, at, far)
        context.budget.require_bytes(2 * (pairs.nbytes + seen.nbytes) + int(known.array.nbytes))
        frontier = _unvisited(pairs, seen)
    every = distinct_numbers(np.concatenate(found)) if found else seen[:0]
    return every // _STRIDE, DictionaryColumn(every % _STRIDE, known)


def _unvisited(pairs: Codes, seen: Codes) -> Codes:
    """The distinct pairs that are not among those seen, which are sorted and never none."""
    new = distinct_numbers(pairs)
    at = np.minimum(np.searchsorted(seen, new), len(seen) - 1)
    fresh: Codes = new[seen[at] != new]
    return fresh


def _join_on_nodes(positions: Codes, nodes: Codes, at: Codes, far: Codes) -> Codes:
    """Pairs of the sources at each node and the neighbours of that node; `at` is sorted."""
    starts = (
        np.searchsorted(at, np.arange(int(nodes.max()) + 2)) if len(nodes) else np.zeros(1, dtype=np.int64)
    )
    neighbours = Neighbours(starts, far.astype(np.int32), 0)
    rows, reached = expand_neighbours(neighbours, nodes)
    return positions[rows] * _STRIDE + reached


def _extend(known: ValueDictionary, targets: DictionaryColumn) -> tuple[ValueDictionary, Codes]:
    """The known texts with the new ones after them, and the positions of the targets there."""
    used, inverse = compact_codes(targets.codes, len(targets.dictionary))
    texts = DictionaryColumn(used, targets.dictionary).array()
    codes = known.find(texts)
    new = np.flatnonzero(codes < 0)
    if len(new):
        codes[new] = len(known) + np.arange(len(new))
        joined = pa.concat_arrays([known.array, texts.take(pa.array(new))])
        known = ValueDictionary(joined, is_unique=True, is_own=True)
    return known, codes[inverse]


def expand_rows(step: op.Expand, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """For each row every node that is reachable from its source, once."""
    target = step.target.id
    live = needed - {target}
    below = live | {step.source.id}
    walker = Walker(step.table, step.direction, step, context)
    for given in context.rows(step.input, below):
        frame = given.select(below)
        if not frame.length:
            continue
        if step.high == 1 and walker.choose_mode(frame.length) is TraversalMode.ADJACENCY:
            yield from _expand_one_hop(step, frame, needed, walker.adjacency(), context)
        else:
            yield from _expand_by_reach(step, frame, live, walker, context)


def filter_connected(
    step: op.ExpandInto, needed: RequiredColumns, context: ExecutionContext
) -> Iterator[Frame]:
    """The rows whose target is reachable from their source."""
    walker = Walker(step.table, step.direction, step, context)
    for frame in context.rows(step.input, needed | {step.source.id, step.target.id}):
        near, far = frame.columns[step.source.id], frame.columns[step.target.id]
        if step.high == 1 and walker.choose_mode(frame.length) is TraversalMode.ADJACENCY:
            adjacency = walker.adjacency()
            kept = adjacency.neighbours(step.direction).contains(
                positions_in(adjacency.near(step.direction), near, context.cache),
                positions_in(adjacency.far(step.direction), far, context.cache),
            )
        else:
            kept = _connected_mask(step, (near, far), walker, context)
        rows = frame.filter(kept)
        if rows.length:
            yield rows


def _expand_one_hop(
    step: op.Expand, frame: Frame, needed: RequiredColumns, adjacency: Adjacency, context: ExecutionContext
) -> Iterator[Frame]:
    live = needed - {step.target.id}
    neighbours = adjacency.neighbours(step.direction)
    near, far = adjacency.near(step.direction), adjacency.far(step.direction)
    codes = positions_in(near, frame.columns[step.source.id], context.cache)
    if len(neighbours.starts) < 2:
        return
    if not live:
        present = codes >= 0
        weights = None if frame.weights is None else frame.weights[present]
        codes, counts = count_codes(codes[present], weights, len(near))
        if step.target.id not in needed:
            yield from _count_paths(counts, neighbours.degrees[codes])
            return
        if len(codes) == len(near) and len(codes) and (counts == counts[0]).all():
            # From every node equally often: each destination counts its own edges.
            degrees = adjacency.neighbours(step.direction.reversed).degrees
            there = np.flatnonzero(degrees)
            yield _weighted_frame(step, there, multiply_weights(degrees[there], counts[:1]), far)
            return
        frame = Frame(len(codes), {}, counts)
    _, sizes = range_counts(neighbours.starts, codes)
    for start, stop in output_slices(sizes, context.options.expanded_rows_max):
        context.budget.require_time()
        positions, targets = expand_neighbours(neighbours, codes[start:stop])
        part = frame.slice(start, stop)
        if live:
            context.budget.require_bytes(8 * len(positions) * (len(live) + 2))
            yield part.take(positions).with_columns({step.target.id: DictionaryColumn(targets, far)})
        else:
            assert part.weights is not None
            kept, counts = count_codes(targets, part.weights[positions], len(far))
            yield _weighted_frame(step, kept, counts, far)


def _count_paths(counts: Weights, degrees: Codes) -> Iterator[Frame]:
    """So many rows without columns as there are paths: nobody needs to know where they end."""
    rows = multiply_weights(counts, degrees)
    _, total = count_codes(np.zeros(len(rows), dtype=np.int64), rows, 1)
    if len(total) and total[0]:
        yield Frame(1, {}, total)


def _weighted_frame(step: op.Expand, targets: Codes, counts: Weights, dictionary: ValueDictionary) -> Frame:
    return Frame(len(targets), {step.target.id: DictionaryColumn(targets, dictionary)}, counts)


def _expand_by_reach(
    step: op.Expand, frame: Frame, live: RequiredColumns, walker: Walker, context: ExecutionContext
) -> Iterator[Frame]:
    sources, numbers = distinct_sources(frame.columns[step.source.id])
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    for found in reachable_pairs(walker, sources, (step.low, step.high), context):
        first, last = np.searchsorted(ordered, [found.start, found.stop])
        rows = order[first:last]
        # The pairs of each source lie beside each other; every row of a source gets all of them.
        starts = np.searchsorted(found.positions, np.arange(found.start, found.stop + 1))
        local = numbers[rows] - found.start
        counts = starts[local + 1] - starts[local]
        for begin, end in output_slices(counts, context.options.expanded_rows_max):
            part, size = rows[begin:end], counts[begin:end]
            context.budget.require_bytes(8 * int(size.sum()) * (len(live) + 2))
            positions = np.repeat(np.arange(len(part)), size)
            before = np.cumsum(size) - size
            at = np.arange(len(positions)) + np.repeat(starts[local[begin:end]] - before, size)
            targets = found.targets.take(at)
            if live:
                yield frame.take(part[positions]).with_columns({step.target.id: targets})
            else:
                weights = None if frame.weights is None else frame.weights[part[positions]]
                yield Frame(len(at), {step.target.id: targets}, weights)


def _connected_mask(
    step: op.ExpandInto, ends: tuple[Column, Column], walker: Walker, context: ExecutionContext
) -> Mask:
    sources, numbers = distinct_sources(ends[0])
    kept = np.zeros(len(numbers), dtype=np.bool_)
    for found in reachable_pairs(walker, sources, (step.low, step.high), context):
        rows = np.flatnonzero((numbers >= found.start) & (numbers < found.stop))
        if not len(rows) or not len(found.positions):
            continue
        column = ends[1]
        part = column.take(rows) if isinstance(column, DictionaryColumn) else column.take(pa.array(rows))
        far = positions_in(found.targets.dictionary, part, context.cache)
        size = max(len(found.targets.dictionary), 1)
        pairs = np.sort(found.positions * size + found.targets.codes)
        asked = numbers[rows] * size + far
        at = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
        kept[rows] = (pairs[at] == asked) & (far >= 0)
    return kept
