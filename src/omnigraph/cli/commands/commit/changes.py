"""`omnigraph commit changes`: the changes of one commit, with the entities before and after."""

from __future__ import annotations

import typer

from omnigraph.cli.changes import Format, choose_changes_format, write_changes
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Branch, CommitId, Json, Store, Uri
from omnigraph.cli.target import resolve_target


def changes(
    context: typer.Context,
    commit_id: CommitId,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    rows_format: Format = None,
    as_json: Json = False,
) -> None:
    """Show the changes of a commit relative to its first parent, per entity.

    A commit that only reorganized files, such as a compaction, has no changes.
    """
    output_format = choose_changes_format(rows_format, as_json)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    graph = Graph(location, branch, read_only=True)
    commit = graph.get_commit(commit_id)
    head = {"graph_commit_id": commit.id, "parent_commit_id": commit.parent}
    write_changes(head, graph.diff(commit.id), output_format)


COMMAND = CommandSource(
    "changes",
    changes,
    (
        "omnigraph commit changes 01KA1F0Z5Q8W9V3N7R2T4Y6B8D graph.omni",
        "omnigraph commit changes 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --format jsonl",
    ),
)
