"""Rows in memory as columns: `Frame`, which operators pass to each other, and operations on codes and row ranges.

A column is an Arrow array, or codes into a `ValueDictionary`, so that joins and expansions copy numbers instead of
texts. A frame may have weights: equal rows are then stored once, with the number of times that they occur. Nothing
here reads storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.arrow.columns import integer_array
from omnigraph.engine.cache import Cache
from omnigraph.engine.columns.compute import overflow_error
from omnigraph.engine.columns.dictionary import Array, Codes, Mask, ValueDictionary, compact_codes, encode_values

Weights = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DictionaryColumn:
    """A column as positions in a dictionary; -1 is null."""

    codes: Codes
    dictionary: ValueDictionary

    @classmethod
    def of(cls, column: Column) -> DictionaryColumn:
        """Return a column with a dictionary; the dictionary of an array is the array itself."""
        if isinstance(column, DictionaryColumn):
            return column
        return cls(np.arange(len(column)), ValueDictionary(column, is_per_query=True))

    def array(self) -> Array:
        """Return the values."""
        missing = self.codes < 0
        indices = pa.array(self.codes, mask=missing) if missing.any() else integer_array(self.codes)
        return self.dictionary.array.take(indices)

    def take(self, rows: Codes | slice) -> DictionaryColumn:
        return DictionaryColumn(self.codes[rows], self.dictionary)


Column = Array | DictionaryColumn


@dataclass(frozen=True, slots=True)
class Frame:
    """Some rows. A row with weight n counts as n equal rows; `weights` None means that all weights are 1."""

    length: int
    columns: Mapping[str, Column]
    weights: Weights | None = None

    def array(self, name: str) -> Array:
        """Return the values of a column."""
        return array_of(self.columns[name])

    def take(self, rows: Codes) -> Frame:
        """Return the rows at these positions, in their order, with repetitions."""
        columns = {name: _take(column, rows) for name, column in self.columns.items()}
        weights = None if self.weights is None else self.weights[rows]
        return Frame(len(rows), columns, weights)

    def filter(self, mask: Mask) -> Frame:
        """Return the rows where the mask is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def slice(self, start: int, stop: int) -> Frame:
        """Return the rows from `start` up to `stop`."""
        if start <= 0 and stop >= self.length:
            return self
        stop = min(stop, self.length)
        columns = {
            name: column.take(slice(start, stop))
            if isinstance(column, DictionaryColumn)
            else column.slice(start, stop - start)
            for name, column in self.columns.items()
        }
        return Frame(stop - start, columns, None if self.weights is None else self.weights[start:stop])

    def with_columns(self, columns: Mapping[str, Column]) -> Frame:
        """Return the rows with more columns."""
        return replace(self, columns={**self.columns, **columns})

    def select(self, names: Iterable[str]) -> Frame:
        """Return the rows with only these columns; ignore names that the frame does not have."""
        return replace(self, columns={name: self.columns[name] for name in names if name in self.columns})

    def repeat_by_weight(self) -> Frame:
        """Return each row as often as its weight says, without weights."""
        if self.weights is None:
            return self
        rows = np.repeat(np.arange(self.length), self.weights)
        return replace(self, weights=None).take(rows)

    def compact(self) -> Frame:
        """Return a copy of the rows, so that memory holds only them: a small frame can be a part of a large batch."""
        return replace(self, columns={name: _copy(column, self.length) for name, column in self.columns.items()})

    @property
    def row_count(self) -> int:
        """The number of rows, with weights."""
        return self.length if self.weights is None else int(self.weights.sum())

    @property
    def nbytes(self) -> int:
        """An estimate of the memory that only this frame holds, without cached dictionaries."""
        total = 0 if self.weights is None else self.weights.nbytes
        own_bytes: dict[int, int] = {}
        for column in self.columns.values():
            if isinstance(column, DictionaryColumn):
                total += column.codes.nbytes
                if column.dictionary.is_per_query:
                    own_bytes[id(column.dictionary)] = int(column.dictionary.array.nbytes)
            else:
                total += int(column.nbytes)
        return total + sum(own_bytes.values())


def array_of(column: Column) -> Array:
    """Return the values of a column."""
    return column.array() if isinstance(column, DictionaryColumn) else column


def concat_frames(frames: Sequence[Frame]) -> Frame:
    """Return the rows of all frames; there is at least one, and all have the same columns."""
    if len(frames) == 1:
        return frames[0]
    columns = {name: _concat_columns([frame.columns[name] for frame in frames]) for name in frames[0].columns}
    weights = None
    if any(frame.weights is not None for frame in frames):
        weights = np.concatenate([weights_of(frame) for frame in frames])
    return Frame(sum(frame.length for frame in frames), columns, weights)


def weights_of(frame: Frame) -> Weights:
    """Return the weight of each row."""
    return np.ones(frame.length, dtype=np.int64) if frame.weights is None else frame.weights


def multiply_weights(left: Weights, right: Weights) -> Weights:
    """Return the product of weights, row by row; raise if it may exceed the range of I64."""
    if len(left) and int(left.max()) * int(right.max()) >= 2**63:
        raise overflow_error()
    return left * right


