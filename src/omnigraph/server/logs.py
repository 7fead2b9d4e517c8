"""The log of a server on stderr: one line per request, as text or as JSON. It never contains a token."""

from __future__ import annotations

import json
import logging
import sys
import time
from functools import lru_cache
from typing import Final

from omnigraph.base.progress import JsonLines

LOGGER: Final = logging.getLogger("omnigraph.server")
_TIME: Final = "%Y-%m-%dT%H:%M:%S%z"


def start_log(*, as_json: bool) -> None:
    """Write the log of the server to stderr."""
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # no line has them
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else _TextLines("%(asctime)s %(message)s"))
    LOGGER.handlers[:] = [handler]
    LOGGER.propagate = False
    LOGGER.setLevel(logging.INFO)


def log_event(event: str, *, error: BaseException | None = None, **facts: object) -> None:
    """Log an event with its facts, without those that are None; with an error, also its traceback."""
    facts = {name: value for name, value in facts.items() if value is not None}
    level = logging.INFO if error is None else logging.ERROR
    if LOGGER.isEnabledFor(level):
        traceback = None if error is None else (type(error), error, error.__traceback__)
        record = logging.LogRecord(LOGGER.name, level, "", 0, event, None, traceback)  # `log` would walk the stack
        record.facts = facts
        LOGGER.handle(record)


class _TextLines(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802  # theirs
        return _format_second(int(record.created))

    def format(self, record: logging.LogRecord) -> str:
        head, *traceback = super().format(record).split("\n")
        return "\n".join([" ".join([head, *(f"{name}={_plain(value)}" for name, value in _facts(record))]), *traceback])


@lru_cache(1)
def _format_second(seconds: int) -> str:
    """Return a time of the log. Lines of one second have the same."""
    return time.strftime(_TIME, time.localtime(seconds))


def _plain(value: object) -> str:
    """Return a value without blanks and control characters, so that a client cannot write lines of the log."""
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)


def _facts(record: logging.LogRecord) -> list[tuple[str, object]]:
    return list(getattr(record, "facts", {}).items())
