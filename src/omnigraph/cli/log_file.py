"""`--log-file`: what `omnigraph.*` logs goes to a file as well, one JSON object per line, from level INFO on.

Stderr keeps showing warnings only. The file is appended to and never read.
"""

from __future__ import annotations

import json
import logging
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


def log_to_file(context: typer.Context, path: str | None) -> str | None:
    """Log to the file until the command ends; raise when it cannot be written. The callback of the flag."""
    if path is None:
        return None
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the log file '{path}' cannot be written: {error.strerror}",
            code="log_file",
            hint="choose another place",
        ) from error
    handler.setFormatter(JsonLines())
    ours = logging.getLogger("omnigraph")
    for other in ours.handlers:
        other.setLevel(logging.WARNING)  # stderr goes on as before
    ours.setLevel(logging.INFO)
    ours.addHandler(handler)

    def end() -> None:
        ours.removeHandler(handler)
        ours.setLevel(logging.NOTSET)
        handler.close()

    context.call_on_close(end)
    return path
