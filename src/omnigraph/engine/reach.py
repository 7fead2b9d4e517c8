"""Which nodes are reachable from which within the bounds of a traversal: many sources at once, hop by hop.

Each destination counts once per source, at its shortest distance; the source itself only through a self-loop, at
distance 1; nodes that were seen are not expanded again. With adjacency everything stays positions in one domain;
without it, texts get positions as they are met, and every hop chooses its way anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.base import limits
from omnigraph.engine.adjacency import Neighbours
from omnigraph.engine.domain import Codes, Domain, Mask, distinct_numbers, numbered
from omnigraph.engine.frame import Coded
from omnigraph.engine.options import TraversalMode
from omnigraph.engine.positions import positions_in
from omnigraph.engine.scope import Scope
from omnigraph.engine.walker import Walker, spread_neighbours

_STRIDE = np.int64(2**31)


@dataclass(frozen=True, slots=True)
class Reached:
    """Pairs of a source, by its place among those asked for, and a destination. `stop` sources are done."""

    places: Codes
    targets: Coded
    start: int
    stop: int


def reach(walker: Walker, sources: Coded, bounds: tuple[int, int], scope: Scope) -> Iterator[Reached]:
    """The pairs of distinct sources and their destinations, some sources at a time, ordered by source."""
    if not len(sources.codes):
        return
    if walker.choose(len(sources.codes)) is not TraversalMode.ADJACENCY:
        places, targets = _by_texts(walker, sources, bounds, scope)
        yield Reached(places, targets, 0, len(sources.codes))
        return
    adjacency = walker.adjacency()
    neighbours = adjacency.neighbours(walker.direction)
    near, far = adjacency.near(walker.direction), adjacency.far(walker.direction)
    codes = positions_in(near, sources, scope.cache)
    high = bounds[1] if near is far else 1
    step = len(codes) if high == 1 else max(1, limits.ENGINE_REACH_CELLS_MAX // max(len(far), 1))
    for start in range(0, len(codes), step):
        scope.budget.tick()
        part = codes[start : start + step]
        pairs = _by_positions(neighbours, part, (bounds[0], high), len(far), scope)
        yield Reached(pairs[0] + start, Coded(pairs[1], far), start, start + len(part))


def _by_positions(
    neighbours: Neighbours, codes: Codes, bounds: tuple[int, int], size: int, scope: Scope
) -> tuple[Codes, Codes]:
    low, high = bounds
    places, far = spread_neighbours(neighbours, codes)
    if high == 1:
        return (places, far) if low == 1 else (places[:0], far[:0])
    seen = _Seen(len(codes), size)
    known = codes >= 0
    seen.add(np.flatnonzero(known) * size + codes[known])
    found = []
    if low == 1:
        loops = far == codes[places]
        found.append(places[loops] * size + far[loops])
    frontier = seen.fresh(places * size + far)
    for distance in range(1, high + 1):
        scope.budget.tick()
        if distance >= low:
            found.append(frontier)
        if distance == high or not len(frontier):
            break
        at, far = spread_neighbours(neighbours, frontier % size)
        scope.budget.allow(far.nbytes * 3 + sum(part.nbytes for part in found))
        frontier = seen.fresh(frontier[at] // size * size + far)
    pairs = np.concatenate(found) if found else places[:0]
    if len(found) > 1:
        pairs.sort()
    return pairs // size, pairs % size


class _Seen:
    """Which pairs were met: one cell for each."""

    def __init__(self, sources: int, size: int) -> None:
        self._cells = np.zeros(sources * size, dtype=np.bool_)

    def add(self, pairs: Codes) -> None:
        self._cells[pairs] = True

    def fresh(self, pairs: Codes) -> Codes:
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


def _by_texts(walker: Walker, sources: Coded, bounds: tuple[int, int], scope: Scope) -> tuple[Codes, Coded]:
    low, high = bounds
    known = Domain(sources.array(), is_unique=True, is_own=True)
    start = np.arange(len(known))
    places, targets = walker.hop(Coded(start, known))
    is_one_type = scope.tables.is_one_type(walker.table)
    if high == 1 or not is_one_type:
        kept = slice(None) if low == 1 else slice(0, 0)
        return places[kept], Coded(targets.codes[kept], targets.domain)
    known, far = _extended(known, targets)
    seen = start * _STRIDE + start
    pairs = places * _STRIDE + far
    found = [pairs[places == far]] if low == 1 else []
    frontier = _without(pairs, seen)
    for distance in range(1, high + 1):
        if distance >= low:
            found.append(frontier)
        if distance == high or not len(frontier):
            break
        scope.budget.tick()
        seen = np.sort(np.concatenate([seen, frontier]))
        nodes, inverse = numbered(frontier % _STRIDE, len(known))
        if len(start) == 1 and walker.choose(len(nodes)) is TraversalMode.INDEXED:
            known, pairs = _extended(known, walker.reached(Coded(nodes, known)))
        else:
            at, targets = walker.hop(Coded(nodes, known))
            known, far = _extended(known, targets)
            pairs = _crossed(frontier // _STRIDE, inverse, at, far)
        scope.budget.allow(2 * (pairs.nbytes + seen.nbytes) + int(known.array.nbytes))
        frontier = _without(pairs, seen)
    every = distinct_numbers(np.concatenate(found)) if found else seen[:0]
    return every // _STRIDE, Coded(every % _STRIDE, known)


def _without(pairs: Codes, seen: Codes) -> Codes:
    """The distinct pairs that are not among those seen, which are sorted and never none."""
    new = distinct_numbers(pairs)
    at = np.minimum(np.searchsorted(seen, new), len(seen) - 1)
    fresh: Codes = new[seen[at] != new]
    return fresh


def _crossed(places: Codes, nodes: Codes, at: Codes, far: Codes) -> Codes:
    """Pairs of the sources at each node and the neighbours of that node; `at` is sorted."""
    starts = (
        np.searchsorted(at, np.arange(int(nodes.max()) + 2)) if len(nodes) else np.zeros(1, dtype=np.int64)
    )
    neighbours = Neighbours(starts, far.astype(np.int32), 0)
    rows, reached = spread_neighbours(neighbours, nodes)
    return places[rows] * _STRIDE + reached


def _extended(known: Domain, targets: Coded) -> tuple[Domain, Codes]:
    """The known texts with the new ones after them, and the positions of the targets there."""
    used, inverse = numbered(targets.codes, len(targets.domain))
    texts = Coded(used, targets.domain).array()
    codes = known.find(texts)
    new = np.flatnonzero(codes < 0)
    if len(new):
        codes[new] = len(known) + np.arange(len(new))
        joined = pa.concat_arrays([known.array, texts.take(pa.array(new))])
        known = Domain(joined, is_unique=True, is_own=True)
    return known, codes[inverse]
