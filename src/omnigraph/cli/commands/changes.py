"""`omnigraph changes poll`: the commits of a branch after a cursor, each with its changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.base.clock import format_timestamp
from omnigraph.cli.changes import (
    Format,
    change_line,
    change_to_json,
    choose_changes_format,
    document_lines,
    write_lines,
)
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Branch, Json, Store, Uri
from omnigraph.cli.output import RowsFormat, printable
from omnigraph.cli.target import resolve_target

if TYPE_CHECKING:
    from omnigraph.graph.feed import ChangeFeed, CommitChanges

Cursor = Annotated[
    str | None, typer.Option("--cursor", metavar="ID", help="Start after this commit. Default: the first commit.")
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most N commits.")]


def poll(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    cursor: Cursor = None,
    limit: Limit = 100,
    rows_format: Format = None,
    as_json: Json = False,
) -> None:
    """Show the commits of a branch after a cursor, oldest first, with their changes.

    The cursor is a commit id. The command prints the next cursor at the end; store it and pass it to the next call. A
    repeated cursor gives the same commits again. If `cleanup` deleted the data of a commit after the cursor,
    the command fails with `change_feed_gap`: export the branch and continue from the exported commit.
    """
    output_format = choose_changes_format(rows_format, as_json)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    feed = Graph(location, branch, read_only=True).changes(cursor, limit=limit)
    if output_format is RowsFormat.JSON:
        head = {"graph_branch": branch, "cursor": feed.cursor, "has_more": feed.has_more}
        documents = (json.dumps(_commit_to_json(commit_changes), ensure_ascii=False) for commit_changes in feed.commits)
        write_lines(document_lines(head, "commits", documents), as_json=True)
    else:
        as_lines = output_format is RowsFormat.JSONL
        write_lines(_lines(feed, as_json=as_lines), as_json=as_lines)


def _commit_to_json(commit_changes: CommitChanges) -> dict[str, Any]:
    return {**_header_to_json(commit_changes), "changes": [change_to_json(change) for change in commit_changes.changes]}


def _header_to_json(commit_changes: CommitChanges) -> dict[str, Any]:
    """Return the commit and its schema steps, without the changes of rows."""
    import msgspec

    from omnigraph.wire.commits import commit_output

    steps = [step.to_json() for step in commit_changes.schema_steps]
    commit = msgspec.to_builtins(commit_output(commit_changes.commit, commit_changes.table_names))
    return {"commit": commit, "schema_steps": steps}


def _lines(feed: ChangeFeed, *, as_json: bool) -> Iterator[str]:
    """Yield one line per commit, one per change of the commit, and a last line with the cursor.

    The text format also has one line per schema step; in JSON the line of the commit contains the steps.
    """
    for commit_changes in feed.commits:
        commit = commit_changes.commit
        if as_json:
            yield json.dumps(_header_to_json(commit_changes), ensure_ascii=False)
            yield from (json.dumps(change_to_json(change), ensure_ascii=False) for change in commit_changes.changes)
        else:
            yield printable(f"{commit.id}  {format_timestamp(commit.created_us)}  {commit.actor}  {commit.operation}")
            texts = (str(step.planned.to_json()["text"]) for step in commit_changes.schema_steps)
            yield from (f"  schema: {printable(text)}" for text in texts)
            yield from (f"  {change_line(change)}" for change in commit_changes.changes)
    more = {"cursor": feed.cursor, "has_more": feed.has_more}
    yield json.dumps(more) if as_json else f"cursor {feed.cursor}" + (" (more)" if feed.has_more else "")


COMMAND = CommandSource(
    "poll",
    poll,
    (
        "omnigraph changes poll graph.omni",
        "omnigraph changes poll --cursor 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --format jsonl",
    ),
)
