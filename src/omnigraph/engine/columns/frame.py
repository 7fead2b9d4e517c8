"""Following the edges of one table from a set of nodes, in one of three ways that give the same pairs.

The way is chosen at every hop, from the frontier that is really there: adjacency when it is in memory or quickly made;
lookups by index for a small frontier; adjacency again for a large one, as long as it fits the cache; otherwise a scan
of the edge table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.cache import Cache
from omnigraph.engine.columns.compute import overflow_error
from omnigraph.engine.columns.dictionary import Array, Codes, Mask, ValueDictionary, compact_codes

Weights = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DictionaryColumn:
    """A column as positions in a domain."""

    codes: Codes
    dictionary: ValueDictionary

    def array(self) -> Array:
        """The values."""
        return gather(self.dictionary.array, self.codes)

    def take(self, rows: Codes) -> DictionaryColumn:
        return DictionaryColumn(self.codes[rows], self.dictionary)


Column = Array | DictionaryColumn


@dataclass(frozen=True, slots=True)
class Frame:
    """Some rows. `weights` None means that every row stands for itself."""

    length: int
    columns: Mapping[str, Column]
    weights: Weights | None = None

    def array(self, name: str) -> Array:
        """The values of a column."""
        column = self.columns[name]
        return column.array() if isinstance(column, DictionaryColumn) else column

    def take(self, rows: Codes) -> Frame:
        """Some of the rows, in the given order, as often as they are given."""
        columns = {name: _take(column, rows) for name, column in self.columns.items()}
        weights = None if self.weights is None else self.weights[rows]
        return Frame(len(rows), columns, weights)

    def filter(self, mask: Mask) -> Frame:
        """The rows where the mask is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def slice(self, start: int, stop: int) -> Frame:
        """The rows from `start` up to `stop`."""
        if start <= 0 and stop >= self.length:
            return self
        stop = min(stop, self.length)
        columns = {
            name: DictionaryColumn(column.codes[start:stop], column.dictionary)
            if isinstance(column, DictionaryColumn)
            else column.slice(start, stop - start)
            for name, column in self.columns.items()
        }
        return Frame(stop - start, columns, None if self.weights is None else self.weights[start:stop])

    def with_columns(self, columns: Mapping[str, Column]) -> Frame:
        """The same rows with more columns."""
        return replace(self, columns={**self.columns, **columns})

    def select(self, names: Iterable[str]) -> Frame:
        """The same rows with these columns alone, as far as they are there."""
        kept = {name: self.columns[name] for name in names if name in self.columns}
        return replace(self, columns=kept)

    def repeat_by_weight(self) -> Frame:
        """Every row once for each time it stands there."""
        if self.weights is None:
            return self
        rows = np.repeat(np.arange(self.length), self.weights)
        return replace(self, weights=None).take(rows)

    def compact(self) -> Frame:
        """The same rows without the other values of their own domains, so that only these rows are held."""
        columns = {
            name: column.array()
            if isinstance(column, DictionaryColumn)
            and column.dictionary.is_own
            and len(column.dictionary) > self.length
            else column
            for name, column in self.columns.items()
        }
        return replace(self, columns=columns)

    @property
    def row_count(self) -> int:
        """How many rows these are, counting weights."""
        return self.length if self.weights is None else int(self.weights.sum())

    @property
    def nbytes(self) -> int:
        """Roughly what the frame holds that nobody else holds."""
        total = 0 if self.weights is None else self.weights.nbytes
        own: dict[int, int] = {}
        for column in self.columns.values():
            if isinstance(column, DictionaryColumn):
                total += column.codes.nbytes
                if column.dictionary.is_own:
                    own[id(column.dictionary)] = int(column.dictionary.array.nbytes)
            else:
                total += int(column.nbytes)
        return total + sum(own.values())


def concat_frames(frames: Sequence[Frame]) -> Frame:
    """The rows of all frames, which have the same columns; there is at least one."""
    if len(frames) == 1:
        return frames[0]
    columns = {name: _concat_columns([frame.columns[name] for frame in frames]) for name in frames[0].columns}
    weights = None
    if any(frame.weights is not None for frame in frames):
        weights = np.concatenate([weights_of(frame) for frame in frames])
    return Frame(sum(frame.length for frame in frames), columns, weights)


def weights_of(frame: Frame) -> Weights:
    """How often each row stands there."""
    return np.ones(frame.length, dtype=np.int64) if frame.weights is None else frame.weights


def gather(values: Array, codes: Codes) -> Array:
    """The values at these positions, null at -1."""
    missing = codes < 0
    indices = pa.array(codes, mask=missing) if missing.any() else pa.array(codes)
    return values.take(indices)


