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
    from omnigraph.graph.entity_changes import ChangeFeed, CommitChanges

Cursor = Annotated[
    str | None,
    typer.Option("--cursor", metavar="ID", help="Go on after this commit; from the first one unless given."),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many commits.")]


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
    """Show what was committed to a branch after a cursor, oldest first, whole commits only.

    The cursor is yours to keep: a commit id, printed at the end. Asking twice with the same one tells the same. When
    what came after it was cleaned up, it is an error, `change_feed_gap`: export the branch and go on from its commit.
    """
    how = choose_changes_format(rows_format, as_json)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    feed = Graph(location, branch, read_only=True).changes(cursor, limit=limit)
    if how is RowsFormat.JSON:
        head = {"graph_branch": branch, "cursor": feed.cursor, "has_more": feed.has_more}
        blocks = (json.dumps(_block(one), ensure_ascii=False) for one in feed.commits)
        write_lines(document_lines(head, "commits", blocks), as_json=True)
    else:
        as_lines = how is RowsFormat.JSONL
        write_lines(_lines(feed, as_json=as_lines), as_json=as_lines)


def _block(one: CommitChanges) -> dict[str, Any]:
    return {**_opening(one), "changes": [change_to_json(change) for change in one.changes]}


def _opening(one: CommitChanges) -> dict[str, Any]:
    """All but the changes of rows."""
    import msgspec

    from omnigraph.wire.commits import commit_output

    steps = [step.to_json() for step in one.schema_steps]
    commit = msgspec.to_builtins(commit_output(one.commit, one.table_names))
    return {"commit": commit, "schema_steps": steps}


def _lines(feed: ChangeFeed, *, as_json: bool) -> Iterator[str]:
    """A line for each commit, one for each of its changes, and at the end one with the cursor.

    For people also one for each step of the schema; in JSON the line of the commit has them.
    """
    for one in feed.commits:
        commit = one.commit
        if as_json:
            yield json.dumps(_opening(one), ensure_ascii=False)
            yield from (json.dumps(change_to_json(change), ensure_ascii=False) for change in one.changes)
        else:
            yield printable(
                f"{commit.id}  {format_timestamp(commit.created_us)}  {commit.actor}  {commit.operation}"
            )
            texts = (str(step.planned.to_json()["text"]) for step in one.schema_steps)
            yield from (f"  schema: {printable(text)}" for text in texts)
            yield from (f"  {change_line(change)}" for change in one.changes)
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
