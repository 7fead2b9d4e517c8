"""When requests are sent: tables of failures and pauses, the header `Retry-After`, and the limit per minute."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from omnigraph.embedding.settings import EmbeddingSettings, ProviderKind
from omnigraph.embedding.waits import RequestPace, is_retried, is_split, parse_retry_after, pause_seconds, share_pace

NOW = datetime(2026, 11, 18, 9, 30, 0, tzinfo=UTC)


@pytest.mark.parametrize(("status", "retried", "split"), [
    (None, True, False), (400, False, True), (401, False, False), (408, True, False), (409, True, False),
    (413, False, True), (422, False, True), (429, True, False), (500, True, False), (503, True, False),
])  # fmt: skip
def test_which_failures_are_retried(status: int | None, retried: bool, split: bool) -> None:
    assert (is_retried(status), is_split(status)) == (retried, split)


@pytest.mark.parametrize(("attempt", "requested", "jitter", "expected"), [
    (1, None, 1.0, 0.2), (2, None, 1.0, 0.4), (3, None, 1.0, 0.8), (20, None, 1.0, 30.0), (1, None, 0.0, 0.1),
    (1, 2.0, 0.5, 2.0), (3, 3600.0, 0.5, 30.0), (1, -5.0, 0.5, 0.0),
])  # fmt: skip
def test_pauses(attempt: int, requested: float | None, jitter: float, expected: float) -> None:
    settings = EmbeddingSettings(kind=ProviderKind.MOCK, base_url="", model="", key_variable=None)
    assert pause_seconds(settings, attempt, requested, jitter) == pytest.approx(expected)


@pytest.mark.parametrize(("text", "expected"), [
    (None, None), ("2", 2.0), (" 120 ", 120.0), ("Wed, 18 Nov 2026 09:30:07 GMT", 7.0),
    ("Wed, 18 Nov 2026 09:29:00 GMT", -60.0), ("Wed, 18 Nov 2026 09:30:07", 7.0), ("soon", None), ("", None),
    ("-1", None), ("1.5", None),
])  # fmt: skip
def test_retry_after(text: str | None, expected: float | None) -> None:
    assert parse_retry_after(text, NOW) == expected


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


@pytest.mark.parametrize(
    ("previous", "now", "expected"), [(None, 9.0, 2.5), (9.0, 9.0, 4.0), (9.0, 12.0, 1.0), (9.0, 20.0, 0.0)]
)
def test_waits_of_a_pace(previous: float | None, now: float, expected: float) -> None:
    assert RequestPace(4.0, 2.5).wait_seconds(previous, now) == expected
