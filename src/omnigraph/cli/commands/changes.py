"""`omnigraph changes poll`: the commits of a branch after a cursor, each with its changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.base.clock import format_timestamp
from omnigraph.cli.changes import change_json, change_line, document_lines, to_json, write_lines
from omnigraph.cli.command import command
from omnigraph.cli.options import Branch
from omnigraph.cli.output import RowsFormat, printable
from omnigraph.cli.results import ChangesOutput
from omnigraph.cli.target import GraphArguments

if TYPE_CHECKING:
    from omnigraph.graph.entity_changes import ChangeFeed, CommitChanges

Cursor = Annotated[
    str | None, typer.Option("--cursor", metavar="ID", help="Start after this commit. Default: the first commit.")
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most N commits.")]


def poll(
    target: GraphArguments, *, branch: Branch = "main", cursor: Cursor = None, limit: Limit = 100, output: ChangesOutput
) -> None:
    """Show the commits of a branch after a cursor, oldest first, with their changes.

    The cursor is a commit id. The command prints the next cursor at the end; store it and pass it to the next call. A
    repeated cursor gives the same commits again. If `cleanup` deleted the data of a commit after the cursor,
    the command fails with `change_feed_gap`: export the branch and continue from the exported commit.
    """
    feed = target.open(branch).changes(cursor, limit=limit)
    if output.format is RowsFormat.JSON:
        blocks = (to_json(_block(commit_changes)) for commit_changes in feed.commits)
        write_lines(document_lines(_position(feed), "blocks", blocks), as_json=True)
    elif output.format is RowsFormat.JSONL:
        write_lines(_json_lines(feed), as_json=True)
    else:
        write_lines(_lines(feed))


def _position(feed: ChangeFeed) -> dict[str, Any]:
    return {"cursor": feed.cursor, **({} if feed.has_more else {"caught_up": True})}


def _block(commit_changes: CommitChanges) -> dict[str, Any]:
    from omnigraph.wire.changes import entity_change_output

    return {**_cause(commit_changes), "changes": list(map(entity_change_output, commit_changes.changes))}


def _cause(commit_changes: CommitChanges) -> dict[str, Any]:
    """Return the commit and its schema steps, without the changes of rows."""
    from omnigraph.wire.changes import cause_output
    from omnigraph.wire.results import feed_step_output

    steps = [feed_step_output(step) for step in commit_changes.schema_steps]
    return {"cause": cause_output(commit_changes.commit), **({"schema_steps": steps} if steps else {})}


def _json_lines(feed: ChangeFeed) -> Iterator[str]:
    """Yield one line per commit with its schema steps, one per change of it, and a last line with the cursor."""
    for commit_changes in feed.commits:
        yield to_json(_cause(commit_changes))
        yield from map(change_json, commit_changes.changes)
    yield to_json(_position(feed))


def _lines(feed: ChangeFeed) -> Iterator[str]:
    """Yield one line per commit, one per schema step and change of the commit, and a last line with the cursor."""
    for commit_changes in feed.commits:
        commit = commit_changes.commit
        yield printable(f"{commit.id}  {format_timestamp(commit.created_us)}  {commit.actor}  {commit.operation}")
        yield from (f"  schema: {printable(step.planned.step.describe())}" for step in commit_changes.schema_steps)
        yield from (f"  {change_line(change)}" for change in commit_changes.changes)
    yield f"cursor {feed.cursor}" + (" (more)" if feed.has_more else "")


COMMAND = command(
    poll,
    "omnigraph changes poll graph.omni",
    "omnigraph changes poll --cursor 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --format jsonl",
)
