"""`omnigraph spark status`: whether a warm local Spark server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.base.clock import format_timestamp
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Json
from omnigraph.cli.output import write_json, write_pairs

if TYPE_CHECKING:
    from omnigraph.pipeline.spark.warm_server import ServerStatus


def status(as_json: Json = False) -> None:
    """Show whether a warm local Spark server runs.

    The status is running, stopped, or outdated: then an older installation has started it, and commands go without it.
    """
    from omnigraph.pipeline.spark.warm_server import server_status

    found = server_status()
    if as_json:
        write_json(status_to_json(found))
        return
    server = found.server
    write_pairs(
        {
            "status": found.health.value,
            **(
                {
                    "in use": "yes" if found.in_use else "no",
                    "process": server.process.pid,
                    "port": server.port,
                    "started": format_timestamp(server.started_us),
                    "idle minutes": f"{server.idle_seconds / 60:g}",
                }
                if server
                else {}
            ),
        }
    )


def status_to_json(found: ServerStatus) -> dict[str, Any]:
    """The status without the token."""
    server = found.server
    return {
        "status": found.health.value,
        "in_use": found.in_use,
        "pid": server.process.pid if server else None,
        "port": server.port if server else None,
        "started_at": server.started_us if server else None,
        "idle_minutes": server.idle_seconds / 60 if server else None,
    }


COMMAND = CommandSource("status", status, ("omnigraph spark status", "omnigraph spark status --json"))
