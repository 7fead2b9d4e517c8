"""Traversals without a bound edge: every reachable node once per row, or the rows whose two ends are so connected.

Where nothing above needs more of a row than the node it ends at, equal rows are counted instead of kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from omnigraph.engine.adjacency import Adjacency
from omnigraph.engine.domain import Codes, Domain, Mask, numbered
from omnigraph.engine.frame import Coded, Column, Frame, Weights, counted, multiplied
from omnigraph.engine.options import TraversalMode
from omnigraph.engine.positions import positions_in
from omnigraph.engine.reach import reach
from omnigraph.engine.scope import Needed, Scope
from omnigraph.engine.walker import Walker, range_counts, spread_neighbours
from omnigraph.query.plan import Expand, ExpandInto


def expanded_rows(step: Expand, needed: Needed, scope: Scope) -> Iterator[Frame]:
    """For each row every node that is reachable from its source, once."""
    target = step.target.id
    live = needed - {target}
    below = live | {step.source.id}
    walker = Walker(step.table, step.direction, step, scope)
    for given in scope.rows(step.input, below):
        frame = given.only(below)
        if not frame.length:
            continue
        if step.high == 1 and walker.choose(frame.length) is TraversalMode.ADJACENCY:
            yield from _one_hop(step, frame, needed, walker.adjacency(), scope)
        else:
            yield from _reached(step, frame, live, walker, scope)


def checked_rows(step: ExpandInto, needed: Needed, scope: Scope) -> Iterator[Frame]:
    """The rows whose target is reachable from their source."""
    walker = Walker(step.table, step.direction, step, scope)
    for frame in scope.rows(step.input, needed | {step.source.id, step.target.id}):
        near, far = frame.columns[step.source.id], frame.columns[step.target.id]
        if step.high == 1 and walker.choose(frame.length) is TraversalMode.ADJACENCY:
            adjacency = walker.adjacency()
            kept = adjacency.neighbours(step.direction).contains(
                positions_in(adjacency.near(step.direction), near, scope.cache),
                positions_in(adjacency.far(step.direction), far, scope.cache),
            )
        else:
            kept = _connected(step, (near, far), walker, scope)
        rows = frame.keep(kept)
        if rows.length:
            yield rows


def _one_hop(
    step: Expand, frame: Frame, needed: Needed, adjacency: Adjacency, scope: Scope
) -> Iterator[Frame]:
    live = needed - {step.target.id}
    neighbours = adjacency.neighbours(step.direction)
    near, far = adjacency.near(step.direction), adjacency.far(step.direction)
    codes = positions_in(near, frame.columns[step.source.id], scope.cache)
    if len(neighbours.starts) < 2:
        return
    if not live:
        present = codes >= 0
        weights = None if frame.weights is None else frame.weights[present]
        codes, counts = counted(codes[present], weights, len(near))
        if step.target.id not in needed:
            yield from _counted_rows(counts, neighbours.degrees[codes])
            return
        if len(codes) == len(near) and len(codes) and (counts == counts[0]).all():
            # From every node equally often: each destination counts its own edges.
            degrees = adjacency.neighbours(step.direction.reversed).degrees
            there = np.flatnonzero(degrees)
            yield _counted_frame(step, there, multiplied(degrees[there], counts[:1]), far)
            return
        frame = Frame(len(codes), {}, counts)
    _, sizes = range_counts(neighbours.starts, codes)
    for start, stop in output_slices(sizes, scope.options.expanded_rows_max):
        scope.budget.tick()
        places, targets = spread_neighbours(neighbours, codes[start:stop])
        part = frame.slice(start, stop)
        if live:
            scope.budget.allow(8 * len(places) * (len(live) + 2))
            yield part.take(places).plus({step.target.id: Coded(targets, far)})
        else:
            assert part.weights is not None
            kept, counts = counted(targets, part.weights[places], len(far))
            yield _counted_frame(step, kept, counts, far)


def _counted_rows(counts: Weights, degrees: Codes) -> Iterator[Frame]:
    """So many rows without columns as there are paths: nobody needs to know where they end."""
    rows = multiplied(counts, degrees)
    _, total = counted(np.zeros(len(rows), dtype=np.int64), rows, 1)
    if len(total) and total[0]:
        yield Frame(1, {}, total)


def _counted_frame(step: Expand, targets: Codes, counts: Weights, domain: Domain) -> Frame:
    return Frame(len(targets), {step.target.id: Coded(targets, domain)}, counts)


def output_slices(sizes: Codes, most: int) -> Iterator[tuple[int, int]]:
    """Rows that give about so many rows together, at least one at a time."""
    total = np.cumsum(sizes)
    start, done = 0, 0
    while start < len(sizes):
        stop = max(int(np.searchsorted(total, done + most, side="right")), start + 1)
        yield start, stop
        done = int(total[stop - 1])
        start = stop


def _reached(step: Expand, frame: Frame, live: Needed, walker: Walker, scope: Scope) -> Iterator[Frame]:
    sources, numbers = distinct_sources(frame.columns[step.source.id])
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    for found in reach(walker, sources, (step.low, step.high), scope):
        first, last = np.searchsorted(ordered, [found.start, found.stop])
        rows = order[first:last]
        # The pairs of each source lie beside each other; every row of a source gets all of them.
        starts = np.searchsorted(found.places, np.arange(found.start, found.stop + 1))
        local = numbers[rows] - found.start
        counts = starts[local + 1] - starts[local]
        for begin, end in output_slices(counts, scope.options.expanded_rows_max):
            part, size = rows[begin:end], counts[begin:end]
            scope.budget.allow(8 * int(size.sum()) * (len(live) + 2))
            places = np.repeat(np.arange(len(part)), size)
            before = np.cumsum(size) - size
            at = np.arange(len(places)) + np.repeat(starts[local[begin:end]] - before, size)
            targets = found.targets.take(at)
            if live:
                yield frame.take(part[places]).plus({step.target.id: targets})
            else:
                weights = None if frame.weights is None else frame.weights[part[places]]
                yield Frame(len(at), {step.target.id: targets}, weights)


def distinct_sources(column: Column) -> tuple[Coded, Codes]:
    """The distinct sources, and for each row the number of its source, -1 for null."""
    if not isinstance(column, Coded) or not column.domain.is_unique:
        array = column.array() if isinstance(column, Coded) else column
        codes, distinct = Domain(array).factors()
        return Coded(np.arange(len(distinct)), distinct), codes
    used, numbers = numbered(column.codes, len(column.domain))
    return Coded(used, column.domain), numbers


def _connected(step: ExpandInto, ends: tuple[Column, Column], walker: Walker, scope: Scope) -> Mask:
    sources, numbers = distinct_sources(ends[0])
    kept = np.zeros(len(numbers), dtype=np.bool_)
    for found in reach(walker, sources, (step.low, step.high), scope):
        rows = np.flatnonzero((numbers >= found.start) & (numbers < found.stop))
        if not len(rows) or not len(found.places):
            continue
        column = ends[1]
        part = column.take(rows) if isinstance(column, Coded) else column.take(pa.array(rows))
        far = positions_in(found.targets.domain, part, scope.cache)
        size = max(len(found.targets.domain), 1)
        pairs = np.sort(found.places * size + found.targets.codes)
        asked = numbers[rows] * size + far
        at = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
        kept[rows] = (pairs[at] == asked) & (far >= 0)
    return kept
