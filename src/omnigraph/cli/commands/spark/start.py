"""`omnigraph spark start`: start a warm local Spark server for later commands."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.base import limits
from omnigraph.cli.command import command
from omnigraph.cli.options import require_finite
from omnigraph.cli.results import TextOutput

IdleMinutes = Annotated[
    float,
    typer.Option(
        "--idle-minutes",
        metavar="N",
        min=0.01,
        max=limits.WARM_SERVER_IDLE_MINUTES_MAX,
        callback=require_finite,
        help="Stop the server after N minutes without a command.",
    ),
]


def start(*, idle_minutes: IdleMinutes = limits.WARM_SERVER_IDLE_MINUTES, output: TextOutput) -> None:
    """Start a warm local Spark server.

    Later commands on this machine use it automatically and do not wait for Spark to start. It listens on loopback, only
    its user can connect, and it stops when it is not used. A running server is not changed.
    """
    from omnigraph.cli.commands.spark.status import status_to_json
    from omnigraph.pipeline.spark.warm_server import server_status, start_server

    started = start_server(idle_minutes)
    state = "started a warm Spark server" if started.is_new else "the warm Spark server is already running"
    minutes = started.server.idle_seconds / 60
    output.show(
        lambda: {"started": started.is_new, **status_to_json(server_status())},
        notices=[f"{state}; it stops after {minutes:g} minutes without a command"],
    )


COMMAND = command(start, "omnigraph spark start", "omnigraph spark start --idle-minutes 120")
