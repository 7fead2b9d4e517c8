"""The provider that creates vectors from the text arguments of `nearest`. The caller passes it; it may use a network.

This module is separate from `engine`, because the Python API exports it without the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EmbeddingProvider:
    """Creates vectors from the text arguments of `nearest`."""

    embed: Callable[[str], Sequence[float]]
    """Return the vector of a text, with as many numbers as the property."""
    model: str | None = None
    """The name of the model. If the schema has `@embed(…, model="…")`, both names must be equal."""