def multiply_weights(one: Weights, other: Weights) -> Weights:
    """Row by row the product of weights; more rows than an I64 can count are an error."""
    if len(one) and int(one.max()) * int(other.max()) >= 2**63:
        raise overflow_error()
    return one * other


def count_codes(codes: Codes, weights: Weights | None, size: int) -> tuple[Codes, Weights]:
    """The distinct positions and the sum of weights of each; more than an I64 can count is an error."""
    total = 0.0 if weights is None else float(weights.sum(dtype=np.float64))
    if total >= 2**63:
        raise overflow_error()
    if len(codes) * 8 >= size and total < 2**53:
        counts = np.bincount(codes, weights=weights, minlength=size)
        kept = np.flatnonzero(counts)
        return kept, counts[kept].astype(np.int64)
    if weights is None:
        return np.unique(codes, return_counts=True)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else order
    sums = np.add.reduceat(weights[order], first) if len(ordered) else weights
    return ordered[first], sums


def _take(column: Column, rows: Codes) -> Column:
    if isinstance(column, DictionaryColumn):
        return column.take(rows)
    if pa.types.is_primitive(column.type):
        return column.take(pa.array(rows))
    return DictionaryColumn(rows.astype(np.int64, copy=False), ValueDictionary(column, is_own=True))


def _concat_columns(columns: list[Column]) -> Column:
    first = columns[0]
    if isinstance(first, DictionaryColumn) and all(
        isinstance(other, DictionaryColumn) and other.dictionary is first.dictionary for other in columns
    ):
        codes = [column.codes for column in columns if isinstance(column, DictionaryColumn)]
        return DictionaryColumn(np.concatenate(codes), first.dictionary)
    arrays = [column.array() if isinstance(column, DictionaryColumn) else column for column in columns]
    return pa.concat_arrays(arrays)


def positions_in(dictionary: ValueDictionary, column: Column, cache: Cache) -> Codes:
    """The position of each id of the column in the domain, -1 for null and for ids that are not there."""
    if not isinstance(column, DictionaryColumn):
        return dictionary.find(column)
    if column.dictionary is dictionary:
        return column.codes
    if column.dictionary.is_own:
        if len(column.dictionary) <= 2 * len(column.codes):
            return _map_codes(dictionary.find(column.dictionary.array), column.codes)
        return dictionary.find(column.array())
    translation = column.dictionary.translation(dictionary)
    if translation is None:
        key = ("translation", id(column.dictionary), id(dictionary))
        if len(column.codes) * 16 < len(column.dictionary) and cache.touch(key) < 2:
            return dictionary.find(column.array())
        translation = column.dictionary.translate(dictionary)
    return _map_codes(translation, column.codes)


def _map_codes(codes: Codes, at: Codes) -> Codes:
    if not len(codes):
        return np.full(len(at), -1, dtype=np.int64)
    found = codes[at]
    missing = at < 0
    if missing.any():
        found[missing] = -1
    return found


def expand_ranges(starts: Codes, codes: Codes) -> tuple[Codes, Codes]:
    """Every index of `starts[code] : starts[code + 1]` for each code, beside the place of the code; -1 has none."""
    if len(starts) < 2:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty
    begins, counts = range_counts(starts, codes)
    positions = np.repeat(np.arange(len(codes)), counts)
    before = np.cumsum(counts) - counts
    at = np.arange(len(positions)) + np.repeat(begins - before, counts)
    return positions, at


def range_counts(starts: Codes, codes: Codes) -> tuple[Codes, Codes]:
    """Where the range of each code begins, and how long it is; -1 has length 0."""
    begins = starts[codes]
    counts = starts[codes + 1] - begins
    missing = codes < 0
    if missing.any():
        counts[missing] = 0
    return begins, counts


def output_slices(sizes: Codes, most: int) -> Iterator[tuple[int, int]]:
    """Rows that give about so many rows together, at least one at a time."""
    total = np.cumsum(sizes)
    start, done = 0, 0
    while start < len(sizes):
        stop = max(int(np.searchsorted(total, done + most, side="right")), start + 1)
        yield start, stop
        done = int(total[stop - 1])
        start = stop


def distinct_sources(column: Column) -> tuple[DictionaryColumn, Codes]:
    """The distinct sources, and for each row the number of its source, -1 for null."""
    if not isinstance(column, DictionaryColumn) or not column.dictionary.is_unique:
        array = column.array() if isinstance(column, DictionaryColumn) else column
        codes, distinct = ValueDictionary(array).factors()
        return DictionaryColumn(np.arange(len(distinct)), distinct), codes
    used, numbers = compact_codes(column.codes, len(column.dictionary))
    return DictionaryColumn(used, column.dictionary), numbers
