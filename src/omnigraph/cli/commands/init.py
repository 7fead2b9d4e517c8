"""`omnigraph init`: create a graph from a schema file, completely or not at all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.base.text_files import read_schema_file
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Actor, Json, Store, Uri
from omnigraph.cli.target import announce_target, resolve_target

SchemaFile = Annotated[str, typer.Option("--schema", metavar="FILE", help="The schema, a .pg file.")]
Force = Annotated[
    bool, typer.Option("--force", help="Create the graph next to other files. Never replaces a graph or a file.")
]


def init(
    context: typer.Context,
    schema: SchemaFile,
    uri: Uri = None,
    store: Store = None,
    force: Force = False,
    actor: Actor = None,
    as_json: Json = False,
) -> None:
    """Create a graph with a schema.

    Fails if the directory contains a graph, or other files and --force is missing. A failed or interrupted init leaves
    no files; the next init removes the files of a killed one.
    """
    location = resolve_target(context, uri, store)
    text = read_schema_file(Path(schema))
    announce_target(context, location)

    from omnigraph.api.arguments import NamedText
    from omnigraph.api.graph import init as create

    graph = create(location.uri, NamedText.make(text, schema), force=force, actor=actor)
    if as_json:
        import msgspec

        from omnigraph.cli.output import write_json
        from omnigraph.wire.commits import snapshot_output

        write_json({"uri": graph.uri, **msgspec.to_builtins(snapshot_output(graph.snapshot()))})
    elif not context.obj.quiet:
        snapshot = graph.snapshot()
        sys.stderr.write(f"created a graph with {len(snapshot.tables)} tables at commit {snapshot.head}\n")


COMMAND = CommandSource(
    "init",
    init,
    (
        "omnigraph init --schema schema.pg graph.omni",
        "omnigraph init --schema schema.pg s3://bucket/graph.omni --as deploy",
    ),
)
