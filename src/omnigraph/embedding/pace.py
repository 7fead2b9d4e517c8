"""Limits the requests per minute: one task sends at most one request, also a repeated one, per interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from omnigraph.base.clock import Clock

_MINUTE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class RequestPace:
    """The shortest time between two requests, and the wait before the first one."""

    interval_seconds: float
    delay_seconds: float = 0.0


def share_pace(requests_per_minute: int | None, tasks: int, idle_seconds: float) -> RequestPace | None:
    """Return the pace of each of `tasks` tasks; None without a limit. `idle_seconds` have passed since a request."""
    if requests_per_minute is None:
        return None
    interval = _MINUTE_SECONDS * tasks / requests_per_minute
    return RequestPace(interval, max(0.0, interval - idle_seconds))


class PacedClock:
    """Waits before each request, so that the requests of one task follow its pace."""

    __slots__ = ("_clock", "_next", "_pace")

    def __init__(self, pace: RequestPace, clock: Clock) -> None:
        self._pace, self._clock = pace, clock
        self._next = clock.monotonic() + pace.delay_seconds

    def wait(self) -> float:
        """Wait until the next request may be sent; return the seconds."""
        now = self._clock.monotonic()
        seconds = max(0.0, self._next - now)
        if seconds:
            self._clock.sleep(seconds)
        self._next = now + seconds + self._pace.interval_seconds
        return seconds
