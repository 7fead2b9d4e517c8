"""`omnigraph schema show`: the accepted schema, as its source text or as the typed catalog."""

from __future__ import annotations

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import At, Branch, Commit, Json, Store, Uri, Version
from omnigraph.cli.output import write_json, write_text
from omnigraph.cli.state import choose_state
from omnigraph.cli.target import resolve_target


def show(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    commit: Commit = None,
    version: Version = None,
    timestamp: At = None,
    as_json: Json = False,
) -> None:
    """Show the accepted schema as .pg text.

    --json also prints the catalog, which contains the ids of types and properties.
    """
    state = choose_state(commit, version, timestamp)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    snapshot = Graph(location, branch, read_only=True).snapshot(state)
    if as_json:
        from omnigraph.wire.commits import schema_output

        write_json(schema_output(snapshot))
    else:
        write_text(snapshot.schema.source)


COMMAND = CommandSource(
    "show", show, ("omnigraph schema show graph.omni", "omnigraph schema show graph.omni --branch review/1 --json")
)
