"""A hash of texts that is the same in every process, on every machine and in every release, for whole columns.

It decides which bucket a key goes to, so that all rows with one key meet in one task. It is not secret and not made
against attack: whoever needs to know that two texts are equal compares the texts. The bytes of a text are digits of a
number to a large odd radix, modulo 2**64; sums over the whole column give the number of every text at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph.base import limits
from omnigraph.integrity.raw import Column, Mask, Rows, text_buffers

Hashes = npt.NDArray[np.uint64]

_RADIX: Final = 0x9E3779B97F4A7C15
_INVERSE: Final = pow(_RADIX, -1, 2**64)
_LENGTH_FACTOR: Final = np.uint64(0xD6E8FEB86659FD93)
_SIEVE_FACTOR: Final = 16  # so one text in sixteen at most, and one in 32 at least, slips through
_MIX_FACTORS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def hash_texts(texts: Column) -> Hashes:
    """64 bits for each text; what a null hashes to means nothing."""
    offsets, data = text_buffers(texts)
    hashes = np.zeros(len(texts), dtype=np.uint64)
    for start, stop in _chunks(offsets):
        bounds = offsets[start : stop + 1] - offsets[start]
        part = data[offsets[start] : offsets[stop]]
        hashes[start:stop] = _numbers(bounds, part)
    hashes += np.diff(offsets).astype(np.uint64) * _LENGTH_FACTOR
    return mixed(hashes)


def bucket_of(texts: Column, buckets: int) -> npt.NDArray[np.int32]:
    """The bucket, from 0, to which each text belongs."""
    assert buckets > 0, "there is at least one bucket"
    return (hash_texts(texts) % np.uint64(buckets)).astype(np.int32)


class TextSieve:
    """Tells quickly of most texts that they are not among some others, by their hashes alone."""

    def __init__(self, texts: Column) -> None:
        self._mask = np.uint64((1 << (_SIEVE_FACTOR * len(texts)).bit_length()) - 1)
        self._there = np.zeros(int(self._mask) + 1, dtype=np.bool_)
        self._there[hash_texts(texts) & self._mask] = True

    def may_have(self, texts: Column) -> Mask:
        """False where a text is certainly not among them; true for a few that are not."""
        found: Mask = self._there[hash_texts(texts) & self._mask]
        return found


def _chunks(offsets: Rows) -> Iterator[tuple[int, int]]:
    """Rows whose bytes fit the processor's cache, at least one at a time."""
    start, rows = 0, len(offsets) - 1
    while start < rows:
        fitting = (
            int(np.searchsorted(offsets, offsets[start] + limits.TEXT_HASH_CHUNK_BYTES, side="right")) - 1
        )
        stop = min(max(fitting, start + 1), rows)
        yield start, stop
        start = stop


def _numbers(bounds: Rows, data: npt.NDArray[np.uint8]) -> Hashes:
    powers = _powers(_RADIX, len(data))
    sums = np.zeros(len(data) + 1, dtype=np.uint64)
    # A zero byte counts too, so every byte is one more than it is.
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers, out=sums[1:])
    numbers: Hashes = (sums[bounds[1:]] - sums[bounds[:-1]]) * _powers(_INVERSE, len(data) + 1)[bounds[:-1]]
    return numbers


def _powers(base: int, count: int) -> Hashes:
    if count <= limits.TEXT_HASH_CHUNK_BYTES + 1:
        return _first_powers(base)[:count]
    return _computed_powers(base, count)


@cache
def _first_powers(base: int) -> Hashes:
    return _computed_powers(base, limits.TEXT_HASH_CHUNK_BYTES + 1)


def _computed_powers(base: int, count: int) -> Hashes:
    factors = np.full(count, base, dtype=np.uint64)
    factors[:1] = 1
    powers: Hashes = np.cumprod(factors)
    return powers


def mixed(numbers: Hashes) -> Hashes:
    """The numbers, changed in place so that every bit of each reaches every bit of it."""
    numbers ^= numbers >> np.uint64(30)
    numbers *= _MIX_FACTORS[0]
    numbers ^= numbers >> np.uint64(27)
    numbers *= _MIX_FACTORS[1]
    numbers ^= numbers >> np.uint64(31)
    return numbers
