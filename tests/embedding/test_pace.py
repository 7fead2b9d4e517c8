"""The limit of requests per minute: shares, and waits on a clock that the test advances."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from omnigraph.embedding.pace import PacedClock, RequestPace, share_pace


@dataclass
class RecordingClock:
    """A clock whose waits take no real time."""

    seconds: float = 0.0
    waits: list[float] = field(default_factory=list)

    def now_us(self) -> int:
        return int(self.seconds * 1_000_000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds


@pytest.mark.parametrize(
    ("rate", "tasks", "idle_seconds", "expected"),
    [
        (None, 4, 0.0, None),
        (60, 1, float("inf"), RequestPace(1.0, 0.0)),
        (60, 4, float("inf"), RequestPace(4.0, 0.0)),
        (60, 4, 1.5, RequestPace(4.0, 2.5)),
        (60, 4, 10.0, RequestPace(4.0, 0.0)),
    ],
)
def test_shares(rate: int | None, tasks: int, idle_seconds: float, expected: RequestPace | None) -> None:
    assert share_pace(rate, tasks, idle_seconds) == expected


def test_waits() -> None:
    clock = RecordingClock()
    pace = PacedClock(RequestPace(4.0, 2.5), clock)
    waits = [pace.wait(), pace.wait()]
    clock.seconds += 3.0
    waits.append(pace.wait())
    clock.seconds += 9.0
    waits.append(pace.wait())
    assert waits == [2.5, 4.0, 1.0, 0.0]
    assert clock.waits == [2.5, 4.0, 1.0]
