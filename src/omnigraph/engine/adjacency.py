"""The edges of one table version by their ends: for each node its neighbours, in both directions.

Comes in: the ids of the ends of all edges, in the order of the table. Goes out: arrays over the positions of a domain
of end ids, in compressed rows: the neighbours of node `n` are `far[starts[n] : starts[n + 1]]`, sorted, with the table
row of each edge beside them. Immutable, like the version it is made from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.domain import Array, Codes, Domain, Mask, distinct_numbers
from omnigraph.query.plan import Direction


@dataclass(frozen=True)
class Side:
    """The edges at each node, seen from one end. Parallel edges stand beside each other."""

    starts: Codes
    far: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    far_size: int

    @cached_property
    def distinct(self) -> Neighbours:
        """Each neighbour once."""
        if len(self.far) < 2:
            return Neighbours(self.starts, self.far, self.far_size)
        first = np.empty(len(self.far), dtype=np.bool_)
        first[0] = True
        np.not_equal(self.far[1:], self.far[:-1], out=first[1:])
        begins = self.starts[:-1]
        first[begins[begins < len(first)]] = True
        if first.all():
            return Neighbours(self.starts, self.far, self.far_size)
        before = np.zeros(len(first) + 1, dtype=np.int64)
        np.cumsum(first, out=before[1:])
        return Neighbours(before[self.starts], self.far[first], self.far_size)

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes + self.far.nbytes + self.rows.nbytes


@dataclass(frozen=True)
class Neighbours:
    """The distinct neighbours of each node, sorted."""

    starts: Codes
    far: npt.NDArray[np.int32]
    far_size: int

    @cached_property
    def degrees(self) -> Codes:
        """How many neighbours each node has."""
        return np.diff(self.starts)

    @cached_property
    def pairs(self) -> Codes:
        """Every pair of neighbours as one number, sorted."""
        near = np.repeat(np.arange(len(self.starts) - 1), self.degrees)
        return near * self.far_size + self.far

    def contains(self, near: Codes, far: Codes) -> Mask:
        """Whether each pair is one of neighbours; -1 never is."""
        if not len(self.far):
            return np.zeros(len(near), dtype=np.bool_)
        asked = near * self.far_size + far
        at = np.minimum(np.searchsorted(self.pairs, asked), len(self.pairs) - 1)
        found: Mask = (self.pairs[at] == asked) & (near >= 0) & (far >= 0)
        return found


@dataclass(frozen=True)
class Adjacency:
    """All edges of a table version. Where both ends are of one type they share a domain."""

    sources: Domain
    targets: Domain
    by_source: Side
    by_target: Side

    def near(self, direction: Direction) -> Domain:
        """The domain that a traversal starts in."""
        return self.targets if direction is Direction.IN else self.sources

    def far(self, direction: Direction) -> Domain:
        """The domain that it leads to."""
        return self.sources if direction is Direction.IN else self.targets

    def side(self, direction: Direction) -> Side:
        """The edges in one of the two directions."""
        assert direction is not Direction.BOTH, "both directions are two sides"
        return self.by_target if direction is Direction.IN else self.by_source

    def neighbours(self, direction: Direction) -> Neighbours:
        """The distinct neighbours in a direction, or in both."""
        if direction is Direction.BOTH:
            return self._either
        return self.side(direction).distinct

    @cached_property
    def _either(self) -> Neighbours:
        size = len(self.sources)
        pairs = distinct_numbers(
            np.concatenate([self.by_source.distinct.pairs, self.by_target.distinct.pairs])
        )
        return Neighbours(_starts(pairs // max(size, 1), size), (pairs % max(size, 1)).astype(np.int32), size)

    @cached_property
    def source_codes(self) -> Codes:
        """The source of each edge, in the order of the table."""
        return self._ends(self.by_source)

    @cached_property
    def target_codes(self) -> Codes:
        """The target of each edge, in the order of the table."""
        return self._ends(self.by_target)

    @property
    def nbytes(self) -> int:
        """With room for what is worked out later: pairs and distinct neighbours."""
        domains = {id(found): found.nbytes for found in (self.sources, self.targets)}
        return 3 * (self.by_source.nbytes + self.by_target.nbytes) + sum(domains.values())

    def _ends(self, side: Side) -> Codes:
        found = np.empty(len(side.rows), dtype=np.int64)
        found[side.rows] = np.repeat(np.arange(len(side.starts) - 1), np.diff(side.starts))
        return found


def build_adjacency(sources: Array, targets: Array, *, one_type: bool) -> Adjacency:
    """The adjacency of edges with these ends; `one_type` says that both ends are of the same type."""
    if one_type:
        both: Any = pa.chunked_array([sources, targets], type=pa.utf8())
        codes, domain = _encoded(both)
        near, far = codes[: len(sources)], codes[len(sources) :]
        domains = (domain, domain)
    else:
        near, first = _encoded(pa.chunked_array([sources], type=pa.utf8()))
        far, second = _encoded(pa.chunked_array([targets], type=pa.utf8()))
        domains = (first, second)
    return Adjacency(
        *domains,
        by_source=_side(near, far, (len(domains[0]), len(domains[1]))),
        by_target=_side(far, near, (len(domains[1]), len(domains[0]))),
    )


def _encoded(texts: Any) -> tuple[Codes, Domain]:
    encoded: Any = texts.dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], pa.utf8()).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, Domain(encoded.dictionary, is_unique=True)


def _side(near: Codes, far: Codes, sizes: tuple[int, int]) -> Side:
    order = _ordered(near * max(sizes[1], 1) + far, sizes[0] * sizes[1])
    starts = _starts(near[order], sizes[0])
    return Side(starts, far[order].astype(np.int32), order.astype(np.int32), sizes[1])


def _ordered(keys: Codes, size: int) -> Codes:
    """The places of the keys in order. Sorting numbers is many times faster than sorting places by numbers."""
    bits = len(keys).bit_length()
    if size.bit_length() + bits > 63:
        return np.argsort(keys)
    packed = np.sort(keys << bits | np.arange(len(keys)))
    return packed & ((1 << bits) - 1)


def _starts(ordered: Codes, size: int) -> Codes:
    starts = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(ordered, minlength=size), out=starts[1:])
    return starts
