"""Durations as people type them: a whole number and one of `s m h d w`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from omnigraph.base.errors import UsageError

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION: Final = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """`90s`, `15m`, `12h`, `7d` or `2w`."""
    found = _DURATION.fullmatch(text)
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else _refuse(text)
    except OverflowError:
        return _refuse(text)


def _refuse(text: str) -> timedelta:
    raise UsageError(
        f"'{text}' is no duration",
        code="duration_malformed",
        hint="write a whole number and s, m, h, d or w, as 90s, 12h or 7d",
    )
