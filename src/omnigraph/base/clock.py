"""Points in time as people read and write them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

_STEADY: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """What the rooms may ask about time."""

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back and go on while the machine sleeps; comparable on this machine only."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's own time."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.clock_gettime(_STEADY)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


SYSTEM_CLOCK: Clock = SystemClock()

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def datetime_of(microseconds: int) -> datetime:
    """Return microseconds since the epoch as a datetime in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def moment(microseconds: int) -> str:
    """Microseconds since the epoch as RFC 3339 in UTC. Nothing is cut off, so that `--at` finds what it was told."""
    return datetime_of(microseconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def age(microseconds: int, now_us: int) -> str:
    """How long ago that was, in the largest unit that fits: 3d, 5h, 12m, 40s."""
    seconds = max(0, (now_us - microseconds) // 1_000_000)
    size, unit = next((one for one in _UNITS if seconds >= one[0]), _UNITS[-1])
    return f"{seconds // size}{unit}"
