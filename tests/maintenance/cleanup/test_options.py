"""Durations of cleanup options."""

from __future__ import annotations

from datetime import timedelta

import pytest

from omnigraph.base.errors import UsageError
from omnigraph.maintenance.cleanup.options import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("12h", 43_200), ("7d", 604_800), ("2w", 1_209_600), ("0s", 0)]
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1.5h", "7 d", "7D", "1y", "1d2h", "٣d", "999999999w"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration(text)
    assert caught.value.code == "duration_malformed"
