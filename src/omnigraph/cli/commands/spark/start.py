"""`omnigraph spark start`: start a warm local Spark server for later commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.base import limits
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Json, refuse_no_number
from omnigraph.cli.output import write_json

IdleMinutes = Annotated[
    float,
    typer.Option(
        "--idle-minutes",
        metavar="N",
        min=0.01,
        max=limits.WARM_SERVER_IDLE_MINUTES_MAX,
        callback=refuse_no_number,
        help="Stop the server after N minutes without a command.",
    ),
]


def start(
    context: typer.Context, idle_minutes: IdleMinutes = limits.WARM_SERVER_IDLE_MINUTES, as_json: Json = False
) -> None:
    """Start a warm local Spark server.

    Later commands on this machine use it automatically and do not wait for Spark to start. It listens on loopback, only
    its user can connect, and it stops when it is not used. A running server is not changed.
    """
    from omnigraph.cli.commands.spark.status import status_to_json
    from omnigraph.pipeline.spark.warm_server import server_status, start_server

    started = start_server(idle_minutes)
    if as_json:
        write_json({"started": started.is_new, **status_to_json(server_status())})
    elif not context.obj.quiet:
        minutes = started.server.idle_seconds / 60
        state = "started a warm Spark server" if started.is_new else "the warm Spark server is already running"
        sys.stderr.write(f"{state}; it stops after {minutes:g} minutes without a command\n")


COMMAND = CommandSource("start", start, ("omnigraph spark start", "omnigraph spark start --idle-minutes 120"))
