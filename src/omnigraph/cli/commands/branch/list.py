"""`omnigraph branch list`: every branch, its newest commit, and its distance from main."""

from __future__ import annotations

import time
from typing import Any, Final

from omnigraph.base.clock import format_age
from omnigraph.cli.command import command
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import GraphArguments

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


def list_all(target: GraphArguments, output: RowsOutput) -> None:
    """Show every branch: its head, the age of the head, and its number of commits ahead of main and behind it."""
    location = target.locate()

    from omnigraph.graph.branches import list_branches
    from omnigraph.wire.commits import branch_list_output

    document = branch_list_output(list_branches(location))
    rows = [{name: getattr(branch, name) for name in FIELDS} for branch in document.details]
    now_us = time.time_ns() // 1_000
    table_rows = [_table_row(row, now_us) for row in rows]
    output.show(lambda: document, TITLES, table_rows, fields=FIELDS, field_rows=rows)


def _table_row(row: dict[str, Any], now_us: int) -> dict[str, Any]:
    if not row["readable"]:
        return {**row, "graph_commit_id": f"not readable: {row['error']}", "age": None}
    return {**row, "age": format_age(row["committed_at"], now_us)}


COMMAND = command(
    list_all, "omnigraph branch list graph.omni", "omnigraph branch list --store s3://bucket/graph.omni --json"
)
