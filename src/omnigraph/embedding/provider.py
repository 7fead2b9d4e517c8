"""Texts that a query gives to `nearest` become vectors before it runs.

Comes in: a bound plan and the provider that the caller gave. Goes out: a plan whose texts are vectors of the property's
length. Every text is embedded once per run. What the provider does is its own; nothing here talks to a network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EmbeddingProvider:
    """Makes vectors from the texts that a query gives to `nearest`."""

    embed: Callable[[str], Sequence[float]]
    """Makes the vector of a text, as long as the property's."""
    model: str | None = None
    """The model's name. It must be the one of `@embed(…, model="…")`, when the schema names one."""
