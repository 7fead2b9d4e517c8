"""Points in time as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(microseconds: int) -> str:
    """Microseconds since the epoch as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
