"""Points in time as people read and write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def moment(microseconds: int) -> str:
    """Microseconds since the epoch as RFC 3339 in UTC. Nothing is cut off, so that `--at` finds what it was told."""
    exact = _EPOCH + timedelta(microseconds=microseconds)
    return exact.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str | None) -> datetime | None:
    """A time as it is given to `--at`."""
    if text is None:
        return None
    from omnigraph.graph.moments import parse_moment

    return _EPOCH + timedelta(microseconds=parse_moment(text))


def age(microseconds: int, now_us: int) -> str:
    """How long ago that was, in the largest unit that fits: 3d, 5h, 12m, 40s."""
    seconds = max(0, (now_us - microseconds) // 1_000_000)
    size, unit = next((one for one in _UNITS if seconds >= one[0]), _UNITS[-1])
    return f"{seconds // size}{unit}"
