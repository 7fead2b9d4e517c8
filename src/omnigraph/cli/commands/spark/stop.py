"""`omnigraph spark stop`: stop the warm local Spark server."""

from __future__ import annotations

from omnigraph.cli.command import command
from omnigraph.cli.results import TextOutput


def stop(output: TextOutput) -> None:
    """Stop the warm local Spark server.

    Returns after it has stopped. A command that uses it fails.
    """
    from omnigraph.pipeline.spark.warm_server import stop_server

    was_running = stop_server()
    notice = "stopped the warm Spark server" if was_running else "no warm Spark server was running"
    output.show(lambda: {"stopped": was_running}, notices=[notice])


COMMAND = command(stop, "omnigraph spark stop")
