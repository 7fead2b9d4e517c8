"""`omnigraph init`: create a graph from a schema file, completely or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.base.display import format_count
from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import Actor
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import StorageArguments, print_location

SchemaFile = Annotated[str, typer.Option("--schema", metavar="FILE", help="The schema, a .pg file.")]
Force = Annotated[
    bool, typer.Option("--force", help="Create the graph next to other files. Never replaces a graph or a file.")
]


@command(
    "omnigraph init --schema schema.pg graph.omni",
    "omnigraph init --schema schema.pg s3://bucket/graph.omni --as deploy",
    capability=Capability.DIRECT,
)
def init(
    schema: SchemaFile, target: StorageArguments, *, force: Force = False, actor: Actor = None, output: TextOutput
) -> None:
    """Create a graph with a schema.

    Fails if the directory contains a graph, or other files and --force is missing. A failed or interrupted init leaves
    no files; the next init removes the files of a killed one.
    """
    location = target.locate()

    from omnigraph.api.texts import build_schema, read_schema

    text = read_schema(Path(schema))
    build_schema(text)  # raises before Lance is imported

    from omnigraph.api.graph import init as create
    from omnigraph.wire.commits import init_output

    print_location(target.context, location)
    graph = create(location.uri, text, force=force, actor=target.choose_actor(actor))
    snapshot = graph.snapshot()
    output.show(
        lambda: init_output(snapshot),
        notices=[f"created a graph with {format_count(len(snapshot.tables), 'table')} at commit {snapshot.head}"],
    )
