"""`omnigraph commit list`: the history of a branch, newest first."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from omnigraph.cli.command import command
from omnigraph.cli.options import Branch
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import GraphArguments

Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most N commits.")]

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
    "readable",
    "created",
)


def list_commits(
    target: GraphArguments, *, branch: Branch = "main", limit: Limit = COMMITS_SHOWN, output: RowsOutput
) -> None:
    """Show the commits of a branch, newest first.

    Marks commits that can no longer be read because `cleanup` deleted their data.
    """
    graph = target.open(branch)

    from omnigraph.graph.manifest.refs import readable_commits
    from omnigraph.wire.commits import commit_output, table_names

    commits = tuple(graph.log(limit))
    newest = graph.snapshot()
    names = table_names(newest)
    readable = readable_commits(newest, commits)
    documents = [commit_output(commit, names, readable=commit.id in readable) for commit in commits]
    rows = [
        {
            **{name: getattr(document, name) for name in FIELDS},
            "tables_moved": len(document.tables),
            "data": "" if document.readable else "collected",
        }
        for document in documents
    ]
    titles = TITLES if all(document.readable for document in documents) else {**TITLES, "data": "data"}
    output.show(lambda: {"graph_branch": branch, "commits": documents}, titles, rows, fields=FIELDS)


COMMAND = command(
    list_commits,
    "omnigraph commit list graph.omni",
    "omnigraph commit list graph.omni --branch review/1 --limit 5 --format csv",
)
