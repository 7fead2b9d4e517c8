"""Traversals that do not return the edge: `Expand` (the reachable nodes) and `ExpandInto` (are two nodes connected?).

In: frames with the ids of sources. Out: for each row each reachable node once, or the rows whose target is reachable.
If no later operator needs another column than the target, equal rows become one row with a weight. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.base import limits
from omnigraph.engine.columns.dictionary import Codes, Mask, ValueDictionary, compact_codes, distinct_numbers, in_sorted
from omnigraph.engine.columns.frame import (
    Column,
    DictionaryColumn,
    Frame,
    Weights,
    count_codes,
    distinct_values,
    expand_ranges,
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
from omnigraph.query.plan.expressions import names

_STRIDE = np.int64(2**31)
"""A pair of a source and a node is the number `source * _STRIDE + node`."""


def expand_rows(operator: op.Expand, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return for each row each node that is reachable from its source, once."""
    target = operator.target.id
    retained_columns = needed - {target, *names(operator.path_fields)}
    input_columns = retained_columns | {operator.source.id}
    walker = Walker(operator, context)
    for input_frame in context.run_operator(operator.input, input_columns):
        frame = input_frame.select(input_columns)
        if not frame.length:
            continue
        if operator.high == 1 and walker.choose_mode(frame.length) is TraversalMode.ADJACENCY:
            yield from _expand_one_hop(operator, frame, needed, walker.adjacency(), context)
        else:
            yield from _expand_by_reach(operator, frame, retained_columns, walker, context)


def filter_connected(operator: op.ExpandInto, needed: RequiredColumns, context: ExecutionContext) -> Iterator[Frame]:
    """Return the rows whose target is reachable from their source."""
    walker = Walker(operator, context)
    ends = {operator.source.id, operator.target.id}
    for frame in context.run_operator(operator.input, (needed | ends) - {*names(operator.path_fields)}):
        if operator.high == 1 and walker.choose_mode(frame.length) is TraversalMode.ADJACENCY:
            adjacency = walker.adjacency()
            mask = adjacency.neighbours(operator.direction).contains(
                positions_in(adjacency.near(operator.direction), frame.columns[operator.source.id], context.cache),
                positions_in(adjacency.far(operator.direction), frame.columns[operator.target.id], context.cache),
            )
        else:
            distances = _distances(operator, frame, walker, context)
            mask = distances > 0
            if operator.path:
                frame = frame.with_columns(_path_columns(operator, distances))  # noqa: PLW2901
        connected = frame.filter(mask)
        if connected.length:
            yield connected


def _expand_one_hop(
    operator: op.Expand, frame: Frame, needed: RequiredColumns, adjacency: Adjacency, context: ExecutionContext
) -> Iterator[Frame]:
    retained_columns = needed - {operator.target.id}
    near, far = adjacency.near(operator.direction), adjacency.far(operator.direction)
    codes = positions_in(near, frame.columns[operator.source.id], context.cache)
    if not len(near):
        return
    if not retained_columns:
        present = codes >= 0
        weights = None if frame.weights is None else frame.weights[present]
        codes, counts = count_codes(codes[present], weights, len(near))
        if operator.target.id not in needed:
            yield from _count_paths(counts, adjacency.degrees(operator.direction)[codes])
            return
        if len(codes) == len(near) and len(codes) and (counts == counts[0]).all():
            # All nodes are sources with the same weight: the weight of a target follows from its degree.
            degrees = adjacency.degrees(operator.direction.reversed)
            targets = np.flatnonzero(degrees)
            yield _weighted_frame(operator, targets, multiply_weights(degrees[targets], counts[:1]), far)
            return
        frame = Frame(len(codes), {}, counts)
    neighbours = adjacency.neighbours(operator.direction)
    _, sizes = range_counts(neighbours.starts, codes)
    for start, stop in output_slices(sizes, context.options.expanded_rows_max):
        context.budget.require_time()
        positions, targets = expand_neighbours(neighbours, codes[start:stop])
        part = frame.slice(start, stop)
        if retained_columns:
            context.budget.require_bytes(8 * len(positions) * (len(retained_columns) + 2))
            yield part.take(positions).with_columns({operator.target.id: DictionaryColumn(targets, far)})
        else:
            assert part.weights is not None
            targets, counts = count_codes(targets, part.weights[positions], len(far))
            yield _weighted_frame(operator, targets, counts, far)


def _count_paths(counts: Weights, degrees: Codes) -> Iterator[Frame]:
    """Return one row without columns whose weight is the number of paths."""
    rows = multiply_weights(counts, degrees)
    _, total = count_codes(np.zeros(len(rows), dtype=np.int64), rows, 1)
    if len(total) and total[0]:
        yield Frame(1, {}, total)


