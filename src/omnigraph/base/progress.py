"""How far a piece of bulk work is, as values. Whoever asked for the work decides what to show of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.base.errors import Fact


def log_event(
    logger: logging.Logger,
    sentence: str,
    *,
    level: int = logging.INFO,
    in_result: bool = False,
    **facts: Fact,
) -> None:
    """Log one event. The logger's name starts with `omnigraph.`.

    `in_result`: the caller also gets this as a part of the result, so a command does not print it twice.
    """
    logger.log(level, sentence, extra={"facts": facts, "in_result": in_result})


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one step of some work is, as `report` is told. What is not known yet is None."""

    step: str
    """What is being done, such as `load`, `check`, `sort` or `index`."""
    seconds: float
    """How long the step has taken so far."""
    tasks_done: int
    """How many tasks have finished."""
    tasks_total: int
    """How many there are."""
    rows: int | None = None
    """How many rows the finished tasks had."""
    bytes: int | None = None
    """How many bytes they had."""
    bytes_total: int | None = None
    """How many bytes all tasks together will have; None when only the tasks tell what remains."""
    is_last: bool = False
    """Whether the step is done."""


Report = Callable[[Progress], None]


def report_nothing(_: Progress) -> None:
    """For callers that do not want to know."""
