"""Decides whether a failed request to a provider is sent again, and when. Pure."""

from __future__ import annotations

from typing import Final

from omnigraph.embedding.settings import EmbeddingSettings

_RETRIED: Final = frozenset({408, 409, 429})
_SPLIT: Final = frozenset({400, 413, 422})
_PAUSE_SECONDS_MAX: Final = 30.0


def is_retried(status: int | None) -> bool:
    """Return whether the same request may succeed later. None: there was no complete response."""
    return status is None or status in _RETRIED or 500 <= status <= 599


def is_split(status: int | None) -> bool:
    """Return whether a smaller request may succeed: the provider rejected a text, or the size of the batch."""
    return status in _SPLIT


def pause_seconds(settings: EmbeddingSettings, attempt: int, retry_after: str | None, jitter: float) -> float:
    """Return how long to wait after an attempt, counted from 1. `jitter` is a random number from 0 to 1."""
    if retry_after is not None and retry_after.strip().isdigit():
        return min(float(retry_after), _PAUSE_SECONDS_MAX)
    doubled = settings.backoff_seconds * 2 ** (attempt - 1)
    return float(min(doubled, _PAUSE_SECONDS_MAX) * (0.5 + jitter / 2))
