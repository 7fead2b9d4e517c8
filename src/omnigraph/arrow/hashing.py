"""Hashes of strings and rows that are the same in every process, on every machine and in every release.

In: whole Arrow columns. Out: 64-bit hashes, buckets of keys (all rows with one key belong to one task) and digests of
rows. The hash is not cryptographic: to decide that two strings are equal, compare the strings. The bytes of a string
are the digits of a number with a large odd radix, modulo 2**64; running sums give the numbers of a whole column.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Mask, Rows, text_buffers
from omnigraph.base import limits

Hashes = npt.NDArray[np.uint64]

_RADIX: Final = 0x9E3779B97F4A7C15
_INVERSE: Final = pow(_RADIX, -1, 2**64)
_EQUAL_LENGTH_MAX: Final = 64  # as ids of a fixed form have it; the columns of longer strings are far apart in memory
_FEW_POWERS: Final = 4096  # computing them takes less time than the first use of the cached ones
_LENGTH_FACTOR: Final = np.uint64(0xD6E8FEB86659FD93)
_PREFILTER_FACTOR: Final = 16  # so at most 1 of 16 other strings, and at least 1 of 32, passes
_MIX_FACTORS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_NOT_NULL: Final = np.uint64(0x9E3779B97F4A7C15)


def hash_texts(texts: Column) -> Hashes:
    """Return a 64-bit hash of each string; the hash of null has no meaning."""
    offsets, data = text_buffers(texts)
    hashes = np.zeros(len(texts), dtype=np.uint64)
    for start, stop in _chunks(offsets):
        bounds = offsets[start : stop + 1] - offsets[start]
        part = data[offsets[start] : offsets[stop]]
        hashes[start:stop] = _numbers(bounds, part)
    hashes += np.diff(offsets).astype(np.uint64) * _LENGTH_FACTOR
    return mix_bits(hashes)


def bucket_of(texts: Column, buckets: int) -> npt.NDArray[np.int32]:
    """Return the bucket of each string, from 0."""
    assert buckets > 0, "at least one bucket"
    return (hash_texts(texts) % np.uint64(buckets)).astype(np.int32)


class HashPrefilter:
    """A fast filter by hashes that rejects most strings that are not in a set."""

    def __init__(self, texts: Column) -> None:
        self._mask = np.uint64((1 << (_PREFILTER_FACTOR * len(texts)).bit_length()) - 1)
        self._slots = np.zeros(int(self._mask) + 1, dtype=np.bool_)
        self._slots[hash_texts(texts) & self._mask] = True

    def may_contain(self, texts: Column) -> Mask:
        """Return False for strings that are certainly not in the set. True can be wrong, for a few strings."""
        possible: Mask = self._slots[hash_texts(texts) & self._mask]
        return possible


def _chunks(offsets: Rows) -> Iterator[tuple[int, int]]:
    """Return ranges of rows whose bytes fit the processor's cache, at least one row each."""
    start, rows = 0, len(offsets) - 1
    while start < rows:
        fitting = int(np.searchsorted(offsets, offsets[start] + limits.TEXT_HASH_CHUNK_BYTES, side="right")) - 1
        stop = min(max(fitting, start + 1), rows)
        yield start, stop
        start = stop


def _numbers(bounds: Rows, data: npt.NDArray[np.uint8]) -> Hashes:
    """Return each string as a number in base `_RADIX`; a digit is a byte plus one, so that zero bytes count too."""
    length = int(bounds[1])
    if 0 < length <= _EQUAL_LENGTH_MAX and (np.diff(bounds) == length).all():
        return _numbers_of_equal_lengths(data.reshape(-1, length))
    powers = _powers(_RADIX, len(data))
    sums = np.zeros(len(data) + 1, dtype=np.uint64)
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers, out=sums[1:])
    return (sums[bounds[1:]] - sums[bounds[:-1]]) * _powers(_INVERSE, len(data) + 1)[bounds[:-1]]


def _numbers_of_equal_lengths(texts: npt.NDArray[np.uint8]) -> Hashes:
    """Return the same numbers, by one operation per byte over all strings, which is several times faster."""
    numbers = np.zeros(len(texts), dtype=np.uint64)
    for position in reversed(range(texts.shape[1])):
        numbers *= np.uint64(_RADIX)
        numbers += texts[:, position]
        numbers += np.uint64(1)
    return numbers


