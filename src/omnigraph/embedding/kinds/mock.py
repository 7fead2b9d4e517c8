"""Vectors that depend only on the text, without a network: for tests, demos and offline work. Pure.

They say nothing about meaning: similar texts have unrelated vectors. The same text always has the same vector.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from omnigraph.embedding.normalize import normalize

_FNV_OFFSET: Final = 14695981039346656037
_FNV_PRIME: Final = 1099511628211
_MASK: Final = 2**64 - 1


def make_mock_vector(text: str, size: int) -> tuple[float, ...]:
    """Return the vector of a text, with length 1."""
    seed = _FNV_OFFSET
    for byte in text.encode("utf-8"):
        seed = ((seed ^ byte) * _FNV_PRIME) & _MASK
    values: list[float] = []
    for _ in range(size):
        seed ^= (seed << 13) & _MASK
        seed ^= seed >> 7
        seed ^= (seed << 17) & _MASK
        values.append(float(np.float32(seed / _MASK)) * 2 - 1)
    return normalize(values, size)
