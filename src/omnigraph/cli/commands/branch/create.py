"""`omnigraph branch create`: create a branch. The cost does not depend on the size of the graph."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.base.actors import login_name
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Actor, Json, Store, Uri
from omnigraph.cli.output import write_json
from omnigraph.cli.target import announce_target, resolve_target

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the new branch.", show_default=False)]
From = Annotated[
    str, typer.Option("--from", metavar="BRANCH|COMMIT", help="Start from this branch's head, or this commit.")
]


def create(
    context: typer.Context,
    name: Name,
    uri: Uri = None,
    store: Store = None,
    source: From = "main",
    actor: Actor = None,
    as_json: Json = False,
) -> None:
    """Create a branch.

    The cost does not depend on the size of the graph: nothing is copied. A table is forked at the first write of the
    branch to it.
    """
    location = resolve_target(context, uri, store)

    from omnigraph.graph.branches import create_branch
    from omnigraph.graph.manifest.refs import read_reference

    announce_target(context, location)
    record = create_branch(location, name, actor or login_name(), read_reference(location, source))
    if as_json:
        from omnigraph.wire.commits import branch_create_output

        write_json(branch_create_output(location, source, record))
    elif not context.obj.quiet:
        assert record.parent is not None, "a created branch has a parent"
        sys.stderr.write(f"created branch {name} from commit {record.parent.commit}\n")


COMMAND = CommandSource(
    "create",
    create,
    (
        "omnigraph branch create review/1 graph.omni",
        "omnigraph branch create --from review/1 review/2 --store graph.omni",
        "omnigraph branch create --from 01KA1F0Z5Q8W9V3N7R2T4Y6B8D rescue --store graph.omni --json",
    ),
)