def _weighted_frame(operator: op.Expand, targets: Codes, counts: Weights, dictionary: ValueDictionary) -> Frame:
    return Frame(len(targets), {operator.target.id: DictionaryColumn(targets, dictionary)}, counts)


def _expand_by_reach(
    operator: op.Expand, frame: Frame, retained_columns: RequiredColumns, walker: Walker, context: ExecutionContext
) -> Iterator[Frame]:
    sources, numbers = distinct_values(frame.columns[operator.source.id])
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    for pairs in _reachable_pairs(operator, walker, sources, context):
        first, last = np.searchsorted(ordered, [pairs.start, pairs.stop])
        rows = order[first:last]
        # The pairs of a source are adjacent; each row of the source gets all of them.
        starts = np.searchsorted(pairs.positions, np.arange(pairs.start, pairs.stop + 1))
        local = numbers[rows] - pairs.start
        _, counts = range_counts(starts, local)
        for begin, end in output_slices(counts, context.options.expanded_rows_max):
            context.budget.require_bytes(8 * int(counts[begin:end].sum()) * (len(retained_columns) + 2))
            positions, indices = expand_ranges(starts, local[begin:end])
            source_rows, targets = rows[begin:end][positions], pairs.targets.take(indices)
            new = {operator.target.id: targets, **_path_columns(operator, pairs.distances[indices])}
            if retained_columns:
                yield frame.take(source_rows).with_columns(new)
            else:
                weights = None if frame.weights is None else frame.weights[source_rows]
                yield Frame(len(indices), new, weights)


def _path_columns(operator: op.Expand | op.ExpandInto, distances: Codes) -> dict[str, Column]:
    """Return the column with the length of the path, if the path is bound."""
    return {field.name: pa.array(distances) for field in operator.path_fields}


def _distances(operator: op.ExpandInto, frame: Frame, walker: Walker, context: ExecutionContext) -> Codes:
    """Return the distance from the source to the target of each row; 0 if it is not within the bounds."""
    sources, numbers = distinct_values(frame.columns[operator.source.id])
    distances = np.zeros(len(numbers), dtype=np.int64)
    for reached in _reachable_pairs(operator, walker, sources, context):
        rows = np.flatnonzero((numbers >= reached.start) & (numbers < reached.stop))
        if not len(rows) or not len(reached.positions):
            continue
        column = frame.select([operator.target.id]).take(rows).columns[operator.target.id]
        far = positions_in(reached.targets.dictionary, column, context.cache)
        size = max(len(reached.targets.dictionary), 1)
        pairs = reached.positions * size + reached.targets.codes
        order = np.argsort(pairs, kind="stable")
        required = numbers[rows] * size + far
        nearest = np.minimum(np.searchsorted(pairs, required, sorter=order), len(pairs) - 1)
        is_reached = (pairs[order[nearest]] == required) & (far >= 0)
        distances[rows[is_reached]] = reached.distances[order[nearest[is_reached]]]
    return distances


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReachedPairs:
    """Pairs of a source, as its position among all sources, and a target, for the sources from `start` up to `stop`.

    `distances` has the number of hops of each pair.
    """

    positions: Codes
    targets: DictionaryColumn
    distances: Codes
    start: int
    stop: int


def _reachable_pairs(
    operator: op.Expand | op.ExpandInto, walker: Walker, sources: DictionaryColumn, context: ExecutionContext
) -> Iterator[_ReachedPairs]:
    """Yield the distinct pairs of sources and reachable targets, ordered by source, for some sources at a time."""
    count = len(sources.codes)
    high = operator.high if context.connects_same_type(operator.table) else 1
    if not count or operator.low > high:
        return
    if high == 1:
        positions, targets = walker.hop(sources)
        ones = np.ones(len(positions), dtype=np.int64)
        yield _ReachedPairs(positions=positions, targets=targets, distances=ones, start=0, stop=count)
    elif walker.choose_mode(count) is TraversalMode.ADJACENCY:
        yield from _reach_by_adjacency(operator, walker, sources, context)
    else:
        yield _reach_by_storage(operator, walker, sources, context)


