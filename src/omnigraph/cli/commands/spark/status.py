"""`omnigraph spark status`: whether a warm local Spark server is running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.base.clock import format_timestamp
from omnigraph.cli.command import command
from omnigraph.cli.output import Cell, format_pairs
from omnigraph.cli.results import TextOutput

if TYPE_CHECKING:
    from omnigraph.pipeline.spark.warm_server import ServerStatus


def status(output: TextOutput) -> None:
    """Show whether a warm local Spark server is running.

    The status is running, stopped or outdated. An outdated server was started by an older installation; commands do not
    use it.
    """
    from omnigraph.pipeline.spark.warm_server import server_status

    server_state = server_status()
    pairs: dict[str, Cell] = {"status": server_state.health.value}
    if (server := server_state.server) is not None:
        pairs |= {
            "in use": "yes" if server_state.in_use else "no",
            "process": server.process.pid,
            "port": server.port,
            "started": format_timestamp(server.started_us),
            "idle minutes": f"{server.idle_seconds / 60:g}",
        }
    output.show(lambda: status_to_json(server_state), text=format_pairs(pairs))


def status_to_json(server_state: ServerStatus) -> dict[str, Any]:
    """Return the status as JSON, without the token."""
    server = server_state.server
    return {
        "status": server_state.health.value,
        "in_use": server_state.in_use,
        "pid": server.process.pid if server else None,
        "port": server.port if server else None,
        "started_at": server.started_us if server else None,
        "idle_minutes": server.idle_seconds / 60 if server else None,
    }


COMMAND = command(status, "omnigraph spark status", "omnigraph spark status --json")
