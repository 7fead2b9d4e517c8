"""The arguments and flags that several commands share, so that each has one name and one meaning."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import isfinite
from typing import Annotated

import typer

from omnigraph.base.actors import require_actor_name
from omnigraph.base.errors import UsageError
from omnigraph.cli.output import RowsFormat


@dataclass(frozen=True, slots=True)
class Flags:
    """How to talk to the caller."""

    json: bool = False
    json_lines: bool = False
    quiet: bool = False
    debug: bool = False


def read_flags(arguments: list[str]) -> Flags:
    """What the words ask for, up to `--`."""
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    joined = {*words, *(f"{word}={after}" for word, after in pairwise(words))}
    return Flags(
        json=not joined.isdisjoint({"--json", "--format=json", "--format=jsonl"}),
        json_lines="--format=jsonl" in joined,
        quiet=not joined.isdisjoint({"--quiet", "-q"}),
        debug="--debug" in joined,
    )


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


def refuse_no_number(parameter: typer.CallbackParam, value: float | None) -> float | None:
    """The number that was given, if one was; what parses it takes nan for a number that is in every range."""
    if value is not None and not isfinite(value):
        raise UsageError(f"{parameter.opts[0]} cannot be {value}", code="usage", hint="give a number")
    return value


Uri = Annotated[
    str | None,
    typer.Argument(
        metavar="[URI]",
        help="The graph: a local path, file:///path or s3://bucket/prefix.",
        show_default=False,
    ),
]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="URI", help="The graph; where a command takes a URI, the same."),
]
Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="Read this branch.")]
TargetBranch = Annotated[str, typer.Option("--branch", metavar="NAME", help="Write to this branch.")]
Commit = Annotated[
    str | None,
    typer.Option(
        "--commit", metavar="ID", help="Read what this commit published: its id, enough of it, or HEAD."
    ),
]
CommitId = Annotated[
    str,
    typer.Argument(metavar="ID", help="The commit: its id, enough of it, or HEAD.", show_default=False),
]
Version = Annotated[
    int | None,
    typer.Option("--version", metavar="N", min=1, help="Read this version of the branch's manifest."),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="TIME", help="Read what was there at this time, such as 2026-05-31T12:00:00Z."
    ),
]
Actor = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="ACTOR", callback=require_actor_name, help="Who writes; your login name unless given."
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Destroy data at a target that is not local without asking.")
]
SparkMaster = Annotated[
    str | None,
    typer.Option(
        "--spark-master", metavar="URL", help="Run on this Spark master instead of a local session."
    ),
]
LogFileOption = Annotated[
    str | None,
    typer.Option(
        "--log-file",
        metavar="FILE",
        callback=log_to_file,
        help="Append what happens to this file, one JSON object per line.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Format = Annotated[
    RowsFormat | None,
    typer.Option("--format", help="How to print the rows; table unless given. --json is short for json."),
]
