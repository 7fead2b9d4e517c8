"""`omnigraph branch create`, `list` and `delete`. The cost of a new branch does not depend on the size of the graph."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from omnigraph.base.clock import format_age
from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import Actor, Yes
from omnigraph.cli.results import RowsOutput, TextOutput
from omnigraph.cli.target import GraphArguments

NewName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the new branch.", show_default=False)]
From = Annotated[
    str, typer.Option("--from", metavar="BRANCH|COMMIT", help="Start from this branch's head, or this commit.")
]


TITLES: Final = {
    "name": "branch",
    "graph_commit_id": "head",
    "age": "age",
    "ahead": "ahead",
    "behind": "behind",
    "parent_branch": "created from",
}
FIELDS: Final = (
    "name",
    "graph_commit_id",
    "committed_at",
    "ahead",
    "behind",
    "parent_branch",
    "parent_commit_id",
    "actor_id",
    "created_at",
    "readable",
    "committed",
    "created",
    "error",
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the branch.", show_default=False)]


@command(
    "omnigraph branch create review/1 graph.omni",
    "omnigraph branch create --from review/1 review/2 --store graph.omni",
    "omnigraph branch create --from 01KA1F0Z5Q8W9V3N7R2T4Y6B8D rescue --store graph.omni --json",
    capability=Capability.ANY,
)
def create(
    name: NewName, target: GraphArguments, *, source: From = "main", actor: Actor = None, output: TextOutput
) -> None:
    """Create a branch.

    The cost does not depend on the size of the graph: nothing is copied. A table is forked at the first write of the
    branch to it.
    """
    client = target.connect(actor=actor, read_only=False).print_location().client

    from omnigraph.wire.requests import BranchCreateRequest

    document = client.create_branch(BranchCreateRequest(name=name, source=source))
    output.show(lambda: document, notices=[f"created branch {name} from commit {document.parent_commit_id}"])


@command(
    "omnigraph branch list graph.omni",
    "omnigraph branch list --store s3://bucket/graph.omni --json",
    capability=Capability.ANY,
)
def show_branches(target: GraphArguments, output: RowsOutput) -> None:
    """Show every branch: its head, the age of the head, and its number of commits ahead of main and behind it."""
    document = target.connect().client.list_branches()
    rows = [{name: getattr(branch, name) for name in FIELDS} for branch in document.details]
    now_us = time.time_ns() // 1_000
    table_rows = [_table_row(row, now_us) for row in rows]
    output.show(lambda: document, TITLES, table_rows, fields=FIELDS, field_rows=rows)


def _table_row(row: dict[str, Any], now_us: int) -> dict[str, Any]:
    if not row["readable"]:
        return {**row, "graph_commit_id": f"not readable: {row['error']}", "age": None}
    return {**row, "age": format_age(row["committed_at"], now_us)}


@command(
    "omnigraph branch delete review/1 graph.omni",
    "omnigraph branch delete review/1 --store s3://bucket/graph.omni --yes --json",
    capability=Capability.ANY,
)
def delete(name: Name, target: GraphArguments, *, actor: Actor = None, yes: Yes = False, output: TextOutput) -> None:
    """Delete a branch, merged or not.

    A branch from which a live branch was created cannot be deleted. A new branch of the same name never shows old data.
    """
    connection = target.connect(actor=actor, read_only=False).print_location()
    connection.confirm(f"deleting branch {name}", yes=yes)
    document = connection.client.delete_branch(name)
    output.show(lambda: document, notices=[f"deleted branch {name}"])
