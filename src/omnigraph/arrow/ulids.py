"""Many new ULIDs in one call.

The ULIDs of one call share the millisecond and a random prefix and count up from a random number. So they are sorted,
which makes them cheap to store and to index. Two calls, in any process on any machine, differ in their random bits: 40
bits of the prefix, and about 40 bits of the first number.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.arrow.columns import Column
from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.ids import CROCKFORD, ULID_LENGTH, crockford_text

_LETTERS: Final = np.frombuffer(CROCKFORD.encode(), dtype=np.uint8)
_TIME_DIGITS: Final = 10
_COUNT_DIGITS: Final = 8
_COUNT_BITS: Final = 5 * _COUNT_DIGITS
_SHARED_BITS: Final = 40


def new_ulids(count: int, clock: Clock = SYSTEM_CLOCK, random: Callable[[int], int] = secrets.randbelow) -> Column:
    """Return new ULIDs in ascending order. `random` returns a number below its argument."""
    assert 0 <= count <= limits.ULIDS_PER_CALL_MAX, "at most the rows of one batch"
    time_text = crockford_text(clock.now_us() // 1000, _TIME_DIGITS)
    prefix = time_text + crockford_text(random(2**_SHARED_BITS), _SHARED_BITS // 5)
    numbers = np.arange(count, dtype=np.uint64) + np.uint64(random(2**_COUNT_BITS - count))
    letters = np.empty((count, ULID_LENGTH), dtype=np.uint8)
    letters[:, : len(prefix)] = np.frombuffer(prefix.encode(), dtype=np.uint8)
    for position in range(_COUNT_DIGITS):
        shift = np.uint64(5 * (_COUNT_DIGITS - 1 - position))
        letters[:, len(prefix) + position] = _LETTERS[(numbers >> shift) & np.uint64(31)]
    offsets = np.arange(0, ULID_LENGTH * (count + 1), ULID_LENGTH, dtype=np.int32)
    wrap: Any = pa.py_buffer
    buffers = [None, wrap(offsets), wrap(letters)]
    return pa.Array.from_buffers(pa.utf8(), count, buffers)
