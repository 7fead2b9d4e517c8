"""`omnigraph commit list` and `show`: the history of a branch, and one commit with the tables that it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli.command import Capability, command
from omnigraph.cli.commands.changes import resolve_head
from omnigraph.cli.options import Branch, CommitId
from omnigraph.cli.output import RowsFormat, format_pairs, write_json, write_rows, write_text
from omnigraph.cli.results import RowsOutput, TextOutput
from omnigraph.cli.target import GraphArguments

if TYPE_CHECKING:
    from omnigraph.wire.commits import CommitOutput, PinOutput

Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most N commits.")]

COMMITS_SHOWN_DEFAULT: Final = 50
TITLES: Final = {
    "graph_commit_id": "commit",
    "created": "created",
    "actor_id": "actor",
    "operation": "operation",
    "graph_manifest_version": "version",
    "tables_moved": "tables",
}
FIELDS: Final = (
    "graph_commit_id",
    "graph_branch",
    "graph_manifest_version",
    "parent_commit_id",
    "merged_parent_commit_id",
    "actor_id",
    "created_at",
    "operation",
    "readable",
    "created",
)


TABLE_TITLES: Final = {"table": "table", "before": "from version", "after": "to version"}


@command(
    "omnigraph commit list graph.omni",
    "omnigraph commit list graph.omni --branch review/1 --limit 5 --format csv",
    capability=Capability.ANY,
)
def list_commits(
    target: GraphArguments, *, branch: Branch = "main", limit: Limit = COMMITS_SHOWN_DEFAULT, output: RowsOutput
) -> None:
    """Show the commits of a branch, newest first.

    Marks commits that can no longer be read because `cleanup` deleted their data.
    """
    client = target.connect().client

    from omnigraph.wire.requests import CommitListParameters

    listed = client.list_commits(CommitListParameters(branch=branch, limit=limit))
    documents = listed.commits
    rows = [
        {
            **{name: getattr(document, name) for name in FIELDS},
            "tables_moved": len(document.tables),
            "data": "" if document.readable else "deleted",
        }
        for document in documents
    ]
    titles = TITLES if all(document.readable for document in documents) else {**TITLES, "data": "data"}
    output.show(lambda: listed, titles, rows, fields=FIELDS)


@command(
    "omnigraph commit show HEAD graph.omni",
    "omnigraph commit show 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --json",
    capability=Capability.ANY,
)
def show_commit(commit_id: CommitId, target: GraphArguments, *, branch: Branch = "main", output: TextOutput) -> None:
    """Show one commit and the tables that it changed."""
    client = target.connect().client
    document = client.get_commit(resolve_head(client, branch, commit_id))
    if output.as_json:
        write_json(document)
    else:
        _write_commit(document)


def _write_commit(commit: CommitOutput) -> None:
    merged = commit.merged_parent_commit_id
    pairs = format_pairs(
        {
            "commit": commit.graph_commit_id,
            "parent": commit.parent_commit_id or "none",
            **({"merged": merged} if merged else {}),
            "branch": commit.graph_branch,
            "manifest version": commit.graph_manifest_version,
            "actor": commit.actor_id,
            "created": commit.created,
            "operation": commit.operation,
            **({} if commit.readable else {"data": "deleted"}),
            **{f"count of {name}": count for name, count in commit.counts.items()},
        }
    )
    write_text(pairs)
    if commit.tables:
        write_text("")
        rows = [
            {
                "table": table_change.table_key or table_change.table_id,
                "before": _version(table_change.before),
                "after": _version(table_change.after),
            }
            for table_change in commit.tables
        ]
        write_rows(TABLE_TITLES, rows, RowsFormat.TABLE)


def _version(pin: PinOutput | None) -> str:
    if pin is None:
        return "none"
    return f"{pin.version}" + (f" on {pin.branch}" if pin.branch else "")
