"""The order of ids by their bytes, which is that of their characters too.

Arrow compares texts one pair at a time. Most ids differ within a few bytes after what all of them begin with, so those
bytes are compared as one number instead, and only ids that are alike in them are compared as texts.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, text_buffers

_DIGITS: Final = 8
_ALIKE_SHARE_MAX: Final = 0.1

Order = npt.NDArray[np.int64]


def id_order(ids: Column) -> Column | None:
    """The places of distinct ids in ascending order; None when they are in it already."""
    if pc.all(pc.less(ids[:-1], ids[1:])).as_py() is not False:
        return None
    keys = _beginnings(ids)
    order: Order = np.argsort(keys, kind="stable")
    keys = keys[order]
    same = keys[1:] == keys[:-1]
    alike = np.zeros(len(order), dtype=np.bool_)
    alike[1:] |= same
    alike[:-1] |= same
    if alike.mean() > _ALIKE_SHARE_MAX:
        slow: Column = pc.sort_indices(ids)
        return slow
    if alike.any():
        some = order[alike]
        order[alike] = some[_sorted_places(ids.take(pa.array(some)))]
    return pa.array(order)


def place_of(ids: Column, bound: str) -> int:
    """How many of some ordered ids lie before a bound."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        if str(ids[middle].as_py()) < bound:
            low = middle + 1
        else:
            high = middle
    return low


def _beginnings(ids: Column) -> npt.NDArray[np.uint64]:
    """The first bytes behind what all ids share, as one number; a shorter id is filled up with zeros."""
    extremes: Any = pc.min_max(ids).as_py()
    least, greatest = extremes["min"].encode(), extremes["max"].encode()
    pairs = enumerate(zip(least, greatest, strict=False))
    shared = next((at for at, (a, b) in pairs if a != b), min(len(least), len(greatest)))
    offsets, data = text_buffers(ids)
    padded = np.concatenate([data[: offsets[-1]], np.zeros(shared + _DIGITS, dtype=np.uint8)])
    keys = np.zeros(len(ids), dtype=np.uint64)
    for digit in range(shared, shared + _DIGITS):
        at = offsets[:-1] + digit
        keys <<= np.uint64(8)
        keys |= np.where(at < offsets[1:], padded[at], 0).astype(np.uint64)
    return keys


def _sorted_places(texts: Column) -> Order:
    places: Any = pc.sort_indices(texts).to_numpy(zero_copy_only=False)
    answer: Order = places.astype(np.int64)
    return answer
