"""`omnigraph index status`: how well the declared indexes cover the tables of a branch. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Branch, Format, Json, Store, Uri
from omnigraph.cli.output import RowsFormat, choose_format, write_json, write_rows
from omnigraph.cli.target import resolve_target

if TYPE_CHECKING:
    from omnigraph.maintenance.index_status import IndexCoverage

TITLES: Final = {
    "table_key": "table",
    "property": "property",
    "kind": "index",
    "coverage": "coverage",
    "uncovered_fragments": "uncovered fragments",
    "uncovered_rows": "uncovered rows",
    "reason": "reason",
}


def index_status(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    rows_format: Format = None,
    as_json: Json = False,
) -> None:
    """Show which indexes a branch has and what they leave out.

    An index covers the rows that were there when it was built or last extended; what came later is found by reading it.
    Reads are right with any coverage. Indexed: every row is covered. Degraded: some are not, and optimize covers them.
    none: `=` and ranges on the column have no index by design. empty: the table has no rows, so nothing is left out.
    For programs the last two are Degraded, with the reason.
    """
    how = choose_format(rows_format, as_json)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    found = Graph(location, branch, read_only=True).index_status()
    if how is RowsFormat.JSON:
        indexes = [row.to_json() for row in found]
        write_json({"uri": location.uri, "graph_branch": branch, "indexes": indexes})
        return
    names = {name: name for name in (*TITLES, "declared", "rows")}
    if how is RowsFormat.TABLE:
        write_rows(TITLES, [_shown(row) for row in found], how)
    else:
        write_rows(names, [_as_row(row) for row in found], how)


def _as_row(row: IndexCoverage) -> dict[str, Any]:
    document: dict[str, Any] = row.to_json()
    return {**document, "kind": document["kind"] or "none"}


def _shown(row: IndexCoverage) -> dict[str, Any]:
    """A row for people. Where nothing is wanted or nothing is there, nothing is behind."""
    document = _as_row(row)
    if not row.declared:
        return {**document, "coverage": "none"}
    is_empty = not row.rows and document["coverage"] == "Degraded"
    return {**document, "coverage": "empty"} if is_empty else document


COMMAND = CommandSource(
    "status",
    index_status,
    (
        "omnigraph index status graph.omni",
        "omnigraph index status --store s3://bucket/graph.omni --branch review/1 --json",
    ),
)
