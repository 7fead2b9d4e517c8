"""`omnigraph commit list`: the history of a branch, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.moments import moment
from omnigraph.cli.options import Branch, Format, Json, Store, Uri
from omnigraph.cli.output import RowsFormat, choose_format, write_json, write_rows
from omnigraph.cli.target import resolve_target

if TYPE_CHECKING:
    from omnigraph.graph.records import CommitRecord

Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most so many commits.")]

COMMITS_SHOWN: Final = 50
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
)


def list_commits(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    limit: Limit = COMMITS_SHOWN,
    rows_format: Format = None,
    as_json: Json = False,
) -> None:
    """Show the commits of a branch, newest first."""
    how = choose_format(rows_format, as_json)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph
    from omnigraph.cli.shapes import commit_to_json, table_names

    graph = Graph(location, branch, read_only=True)
    commits = islice(graph.commits(), limit)
    if how is RowsFormat.JSON:
        names = table_names(graph.snapshot())
        write_json({"graph_branch": branch, "commits": [commit_to_json(commit, names) for commit in commits]})
    else:
        show_commits(commits, how)


def show_commits(commits: Iterable[CommitRecord], how: RowsFormat = RowsFormat.TABLE) -> None:
    """Print commits as rows."""
    from omnigraph.cli.shapes import commit_to_json

    rows = []
    for commit in commits:
        row = commit_to_json(commit, {})
        rows.append({**row, "created": moment(commit.created_us), "tables_moved": len(row["tables"])})
    titles = TITLES if how is RowsFormat.TABLE else {name: name for name in FIELDS}
    write_rows(titles, rows, how)


COMMAND = CommandSource(
    "list",
    list_commits,
    (
        "omnigraph commit list graph.omni",
        "omnigraph commit list graph.omni --branch review/1 --limit 5 --format csv",
    ),
)
