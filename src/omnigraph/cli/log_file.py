"""`--log-file`: what `omnigraph.*` logs goes to a file as well, one JSON object per line, from level INFO on.

Stderr keeps showing warnings only. The file is appended to and never read. A disk that gets full is told once, and the
command goes on without its log.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import suppress
from datetime import UTC, datetime

import typer

from omnigraph.base.errors import UsageError


class JsonLines(logging.Formatter):
    """A record as one JSON object: when, how bad, who, what, and the facts of the event."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        return json.dumps(document, ensure_ascii=False, default=str)


class LogFile(logging.FileHandler):
    """Appends lines until that fails; what is logged does not decide how a command ends."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # as logging calls it
        failure = sys.exc_info()[1]
        if not isinstance(failure, OSError):
            super().handleError(record)
            return
        self.setLevel(logging.CRITICAL + 1)
        sys.stderr.write(
            f"warning: the log file ends here, it cannot be written: {failure.strerror or failure}\n"
        )

    def close(self) -> None:
        with suppress(OSError):  # what could not be written is tried once more
            super().close()


def log_to_file(context: typer.Context, path: str | None) -> str | None:
    """Log to the file until the command ends; raise when it cannot be written. The callback of the flag."""
    if path is None:
        return None
    try:
        handler = LogFile(path, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the log file '{path}' cannot be written: {error.strerror or error}",
            code="log_file",
            hint="choose another place",
        ) from error
    handler.setFormatter(JsonLines())
    ours = logging.getLogger("omnigraph")
    ours.setLevel(logging.INFO)
    ours.addHandler(handler)

    def end() -> None:
        ours.removeHandler(handler)
        ours.setLevel(logging.NOTSET)
        handler.close()

    context.call_on_close(end)
    return path