def _powers(base: int, count: int) -> Hashes:
    if _FEW_POWERS < count <= limits.TEXT_HASH_CHUNK_BYTES + 1:
        return _first_powers(base)[:count]
    return _computed_powers(base, count)


@cache
def _first_powers(base: int) -> Hashes:
    return _computed_powers(base, limits.TEXT_HASH_CHUNK_BYTES + 1)


def _computed_powers(base: int, count: int) -> Hashes:
    factors = np.full(count, base, dtype=np.uint64)
    factors[:1] = 1
    return np.cumprod(factors)


def mix_bits(numbers: Hashes) -> Hashes:
    """Mix the numbers in place, so that every bit of a number depends on all its bits, and return them."""
    numbers ^= numbers >> np.uint64(30)
    numbers *= _MIX_FACTORS[0]
    numbers ^= numbers >> np.uint64(27)
    numbers *= _MIX_FACTORS[1]
    numbers ^= numbers >> np.uint64(31)
    return numbers


def digest_rows(batch: pa.RecordBatch, without: str) -> Hashes:
    """Return the digest of each row over every column but one."""
    total = np.zeros(batch.num_rows, dtype=np.uint64)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name != without:
            total += mix_bits(_digest(column) * _factor(name))
    return total


def _digest(column: Column) -> Hashes:
    """Return a number for each value: 0 for null, and never 0 for other values."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    values = _hash_values(column)
    values = mix_bits(values + _NOT_NULL) | np.uint64(1)
    if column.null_count:
        values[np.asarray(column.is_null())] = 0
    return values


def _hash_values(column: Column) -> Hashes:
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        return _digest_lists(column, np.full(len(column), kind.list_size, dtype=np.int64))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _digest_lists(column, _as_numpy(pc.list_value_length(column).fill_null(0)).astype(np.int64))
    if pa.types.is_struct(kind):
        return _digest_structs(column)
    if pa.types.is_string(kind):
        return hash_texts(column.fill_null(""))
    if pa.types.is_large_string(kind):
        return hash_texts(column.cast(pa.utf8()).fill_null(""))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return hash_texts(pa.array([(value or b"").hex() for value in column.to_pylist()], pa.utf8()))
    return _digest_numbers(column)


def _digest_numbers(column: Column) -> Hashes:
    kind = column.type
    if pa.types.is_floating(kind):
        return _as_numpy(column.cast(pa.float64()).fill_null(0)).astype(np.float64).view(np.uint64)
    if pa.types.is_boolean(kind):
        return _as_numpy(column.cast(pa.uint8()).fill_null(0)).astype(np.uint64)
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_integer(column.type):
        return _as_numpy(column.fill_null(0)).astype(np.uint64)
    return hash_texts(pa.array([repr(value) for value in column.to_pylist()], pa.utf8()))


def _digest_structs(column: Any) -> Hashes:
    total = np.zeros(len(column), dtype=np.uint64)
    for position, field in enumerate(column.type):
        total += mix_bits(_digest(column.field(position)) * _factor(field.name))
    return total


def _digest_lists(column: Any, lengths: npt.NDArray[np.int64]) -> Hashes:
    """Return the digest of lists from every item, its position and the length. Items of a null list do not count."""
    if column.null_count:
        lengths = np.where(np.asarray(column.is_null()), 0, lengths)
        column = column.filter(column.is_valid())
    items = _digest(column.flatten())
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    positions = np.arange(len(items), dtype=np.int64) - np.repeat(starts[:-1], lengths)
    sums = np.zeros(len(items) + 1, dtype=np.uint64)
    np.cumsum(mix_bits(items + _NOT_NULL * (positions.astype(np.uint64) + np.uint64(1))), out=sums[1:])
    return sums[starts[1:]] - sums[starts[:-1]] + lengths.astype(np.uint64) * _NOT_NULL


def _factor(name: str) -> np.uint64:
    return np.uint64(hash_texts(pa.array([name], pa.utf8()))[0] | np.uint64(1))


def _as_numpy(column: Any) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values
