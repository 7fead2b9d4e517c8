"""`omnigraph branch delete`: delete the row of the branch in the manifest; `cleanup` deletes its files."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Yes
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments, confirm_destruction

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the branch.", show_default=False)]


def delete(name: Name, target: GraphArguments, *, yes: Yes = False, output: TextOutput) -> None:
    """Delete a branch, merged or not.

    A branch from which a live branch was created cannot be deleted. A new branch of the same name never shows old data.
    """
    location = target.announce()
    confirm_destruction(target.context, location, f"deleting branch {name}", yes=yes)

    from omnigraph.graph.branches import delete_branch
    from omnigraph.wire.commits import branch_delete_output

    record = delete_branch(location, name)
    output.show(lambda: branch_delete_output(location, record), notices=[f"deleted branch {name}"])


COMMAND = command(
    delete,
    "omnigraph branch delete review/1 graph.omni",
    "omnigraph branch delete review/1 --store s3://bucket/graph.omni --yes --json",
)
