"""Masks as numpy has them, a byte each, and as Arrow has them, a bit each.

Arrow's own conversions look at one bit after another, which takes many times as long as what a query does with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.integrity.raw import Column, Mask


def mask_of(bools: Column) -> Mask:
    """The values of a boolean array that has no nulls."""
    if not len(bools):
        return np.zeros(0, dtype=np.bool_)
    packed: Any = bools.buffers()[1]
    first, skipped = divmod(bools.offset, 8)
    bits = np.frombuffer(packed, dtype=np.uint8)[first:]
    return np.unpackbits(bits, count=skipped + len(bools), bitorder="little")[skipped:].view(np.bool_)


def bool_array(mask: Mask) -> Column:
    """A mask as Arrow has it."""
    return _array(pa.bool_(), len(mask), None, np.packbits(mask, bitorder="little"))


def array_without(values: npt.NDArray[Any], missing: Mask) -> Column:
    """Numbers, null where they are missing. They are not copied, so nobody may change them any more."""
    return _array(pa.from_numpy_dtype(values.dtype), len(values), ~missing, values)


def _array(kind: pa.DataType, length: int, present: Mask | None, data: npt.NDArray[Any]) -> Column:
    validity = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little").data)
    made: Column = pa.Array.from_buffers(kind, length, [validity, pa.py_buffer(data.data)])
    return made
