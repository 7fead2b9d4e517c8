"""`omnigraph serve`: serve a graph over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.base.errors import MachineError, UsageError
from omnigraph.cli.command import command
from omnigraph.cli.target import GraphArguments

Bind = Annotated[str, typer.Option("--bind", metavar="HOST:PORT", help="Where to listen; port 0 chooses a free port.")]
Access = Annotated[
    str, typer.Option("--access", metavar="read|write", help="What a token may do where no policy applies.")
]
Unauthenticated = Annotated[
    bool, typer.Option("--unauthenticated", help="Allow everything to everyone who reaches the server.")
]


@command(
    "omnigraph serve graph.omni --unauthenticated",
    "OMNIGRAPH_SERVER_BEARER_TOKEN=secret omnigraph serve graph.omni --bind 0.0.0.0:8080 --access write",
)
def serve(
    target: GraphArguments,
    *,
    bind: Bind = "127.0.0.1:8080",
    access: Access = "read",
    unauthenticated: Unauthenticated = False,
) -> None:
    """Serve a graph over HTTP."""
    location = target.locate()
    try:
        from omnigraph.server.boot import AccessState
        from omnigraph.server.process import ServerSettings, run_server
    except ModuleNotFoundError as missing:
        raise MachineError(
            f"the server needs packages that are not installed: {missing.name}",
            code="server_extra_missing",
            hint="Run `pip install 'omnigraph[server]'`.",
        ) from missing
    if access not in ("read", "write"):
        raise UsageError(
            f"invalid access: expected read or write, got '{access}'", code="usage", hint="Pass `--access write`."
        )
    settings = ServerSettings(
        store=location.uri, bind=bind, access=AccessState(access), is_unauthenticated=unauthenticated
    )
    raise typer.Exit(run_server(settings))
