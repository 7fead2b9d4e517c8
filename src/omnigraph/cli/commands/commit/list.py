"""`omnigraph commit list`: the history of a branch, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Branch, Format, Json, Store, Uri
from omnigraph.cli.output import RowsFormat, choose_format, write_json, write_rows
from omnigraph.cli.target import resolve_target

if TYPE_CHECKING:
    from omnigraph.wire.commits import CommitOutput

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
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    limit: Limit = COMMITS_SHOWN,
    rows_format: Format = None,
    as_json: Json = False,
) -> None:
    """Show the commits of a branch, newest first.

    Marks commits that can no longer be read because `cleanup` deleted their data.
    """
    output_format = choose_format(rows_format, as_json)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph
    from omnigraph.graph.manifest.refs import readable_commits
    from omnigraph.wire.commits import commit_output, table_names

    graph = Graph(location, branch, read_only=True)
    commits = tuple(graph.log(limit))
    newest = graph.snapshot()
    names = table_names(newest)
    readable = readable_commits(newest, commits)
    documents = [commit_output(commit, names, readable=commit.id in readable) for commit in commits]
    if output_format is RowsFormat.JSON:
        import msgspec

        write_json({"graph_branch": branch, "commits": msgspec.to_builtins(documents)})
    else:
        _show(documents, output_format)


def _show(documents: list[CommitOutput], output_format: RowsFormat) -> None:
    """Print commits as rows. The table has the column 'data' only if `cleanup` deleted data of a commit."""
    rows = [
        {
            **{name: getattr(document, name) for name in FIELDS if hasattr(document, name)},
            "tables_moved": len(document.tables),
            "data": "" if document.readable else "collected",
        }
        for document in documents
    ]
    titles = TITLES if all(document.readable for document in documents) else {**TITLES, "data": "data"}
    write_rows(titles if output_format is RowsFormat.TABLE else {name: name for name in FIELDS}, rows, output_format)


COMMAND = CommandSource(
    "list",
    list_commits,
    ("omnigraph commit list graph.omni", "omnigraph commit list graph.omni --branch review/1 --limit 5 --format csv"),
)
