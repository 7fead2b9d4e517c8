"""`omnigraph schema show`: the accepted schema, as its source text or as the typed catalog."""

from __future__ import annotations

from omnigraph.cli.command import command
from omnigraph.cli.options import StateArguments
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments


def show(target: GraphArguments, state: StateArguments, output: TextOutput) -> None:
    """Show the accepted schema as .pg text.

    --json also prints the catalog, which contains the ids of types and properties.
    """
    as_of = state.as_of()
    snapshot = target.open(state.branch).snapshot(as_of)

    from omnigraph.wire.commits import schema_output

    output.show(lambda: schema_output(snapshot), text=snapshot.schema.source)


COMMAND = command(show, "omnigraph schema show graph.omni", "omnigraph schema show graph.omni --branch review/1 --json")
