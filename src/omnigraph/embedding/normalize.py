"""Checks a vector of a provider and scales it to length 1. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from omnigraph.base.errors import RunError

_EPSILON: Final = float(np.finfo(np.float32).eps)


class InvalidVectorError(ValueError):
    """A provider returned something that is not a usable vector. The text says what was expected."""


def no_usable_vector(reason: str) -> RunError:
    """Return the error of a provider or model that is not the one of the graph."""
    return RunError(
        f"no usable vector from the embedding provider: {reason}",
        code="embedding_malformed",
        hint="Use the provider and the model that created the vectors of the graph.",
    )


def normalize(values: Sequence[float], size: int) -> tuple[float, ...]:
    """Return the vector with length 1 as 32-bit values; raise if it has another size, or is not finite, or is zero."""
    if len(values) != size:
        raise InvalidVectorError(f"expected {size:,} numbers, got {len(values):,}")
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidVectorError("expected numbers") from error
    if not np.isfinite(vector).all():
        raise InvalidVectorError("expected finite numbers, got NaN or infinity")
    norm = math.sqrt(float(vector @ vector))
    if not math.isfinite(norm):
        vector = vector / np.abs(vector).max()
        norm = math.sqrt(float(vector @ vector))
    if norm <= _EPSILON:
        raise InvalidVectorError("expected a vector with a direction, got zero")
    return tuple((vector / norm).astype(np.float32).tolist())
