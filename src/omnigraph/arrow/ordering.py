"""The order of ids by their bytes, which is also the order of their characters.

In: columns of distinct ids. Out: positions. Arrow compares strings one pair at a time. Most ids differ within a few
bytes after their common prefix, so these bytes are compared as one number, and only ids with equal numbers are compared
as strings.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, text_buffers

_KEY_BYTES: Final = 8
"""The bytes that are compared as one number: those of an unsigned 64-bit integer."""
_TIED_SHARE_MAX: Final = 0.1
"""Above this share of ids with equal numbers, Arrow sorts all ids: sorting them twice would take longer."""

Order = npt.NDArray[np.int64]


def sort_ids(ids: Column) -> Column | None:
    """Return the positions of distinct ids in ascending order; None if they are already sorted."""
    if pc.all(pc.less(ids[:-1], ids[1:])).as_py() is not False:  # None for fewer than two ids, which are sorted
        return None
    keys = _prefix_numbers(ids)
    order: Order = np.argsort(keys, kind="stable")
    keys = keys[order]
    equals_previous = keys[1:] == keys[:-1]
    tied = np.zeros(len(order), dtype=np.bool_)
    tied[1:] |= equals_previous
    tied[:-1] |= equals_previous
    if tied.mean() > _TIED_SHARE_MAX:
        positions: Column = pc.sort_indices(ids)
        return positions
    if tied.any():
        unsorted = order[tied]
        sorted_positions: Any = pc.sort_indices(ids.take(pa.array(unsorted))).to_numpy(zero_copy_only=False)
        order[tied] = unsorted[sorted_positions.astype(np.int64)]
    return pa.array(order)


def count_below(ids: Column, bound: str) -> int:
    """Return how many of the sorted ids are less than a bound."""
    return bisect_left(ids, bound, key=lambda text: str(text.as_py()))


def _prefix_numbers(ids: Column) -> npt.NDArray[np.uint64]:
    """Return the first bytes after the common prefix as one number; shorter ids are padded with zeros."""
    extremes: Any = pc.min_max(ids).as_py()
    # The order is by bytes, so every id between two ids with a common prefix has that prefix too.
    least, greatest = extremes["min"].encode(), extremes["max"].encode()
    pairs = enumerate(zip(least, greatest, strict=False))
    prefix_length = next((position for position, (low, high) in pairs if low != high), min(len(least), len(greatest)))
    offsets, data = text_buffers(ids)
    # `np.where` reads a byte for every id, also beyond the end of the last one. The zeros make these reads valid.
    padded = np.concatenate([data[: offsets[-1]], np.zeros(prefix_length + _KEY_BYTES, dtype=np.uint8)])
    keys = np.zeros(len(ids), dtype=np.uint64)
    for byte in range(prefix_length, prefix_length + _KEY_BYTES):
        positions = offsets[:-1] + byte
        keys <<= np.uint64(8)
        keys |= np.where(positions < offsets[1:], padded[positions], 0).astype(np.uint64)
    return keys