def _reach_by_adjacency(
    operator: op.Expand | op.ExpandInto, walker: Walker, sources: DictionaryColumn, context: ExecutionContext
) -> Iterator[_ReachedPairs]:
    adjacency = walker.adjacency()
    neighbours, dictionary = adjacency.neighbours(operator.direction), adjacency.near(operator.direction)
    codes, size = positions_in(dictionary, sources, context.cache), len(dictionary)
    if not size:
        return

    def hop(frontier: Codes) -> Codes:
        positions, far = expand_neighbours(neighbours, frontier % size)
        return frontier[positions] // size * size + far

    sources_max = max(1, limits.ENGINE_REACH_CELLS_MAX // size)
    for start in range(0, len(codes), sources_max):
        part = codes[start : start + sources_max]
        rows = np.flatnonzero(part >= 0)
        start_pairs = rows * size + part[rows]
        # The cells must not have a name here: the next part uses their memory again, which is faster than new memory.
        pairs, distances = _breadth_first(
            start_pairs, hop, _VisitedCells(start_pairs, len(part) * size), operator, context
        )
        yield _ReachedPairs(
            positions=pairs // size + start,
            targets=DictionaryColumn(pairs % size, dictionary),
            distances=distances,
            start=start,
            stop=start + len(part),
        )


def _reach_by_storage(
    operator: op.Expand | op.ExpandInto, walker: Walker, sources: DictionaryColumn, context: ExecutionContext
) -> _ReachedPairs:
    ids = ValueDictionary(sources.array(), is_unique=True, is_per_query=True)
    count = len(ids)

    def hop(frontier: Codes) -> Codes:
        nonlocal ids
        nodes, inverse = compact_codes(frontier % _STRIDE, len(ids))
        if count == 1 and walker.choose_mode(len(nodes)) is TraversalMode.INDEXED:
            # The neighbours of all nodes belong to the only source, so they need not be joined to their nodes.
            ids, far = _extend(ids, walker.read_neighbours(DictionaryColumn(nodes, ids)))
            return far
        positions, targets = walker.hop(DictionaryColumn(nodes, ids))
        ids, far = _extend(ids, targets)
        context.budget.require_bytes(int(ids.array.nbytes))
        return _join_on_nodes(frontier // _STRIDE, inverse, positions, far)

    start_pairs = np.arange(count) * (_STRIDE + 1)
    pairs, distances = _breadth_first(start_pairs, hop, _VisitedNumbers(start_pairs), operator, context)
    targets = DictionaryColumn(pairs % _STRIDE, ids)
    return _ReachedPairs(positions=pairs // _STRIDE, targets=targets, distances=distances, start=0, stop=count)


def _breadth_first(
    start_pairs: Codes,
    hop: Callable[[Codes], Codes],
    visited: _VisitedCells | _VisitedNumbers,
    operator: op.Expand | op.ExpandInto,
    context: ExecutionContext,
) -> tuple[Codes, Codes]:
    """Return the sorted pairs of a source and a node that is reachable within the bounds, and their distances.

    A pair is one number. `start_pairs` has each source with itself; `hop` returns the pairs one edge further.
    """
    pairs = hop(start_pairs)
    reached = [pairs[visited.contains(pairs)]] if operator.low == 1 else []  # self-loops
    hops = [1] * len(reached)
    for distance in range(1, operator.high + 1):
        context.budget.require_time()
        context.budget.require_bytes(3 * pairs.nbytes + sum(part.nbytes for part in reached))
        frontier = visited.add_new(pairs)
        if distance >= operator.low:
            reached.append(frontier)
            hops.append(distance)
        if distance == operator.high or not len(frontier):
            break
        pairs = hop(frontier)
    joined = np.concatenate([start_pairs[:0], *reached])
    if operator.path is None:
        return np.sort(joined), np.broadcast_to(np.int64(1), len(joined))
    order = np.argsort(joined)
    return joined[order], np.repeat(np.array(hops, dtype=np.int64), [len(part) for part in reached])[order]


class _VisitedCells:
    """The visited pairs as one cell for each possible pair."""

    def __init__(self, pairs: Codes, size: int) -> None:
        self._cells = np.zeros(size, dtype=np.bool_)
        self._cells[pairs] = True

    def contains(self, pairs: Codes) -> Mask:
        return self._cells[pairs]

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


class _VisitedNumbers:
    """The visited pairs as sorted numbers."""

    def __init__(self, pairs: Codes) -> None:
        self._numbers = pairs

    def contains(self, pairs: Codes) -> Mask:
        return in_sorted(pairs, self._numbers)

    def add_new(self, pairs: Codes) -> Codes:
        """Add pairs; return those that are new, distinct and sorted."""
        new = distinct_numbers(pairs[~self.contains(pairs)])
        self._numbers = np.sort(np.concatenate([self._numbers, new]))
        return new


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
        ids = ValueDictionary(extended, is_unique=True, is_per_query=True)
    return ids, codes[inverse]
