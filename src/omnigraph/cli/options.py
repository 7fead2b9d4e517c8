"""The arguments and flags that several commands share, so that each has one name and one meaning."""

from __future__ import annotations

from math import isfinite
from typing import Annotated

import typer

from omnigraph.base.errors import UsageError
from omnigraph.base.process import refuse_blank_actor
from omnigraph.cli.log_file import log_to_file
from omnigraph.cli.output import RowsFormat


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
        "--as", metavar="ACTOR", callback=refuse_blank_actor, help="Who writes; your login name unless given."
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
LogFile = Annotated[
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
