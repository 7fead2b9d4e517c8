"""`omnigraph diff`: the differences between two branches or commits."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.changes import Format, choose_changes_format, write_changes
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Json, Store, Uri
from omnigraph.cli.target import resolve_target

Left = Annotated[str, typer.Argument(metavar="A", help="A branch or a commit.", show_default=False)]
Right = Annotated[str, typer.Argument(metavar="B", help="Another branch or commit.", show_default=False)]


def diff(
    context: typer.Context,
    left: Left,
    right: Right,
    uri: Uri = None,
    store: Store = None,
    rows_format: Format = None,
    as_json: Json = False,
) -> None:
    """Show the changes from one branch or commit to another."""
    output_format = choose_changes_format(rows_format, as_json)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    write_changes({"from": left, "to": right}, Graph(location, read_only=True).diff(left, right), output_format)


COMMAND = CommandSource(
    "diff",
    diff,
    (
        "omnigraph diff main review/1 graph.omni",
        "omnigraph diff 01KA1F0Z5Q8W9V3N7R2T4Y6B8D main --store graph.omni --json",
    ),
)
