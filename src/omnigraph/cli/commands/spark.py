"""`omnigraph spark start`, `stop` and `status`: a warm local Spark server for later commands."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.base import limits
from omnigraph.base.clock import format_timestamp
from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import require_finite
from omnigraph.cli.output import Cell, format_pairs
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


@command("omnigraph spark start", "omnigraph spark start --idle-minutes 120", capability=Capability.LOCAL)
def start(*, idle_minutes: IdleMinutes = limits.WARM_SERVER_IDLE_MINUTES, output: TextOutput) -> None:
    """Start a warm local Spark server.

    Later commands on this machine use it automatically and do not wait for Spark to start. It listens on loopback, only
    its user can connect, and it stops when it is not used. A running server is not changed.
    """
    from omnigraph.pipeline.spark.warm_server import server_status, start_server
    from omnigraph.wire.machine import spark_status_output

    started = start_server(idle_minutes)
    state = "started a warm Spark server" if started.is_new else "the warm Spark server is already running"
    minutes = started.server.idle_seconds / 60
    output.show(
        lambda: spark_status_output(server_status(), started=started.is_new),
        notices=[f"{state}; it stops after {minutes:g} minutes without a command"],
    )


@command("omnigraph spark stop", capability=Capability.LOCAL)
def stop(output: TextOutput) -> None:
    """Stop the warm local Spark server.

    Waits until the server has stopped. A command that is running on it fails.
    """
    from omnigraph.pipeline.spark.warm_server import stop_server
    from omnigraph.wire.machine import SparkStopOutput

    was_running = stop_server()
    notice = "stopped the warm Spark server" if was_running else "no warm Spark server was running"
    output.show(lambda: SparkStopOutput(was_running), notices=[notice])


@command("omnigraph spark status", "omnigraph spark status --json", capability=Capability.LOCAL)
def status(output: TextOutput) -> None:
    """Show whether a warm local Spark server is running.

    The status is running, stopped or outdated. An outdated server was started by an older installation; commands do not
    use it.
    """
    from omnigraph.pipeline.spark.warm_server import server_status
    from omnigraph.wire.machine import spark_status_output

    server_state = server_status()
    pairs: dict[str, Cell] = {"status": server_state.health.value}
    if (server := server_state.server) is not None:
        pairs |= {
            "in use": "yes" if server_state.in_use else "no",
            "process": server.process.pid,
            "port": server.port,
            "started": format_timestamp(server.started_us),
            "stops after": f"{server.idle_seconds / 60:g} idle minutes",
        }
    output.show(lambda: spark_status_output(server_state), text=format_pairs(pairs))
