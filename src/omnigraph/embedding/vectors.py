"""Vectors of length 1: checks those of a provider, and computes mock vectors from texts. Pure.

Mock vectors are for tests, demos and offline work. They say nothing about meaning: similar texts have unrelated ones,
and the same text always has the same one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from omnigraph.base.errors import RunError

Vector = np.ndarray[Any, np.dtype[np.float32]]

_EPSILON: Final = float(np.finfo(np.float32).eps)
_FNV_OFFSET: Final = 14695981039346656037
_FNV_PRIME: Final = 1099511628211
_MASK: Final = 2**64 - 1


class InvalidVectorError(ValueError):
    """A provider returned something that is not a usable vector. The text says what was expected."""


def no_usable_vector(reason: str, hint: str = "") -> RunError:
    """Return the error for a provider whose response has no vectors that the graph can use."""
    return RunError(
        f"no usable vector from the embedding provider: {reason}",
        code="embedding_malformed",
        hint=hint or "Use the provider and the model that created the vectors of the graph.",
    )


def require_length(vectors: Sequence[Sequence[float]], size: int) -> None:
    """Raise if no vector has the length of the property: then the model is the wrong one, not a text."""
    if any(len(vector) == size for vector in vectors):
        return
    length = len(vectors[0])
    raise no_usable_vector(
        f"expected {size:,} numbers, got {length:,}",
        f"Use a model with vectors of {size:,} numbers, or declare the property as `Vector({length})`.",
    )


def normalize(values: Sequence[float], size: int) -> Vector:
    """Return the vector with length 1 as 32-bit values; raise if it has another size, or is not finite, or is zero."""
    if len(values) != size:
        raise InvalidVectorError(f"expected {size:,} numbers, got {len(values):,}")
    try:
        vector = np.asarray(values, dtype=np.float64).reshape(size)
    except (TypeError, ValueError) as error:
        raise InvalidVectorError("expected numbers") from error
    norm = math.hypot(*vector.tolist())
    if not math.isfinite(norm):
        raise InvalidVectorError("expected finite numbers, got NaN or infinity")
    if norm <= _EPSILON:
        raise InvalidVectorError("expected a vector with a direction, got zero")
    return (vector / norm).astype(np.float32)


def make_mock_vector(text: str, size: int) -> Vector:
    """Return the mock vector of a text: FNV-1a of its bytes is the seed of xorshift64."""
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
