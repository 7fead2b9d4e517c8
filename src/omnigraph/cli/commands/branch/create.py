"""`omnigraph branch create`: create a branch. The cost does not depend on the size of the graph."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.base.actors import login_name
from omnigraph.cli.command import command
from omnigraph.cli.options import Actor
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the new branch.", show_default=False)]
From = Annotated[
    str, typer.Option("--from", metavar="BRANCH|COMMIT", help="Start from this branch's head, or this commit.")
]


def create(
    name: Name, target: GraphArguments, *, source: From = "main", actor: Actor = None, output: TextOutput
) -> None:
    """Create a branch.

    The cost does not depend on the size of the graph: nothing is copied. A table is forked at the first write of the
    branch to it.
    """
    location = target.announce()

    from omnigraph.graph.branches import create_branch
    from omnigraph.graph.manifest.refs import read_reference
    from omnigraph.wire.commits import branch_create_output

    record = create_branch(location, name, actor or login_name(), read_reference(location, source))
    assert record.parent is not None, "a created branch has a parent"
    output.show(
        lambda: branch_create_output(location, source, record),
        notices=[f"created branch {name} from commit {record.parent.commit}"],
    )


COMMAND = command(
    create,
    "omnigraph branch create review/1 graph.omni",
    "omnigraph branch create --from review/1 review/2 --store graph.omni",
    "omnigraph branch create --from 01KA1F0Z5Q8W9V3N7R2T4Y6B8D rescue --store graph.omni --json",
)