def count_codes(codes: Codes, weights: Weights | None, size: int) -> tuple[Codes, Weights]:
    """Return the distinct codes and the sum of the weights of each; raise if it may exceed the range of I64."""
    total = 0.0 if weights is None else float(weights.sum(dtype=np.float64))
    if total >= 2**63:
        raise overflow_error()
    # Sums of bincount are float64, which is exact below 2**53. For few codes of many, sorting takes less memory.
    if len(codes) * 8 >= size and total < 2**53:
        counts = np.bincount(codes, weights=weights, minlength=size)
        used = np.flatnonzero(counts)
        return used, counts[used].astype(np.int64)
    if weights is None:
        return np.unique(codes, return_counts=True)
    distinct, ranks = np.unique(codes, return_inverse=True)
    sums = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(sums, ranks, weights)
    return distinct, sums


def _take(column: Column, rows: Codes) -> Column:
    if isinstance(column, DictionaryColumn):
        return column.take(rows)
    if pa.types.is_primitive(column.type):
        return column.take(pa.array(rows))
    return DictionaryColumn(rows.astype(np.int64, copy=False), ValueDictionary(column, is_per_query=True))


def _copy(column: Column, rows: int) -> Column:
    """Copy the values of a column, unless its dictionary is cached or smaller than the values of all rows."""
    if isinstance(column, DictionaryColumn):
        return column.array() if column.dictionary.is_per_query and len(column.dictionary) >= rows else column
    return column.take(integer_array(np.arange(rows)))


def _concat_columns(columns: list[Column]) -> Column:
    first = columns[0]
    if isinstance(first, DictionaryColumn) and all(
        isinstance(other, DictionaryColumn) and other.dictionary is first.dictionary for other in columns
    ):
        codes = [column.codes for column in columns if isinstance(column, DictionaryColumn)]
        return DictionaryColumn(np.concatenate(codes), first.dictionary)
    return pa.concat_arrays([array_of(column) for column in columns])


def positions_in(dictionary: ValueDictionary, column: Column, cache: Cache) -> Codes:
    """Return the position of each id of the column in the dictionary, -1 for null and for missing ids."""
    if not isinstance(column, DictionaryColumn):
        return dictionary.find(column)
    if column.dictionary is dictionary:
        return column.codes
    if column.dictionary.is_per_query:
        if len(column.dictionary) <= 2 * len(column.codes):
            return _map_codes(dictionary.find(column.dictionary.array), column.codes)
        return dictionary.find(column.array())
    # A translation finds the whole dictionary once. For few codes it is computed at the third request.
    translation = column.dictionary.translation(dictionary)
    if translation is None:
        key = ("translation", id(column.dictionary), id(dictionary))
        if len(column.codes) * 16 < len(column.dictionary) and cache.touch(key) < 2:
            return dictionary.find(column.array())
        translation = column.dictionary.translate(dictionary)
    return _map_codes(translation, column.codes)


def _map_codes(translation: Codes, codes: Codes) -> Codes:
    if not len(translation):
        return np.full(len(codes), -1, dtype=np.int64)
    translated = translation[codes]
    missing = codes < 0
    if missing.any():
        translated[missing] = -1
    return translated


def expand_ranges(starts: Codes, codes: Codes) -> tuple[Codes, Codes]:
    """Return two arrays, with one element for each index in `starts[code] : starts[code + 1]` of each code.

    They are the position of the code in `codes`, and the index. The code -1 has no indices.
    """
    if len(starts) < 2:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty
    begins, counts = range_counts(starts, codes)
    positions = np.repeat(np.arange(len(codes)), counts)
    before = np.cumsum(counts) - counts
    indices = np.arange(len(positions)) + np.repeat(begins - before, counts)
    return positions, indices


def range_counts(starts: Codes, codes: Codes) -> tuple[Codes, Codes]:
    """Return the begin and the length of the range of each code; -1 has length 0."""
    begins = starts[codes]
    counts = starts[codes + 1] - begins
    missing = codes < 0
    if missing.any():
        counts[missing] = 0
    return begins, counts


def output_slices(sizes: Codes, output_rows_max: int) -> Iterator[tuple[int, int]]:
    """Yield slices of rows that produce at most `output_rows_max` rows together, or that have one row."""
    total = np.cumsum(sizes)
    start, done = 0, 0
    while start < len(sizes):
        stop = max(int(np.searchsorted(total, done + output_rows_max, side="right")), start + 1)
        yield start, stop
        done = int(total[stop - 1])
        start = stop


def distinct_values(column: Column) -> tuple[DictionaryColumn, Codes]:
    """Return the distinct values, and for each row the position of its value in them, -1 for null."""
    if not isinstance(column, DictionaryColumn) or not column.dictionary.is_unique:
        codes, distinct = encode_values(array_of(column))
        return DictionaryColumn(np.arange(len(distinct)), distinct), codes
    used, numbers = compact_codes(column.codes, len(column.dictionary))
    return DictionaryColumn(used, column.dictionary), numbers
