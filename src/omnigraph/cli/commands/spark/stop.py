"""`omnigraph spark stop`: stop the warm local Spark server."""

from __future__ import annotations

import sys

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Json
from omnigraph.cli.output import write_json


def stop(context: typer.Context, as_json: Json = False) -> None:
    """Stop the warm local Spark server.

    Returns after it has stopped. A command that uses it fails.
    """
    from omnigraph.pipeline.spark.warm_server import stop_server

    was_running = stop_server()
    if as_json:
        write_json({"stopped": was_running})
    elif not context.obj.quiet:
        result = "stopped the warm Spark server" if was_running else "no warm Spark server was running"
        sys.stderr.write(f"{result}\n")


COMMAND = CommandSource("stop", stop, ("omnigraph spark stop",))
