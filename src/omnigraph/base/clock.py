"""The clock that other packages use, and times as text.

In: microseconds since the epoch. Out: RFC 3339 text, or an age such as `3d`. Tests pass their own `Clock`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

_MONOTONIC: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """The source of time for everything that waits or stores a time."""

    def now_us(self) -> int:
        """Return microseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never decrease and include sleep; comparable only on this machine."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.clock_gettime(_MONOTONIC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


SYSTEM_CLOCK: Clock = SystemClock()

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def to_datetime(microseconds: int) -> datetime:
    """Return microseconds since the epoch as a datetime in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def format_timestamp(microseconds: int) -> str:
    """Return microseconds since the epoch as RFC 3339 text in UTC, with all digits, as `as_of` accepts it."""
    return to_datetime(microseconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def format_age(microseconds: int, now_us: int) -> str:
    """Return how long ago a time was, in the largest unit that fits: 3d, 5h, 12m, 40s."""
    seconds = max(0, (now_us - microseconds) // 1_000_000)
    size, unit = next((unit for unit in _UNITS if seconds >= unit[0]), _UNITS[-1])
    return f"{seconds // size}{unit}"
