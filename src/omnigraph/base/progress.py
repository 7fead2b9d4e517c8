"""How far a piece of bulk work is, as values. Whoever asked for the work decides what to show of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One moment of one step. Tasks are counted as they finish; what is not known yet is None.

    `rows` and `bytes` are sums over finished tasks. `bytes_total` is what all tasks together will report, so that
    a reader of events can tell what remains; without it only the tasks say so.
    """

    step: str
    seconds: float
    tasks_done: int
    tasks_total: int
    rows: int | None = None
    bytes: int | None = None
    bytes_total: int | None = None
    is_last: bool = False


Report = Callable[[Progress], None]


def report_nothing(_: Progress) -> None:
    """For callers that do not want to know."""
