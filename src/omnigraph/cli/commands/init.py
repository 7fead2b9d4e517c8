"""`omnigraph init`: create a graph from a schema file, completely or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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

    from omnigraph.api.arguments import read_schema
    from omnigraph.api.graph import init as create
    from omnigraph.wire.commits import init_output

    text = read_schema(Path(schema))
    print_location(target.context, location)
    graph = create(location.uri, text, force=force, actor=target.choose_actor(actor))
    snapshot = graph.snapshot()
    output.show(
        lambda: init_output(snapshot),
        notices=[f"created a graph with {len(snapshot.tables)} tables at commit {snapshot.head}"],
    )
