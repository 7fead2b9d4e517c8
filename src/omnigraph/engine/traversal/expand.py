"""Traversals that do not return the edge: `Expand` (the reachable nodes) and `ExpandInto` (are two nodes connected?).

In: frames with the ids of sources. Out: for each row each reachable node once, or the rows whose target is reachable.
If no later step needs another column than the target, equal rows become one row with a weight. Nothing is written.
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


def expand_rows(step: op.Expand, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return for each row each node that is reachable from its source, once."""
    target = step.target.id
    live = needed - {target}
    below = live | {step.source.id}
    walker = Walker(step, context)
    for input_frame in context.rows(step.input, below):
        frame = input_frame.select(below)
        if not frame.length:
            continue
        if step.high == 1 and walker.choose_mode(frame.length) is TraversalMode.ADJACENCY:
            yield from _expand_one_hop(step, frame, needed, walker.adjacency(), context)
        else:
            yield from _expand_by_reach(step, frame, live, walker, context)


def filter_connected(step: op.ExpandInto, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return the rows whose target is reachable from their source."""
    walker = Walker(step, context)
    for frame in context.rows(step.input, needed | {step.source.id, step.target.id}):
        near, far = frame.columns[step.source.id], frame.columns[step.target.id]
        if step.high == 1 and walker.choose_mode(frame.length) is TraversalMode.ADJACENCY:
            adjacency = walker.adjacency()
            mask = adjacency.neighbours(step.direction).contains(
                positions_in(adjacency.near(step.direction), near, context.cache),
                positions_in(adjacency.far(step.direction), far, context.cache),
            )
        else:
            mask = _connected_mask(step, (near, far), walker, context)
        connected = frame.filter(mask)
        if connected.length:
            yield connected


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
            # All nodes are sources with the same weight: the weight of a target follows from its degree.
            degrees = adjacency.neighbours(step.direction.reversed).degrees
            targets = np.flatnonzero(degrees)
            yield _weighted_frame(step, targets, multiply_weights(degrees[targets], counts[:1]), far)
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
            targets, counts = count_codes(targets, part.weights[positions], len(far))
            yield _weighted_frame(step, targets, counts, far)


def _count_paths(counts: Weights, degrees: Codes) -> Iterator[Frame]:
    """Return one row without columns whose weight is the number of paths."""
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
    for pairs in _reachable_pairs(walker, sources, (step.low, step.high), context):
        first, last = np.searchsorted(ordered, [pairs.start, pairs.stop])
        rows = order[first:last]
        # The pairs of a source are adjacent; each row of the source gets all of them.
        starts = np.searchsorted(pairs.positions, np.arange(pairs.start, pairs.stop + 1))
        local = numbers[rows] - pairs.start
        counts = starts[local + 1] - starts[local]
        for begin, end in output_slices(counts, context.options.expanded_rows_max):
            part, size = rows[begin:end], counts[begin:end]
            context.budget.require_bytes(8 * int(size.sum()) * (len(live) + 2))
            positions = np.repeat(np.arange(len(part)), size)
            before = np.cumsum(size) - size
            indices = np.arange(len(positions)) + np.repeat(starts[local[begin:end]] - before, size)
            targets = pairs.targets.take(indices)
            if live:
                yield frame.take(part[positions]).with_columns({step.target.id: targets})
            else:
                weights = None if frame.weights is None else frame.weights[part[positions]]
                yield Frame(len(indices), {step.target.id: targets}, weights)


def _connected_mask(
    step: op.ExpandInto, endpoints: tuple[Column, Column], walker: Walker, context: ExecutionContext
) -> Mask:
    sources, numbers = distinct_sources(endpoints[0])
    mask = np.zeros(len(numbers), dtype=np.bool_)
    for reached in _reachable_pairs(walker, sources, (step.low, step.high), context):
        rows = np.flatnonzero((numbers >= reached.start) & (numbers < reached.stop))
        if not len(rows) or not len(reached.positions):
            continue
        column = endpoints[1]
        part = column.take(rows) if isinstance(column, DictionaryColumn) else column.take(pa.array(rows))
        far = positions_in(reached.targets.dictionary, part, context.cache)
        size = max(len(reached.targets.dictionary), 1)
        pairs = np.sort(reached.positions * size + reached.targets.codes)
        row_pairs = numbers[rows] * size + far
        slots = np.minimum(np.searchsorted(pairs, row_pairs), len(pairs) - 1)
        mask[rows] = (pairs[slots] == row_pairs) & (far >= 0)
    return mask


@dataclass(frozen=True, slots=True)
class _ReachedPairs:
    """Pairs of a source, as its position among all sources, and a target, for the sources from `start` up to `stop`."""

    positions: Codes
    targets: DictionaryColumn
    start: int
    stop: int


def _reachable_pairs(
    walker: Walker, sources: DictionaryColumn, bounds: tuple[int, int], context: ExecutionContext
) -> Iterator[_ReachedPairs]:
    """Yield the distinct pairs of sources and reachable targets, ordered by source, for some sources at a time."""
    if not len(sources.codes):
        return
    if walker.choose_mode(len(sources.codes)) is not TraversalMode.ADJACENCY:
        positions, targets = _reach_by_storage(walker, sources, bounds, context)
        yield _ReachedPairs(positions, targets, 0, len(sources.codes))
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
        yield _ReachedPairs(pairs[0] + start, DictionaryColumn(pairs[1], far), start, start + len(part))


def _reach_by_adjacency(
    neighbours: Neighbours, codes: Codes, bounds: tuple[int, int], size: int, context: ExecutionContext
) -> tuple[Codes, Codes]:
    low, high = bounds
    positions, far = expand_neighbours(neighbours, codes)
    if high == 1:
        return (positions, far) if low == 1 else (positions[:0], far[:0])
    visited = _VisitedPairs(len(codes), size)
    is_valid = codes >= 0
    visited.add(np.flatnonzero(is_valid) * size + codes[is_valid])
    reached = []
    if low == 1:
        loops = far == codes[positions]
        reached.append(positions[loops] * size + far[loops])
    frontier = visited.add_new(positions * size + far)
    for distance in range(1, high + 1):
        context.budget.require_time()
        if distance >= low:
            reached.append(frontier)
        if distance == high or not len(frontier):
            break
        positions, far = expand_neighbours(neighbours, frontier % size)
        context.budget.require_bytes(far.nbytes * 3 + sum(part.nbytes for part in reached))
        frontier = visited.add_new(frontier[positions] // size * size + far)
    pairs = np.concatenate(reached) if reached else positions[:0]
    if len(reached) > 1:
        pairs.sort()
    return pairs // size, pairs % size


class _VisitedPairs:
    """The visited pairs, one cell for each possible pair."""

    def __init__(self, sources: int, size: int) -> None:
        self._cells = np.zeros(sources * size, dtype=np.bool_)

    def add(self, pairs: Codes) -> None:
        self._cells[pairs] = True

    def add_new(self, pairs: Codes) -> Codes:
        """Add pairs; return those that are new, distinct and sorted."""
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
    ids = ValueDictionary(sources.array(), is_unique=True, is_own=True)
    start = np.arange(len(ids))
    positions, targets = walker.hop(DictionaryColumn(start, ids))
    if high == 1 or not context.connects_same_type(walker.table):
        part = slice(None) if low == 1 else slice(0, 0)
        return positions[part], DictionaryColumn(targets.codes[part], targets.dictionary)
    ids, far = _extend(ids, targets)
    visited = start * _STRIDE + start
    pairs = positions * _STRIDE + far
    reached = [pairs[positions == far]] if low == 1 else []
    frontier = _unvisited(pairs, visited)
    for distance in range(1, high + 1):
        if distance >= low:
            reached.append(frontier)
        if distance == high or not len(frontier):
            break
        context.budget.require_time()
        visited = np.sort(np.concatenate([visited, frontier]))
        nodes, inverse = compact_codes(frontier % _STRIDE, len(ids))
        if len(start) == 1 and walker.choose_mode(len(nodes)) is TraversalMode.INDEXED:
            ids, pairs = _extend(ids, walker.read_neighbours(DictionaryColumn(nodes, ids)))
        else:
            positions, targets = walker.hop(DictionaryColumn(nodes, ids))
            ids, far = _extend(ids, targets)
            pairs = _join_on_nodes(frontier // _STRIDE, inverse, positions, far)
        context.budget.require_bytes(2 * (pairs.nbytes + visited.nbytes) + int(ids.array.nbytes))
        frontier = _unvisited(pairs, visited)
    pairs = distinct_numbers(np.concatenate(reached)) if reached else visited[:0]
    return pairs // _STRIDE, DictionaryColumn(pairs % _STRIDE, ids)


def _unvisited(pairs: Codes, visited: Codes) -> Codes:
    """Return the distinct pairs that are not in `visited`, which is sorted and not empty."""
    distinct = distinct_numbers(pairs)
    slots = np.minimum(np.searchsorted(visited, distinct), len(visited) - 1)
    unvisited: Codes = distinct[visited[slots] != distinct]
    return unvisited


def _join_on_nodes(sources: Codes, nodes: Codes, far_nodes: Codes, far: Codes) -> Codes:
    """Return the pairs of the sources at each node and the neighbours of that node; `far_nodes` is sorted."""
    bounds = np.arange(int(nodes.max()) + 2) if len(nodes) else None
    starts = np.zeros(1, dtype=np.int64) if bounds is None else np.searchsorted(far_nodes, bounds)
    rows, reached = expand_neighbours(Neighbours(starts, far.astype(np.int32), 0), nodes)
    return sources[rows] * _STRIDE + reached


def _extend(ids: ValueDictionary, targets: DictionaryColumn) -> tuple[ValueDictionary, Codes]:
    """Return the ids followed by those of new targets, and the codes of the targets in them."""
    used, inverse = compact_codes(targets.codes, len(targets.dictionary))
    texts = DictionaryColumn(used, targets.dictionary).array()
    codes = ids.find(texts)
    new = np.flatnonzero(codes < 0)
    if len(new):
        codes[new] = len(ids) + np.arange(len(new))
        extended = pa.concat_arrays([ids.array, texts.take(pa.array(new))])
        ids = ValueDictionary(extended, is_unique=True, is_own=True)
    return ids, codes[inverse]
