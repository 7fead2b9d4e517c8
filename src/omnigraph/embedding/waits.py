"""Decides when requests to a provider are sent: again after a failure, and how many per minute. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from omnigraph.embedding.settings import EmbeddingSettings

_RETRIED: Final = frozenset({408, 409, 429})
_SPLIT: Final = frozenset({400, 413, 422})
_PAUSE_SECONDS_MAX: Final = 30.0
_MINUTE_SECONDS: Final = 60.0


def is_retried(status: int | None) -> bool:
    """Return whether the same request may succeed later. None: there was no complete response."""
    return status is None or status in _RETRIED or 500 <= status <= 599


def is_split(status: int | None) -> bool:
    """Return whether a smaller request may succeed: the provider rejected a text, or the size of the batch."""
    return status in _SPLIT


def pause_seconds(settings: EmbeddingSettings, attempt: int, requested: float | None, jitter: float) -> float:
    """Return how long to wait after an attempt, counted from 1. `jitter` is a random number from 0 to 1."""
    if requested is not None:
        return min(max(0.0, requested), _PAUSE_SECONDS_MAX)
    doubled = settings.backoff_seconds * 2 ** (attempt - 1)
    return float(min(doubled, _PAUSE_SECONDS_MAX) * (0.5 + jitter / 2))


def parse_retry_after(text: str | None, now: datetime) -> float | None:
    """Return the seconds of a header `Retry-After`, a number or a date; None if it is missing or malformed."""
    if text is None or text.strip().isdecimal():
        return None if text is None else float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()


@dataclass(frozen=True, slots=True)
class RequestPace:
    """The shortest time between two requests of one task, also repeated ones, and the wait before the first one."""

    interval_seconds: float
    delay_seconds: float = 0.0

    def wait_seconds(self, previous: float | None, now: float) -> float:
        """Return how long to wait for the next request; `previous` is the time of the one before."""
        return self.delay_seconds if previous is None else max(0.0, previous + self.interval_seconds - now)


def share_pace(requests_per_minute: int | None, tasks: int, idle_seconds: float) -> RequestPace | None:
    """Return the pace of each of `tasks` tasks; None without a limit. `idle_seconds` have passed since a request."""
    if requests_per_minute is None:
        return None
    interval = _MINUTE_SECONDS * tasks / requests_per_minute
    return RequestPace(interval, max(0.0, interval - idle_seconds))
