"""`omnigraph whoami` and `graphs list`: what a server says about the caller and about its graphs."""

from __future__ import annotations

from typing import Final

from omnigraph.cli.command import Capability, command
from omnigraph.cli.output import RowsFormat, format_pairs, write_text
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import ServerArguments

_ACTIONS: Final = {"graph_id": "graph", "action": "action", "extent": "branches"}
_GRAPHS: Final = {"graph_id": "graph", "uri": "address"}


@command(
    "omnigraph whoami --server prod",
    "omnigraph whoami --server http://127.0.0.1:8080 --json",
    capability=Capability.SERVED,
)
def whoami(target: ServerArguments, output: RowsOutput) -> None:
    """Show who you are for a server, and what you may do.

    For each graph and action: all, some or none of the branches.
    """
    connection = target.connect()

    from omnigraph.client.remote import read_whoami

    document = read_whoami(connection)
    rows = [
        {"graph_id": graph.graph_id, "action": action, "extent": extent}
        for graph in document.graphs
        for action, extent in graph.actions.items()
    ]
    if output.format is RowsFormat.TABLE:
        write_text(format_pairs({"actor": document.actor_id or "none", "state": document.state}) + "\n\n")
    output.show(lambda: document, _ACTIONS, rows)


@command(
    "omnigraph graphs list --server prod",
    "omnigraph graphs list --server prod --format csv",
    capability=Capability.SERVED,
)
def list_graphs(target: ServerArguments, output: RowsOutput) -> None:
    """Show the graphs of a server."""
    connection = target.connect()

    from omnigraph.client.remote import read_graphs

    document = read_graphs(connection)
    rows = [{"graph_id": graph.graph_id, "uri": graph.uri} for graph in document.graphs]
    output.show(lambda: document, _GRAPHS, rows)
