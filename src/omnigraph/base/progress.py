"""Progress of bulk work as values, and events for the log.

In: counts of tasks, rows and bytes. Out: `Progress` values for the caller's `report` function, and log records with
facts, which a log file has as lines of JSON. Never prints: the caller decides what to show.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from omnigraph.base.errors import Fact


def log_event(
    logger: logging.Logger, message: str, /, *, level: int = logging.INFO, in_result: bool = False, **facts: Fact
) -> None:
    """Log one event. The logger's name starts with `omnigraph.`.

    `in_result`: the event is also part of the result, so a command does not print it again.
    """
    logger.log(level, message, extra={"facts": facts, "in_result": in_result})


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, logger, event, the facts of the event, and its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of one step, as `report` receives it. A number that is not known yet is None."""

    step: str
    """The name of the step, such as `load`, `check`, `sort` or `index`."""
    seconds: float
    """The time of the step so far."""
    tasks_done: int
    """The number of finished tasks."""
    tasks_total: int
    """The number of tasks."""
    rows: int | None = None
    """The rows of the finished tasks."""
    bytes: int | None = None
    """The bytes of the finished tasks."""
    bytes_total: int | None = None
    """The bytes of all tasks; None if they are not known in advance."""
    is_last: bool = False
    """Whether this is the last report of the step."""


Report = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Ignore progress."""
