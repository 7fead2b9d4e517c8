"""`omnigraph diff`: the differences between two branches or commits."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.changes import write_changes
from omnigraph.cli.command import command
from omnigraph.cli.results import ChangesOutput
from omnigraph.cli.target import GraphArguments

Left = Annotated[str, typer.Argument(metavar="A", help="A branch or a commit.", show_default=False)]
Right = Annotated[str, typer.Argument(metavar="B", help="Another branch or commit.", show_default=False)]


def diff(left: Left, right: Right, target: GraphArguments, output: ChangesOutput) -> None:
    """Show the changes from one branch or commit to another."""
    location = target.locate()

    from omnigraph.graph.diff import diff_snapshots
    from omnigraph.graph.entity_changes import entity_changes
    from omnigraph.graph.manifest.refs import read_reference

    before, after = read_reference(location, left), read_reference(location, right)
    head = {"from": before.head, "to": after.head}
    write_changes(head, entity_changes(diff_snapshots(before, after)), output.format)


COMMAND = command(
    diff,
    "omnigraph diff main review/1 graph.omni",
    "omnigraph diff 01KA1F0Z5Q8W9V3N7R2T4Y6B8D main --store graph.omni --json",
)
