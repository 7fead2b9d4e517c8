"""`omnigraph branch list`: every branch, its newest commit, and its distance from main."""

from __future__ import annotations

import time
from typing import Any, Final

import typer

from omnigraph.base.clock import format_age
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Format, Json, Store, Uri
from omnigraph.cli.output import RowsFormat, choose_format, write_json, write_rows
from omnigraph.cli.target import resolve_target

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


def list_all(
    context: typer.Context, uri: Uri = None, store: Store = None, rows_format: Format = None, as_json: Json = False
) -> None:
    """Show every branch: its head, the age of the head, and its number of commits ahead of main and behind it."""
    output_format = choose_format(rows_format, as_json)
    location = resolve_target(context, uri, store)

    from omnigraph.graph.branches import list_branches
    from omnigraph.wire.commits import branch_list_output

    document = branch_list_output(list_branches(location))
    if output_format is RowsFormat.JSON:
        write_json(document)
        return
    rows = [{name: getattr(branch, name) for name in FIELDS} for branch in document.details]
    now = time.time_ns() // 1_000
    if output_format is RowsFormat.TABLE:
        write_rows(TITLES, [_table_row(row, now) for row in rows], output_format)
    else:
        write_rows({name: name for name in FIELDS}, rows, output_format)


def _table_row(row: dict[str, Any], now: int) -> dict[str, Any]:
    """Return the row of the table format."""
    if not row["readable"]:
        return {**row, "graph_commit_id": f"not readable: {row['error']}", "age": None}
    return {**row, "age": format_age(row["committed_at"], now)}


COMMAND = CommandSource(
    "list",
    list_all,
    ("omnigraph branch list graph.omni", "omnigraph branch list --store s3://bucket/graph.omni --json"),
)
