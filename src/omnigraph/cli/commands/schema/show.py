"""`omnigraph schema show`: the accepted schema, as the text that was given or as the typed catalog."""

from __future__ import annotations

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.files import parse_time
from omnigraph.cli.options import At, Branch, Commit, Json, Store, Uri, Version
from omnigraph.cli.output import write_json, write_text
from omnigraph.cli.target import resolve_target


def show(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    commit: Commit = None,
    version: Version = None,
    at: At = None,
    as_json: Json = False,
) -> None:
    """Show the accepted schema as .pg text.

    With --json also the catalog made from it, which has the ids of types and properties.
    """
    moment = parse_time(at)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    found = Graph(location, branch, read_only=True).snapshot(commit=commit, version=version, at=moment)
    if not as_json:
        write_text(found.schema.source)
        return

    import json

    write_json(
        {
            "graph_branch": found.branch.name,
            "graph_commit_id": found.head,
            "schema_hash": found.schema.hash,
            "source": found.schema.source,
            "catalog": json.loads(found.schema.catalog_json),
        }
    )


COMMAND = CommandSource(
    "show",
    show,
    ("omnigraph schema show graph.omni", "omnigraph schema show graph.omni --branch review/1 --json"),
)
