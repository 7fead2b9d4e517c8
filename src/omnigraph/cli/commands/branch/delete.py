"""`omnigraph branch delete`: delete the row of the branch in the manifest; `cleanup` deletes its files."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Json, Store, Uri, Yes
from omnigraph.cli.output import write_json
from omnigraph.cli.target import announce_target, confirm_destruction, resolve_target

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the branch.", show_default=False)]


def delete(
    context: typer.Context, name: Name, uri: Uri = None, store: Store = None, yes: Yes = False, as_json: Json = False
) -> None:
    """Delete a branch, merged or not.

    A branch from which a live branch was created cannot be deleted. A new branch of the same name never shows old data.
    """
    location = resolve_target(context, uri, store)

    from omnigraph.graph.branches import delete_branch

    announce_target(context, location)
    confirm_destruction(context, location, f"deleting branch {name}", yes=yes, as_json=as_json)
    record = delete_branch(location, name)
    if as_json:
        from omnigraph.wire.commits import branch_delete_output

        write_json(branch_delete_output(location, record))
    elif not context.obj.quiet:
        sys.stderr.write(f"deleted branch {name}\n")


COMMAND = CommandSource(
    "delete",
    delete,
    (
        "omnigraph branch delete review/1 graph.omni",
        "omnigraph branch delete review/1 --store s3://bucket/graph.omni --yes --json",
    ),
)
