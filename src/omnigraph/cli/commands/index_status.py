"""`omnigraph index status`: how far the declared indexes cover the tables of a branch. Changes nothing."""

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
    """Show the indexes of a branch and the rows that they do not cover.

    An index covers the rows that existed when it was built or last extended; queries scan newer rows. Results are
    correct with any coverage. Indexed: every row is covered. Degraded: some rows are not covered; `optimize` covers
    them. none: the column has no index for `=` and ranges by design. empty: the table has no rows. JSON and CSV report
    the last two as Degraded, with the reason.
    """
    output_format = choose_format(rows_format, as_json)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    coverages = Graph(location, branch, read_only=True).index_status()
    if output_format is RowsFormat.JSON:
        indexes = [row.to_json() for row in coverages]
        write_json({"uri": location.uri, "graph_branch": branch, "indexes": indexes})
        return
    names = {name: name for name in (*TITLES, "declared", "rows")}
    if output_format is RowsFormat.TABLE:
        write_rows(TITLES, [_table_row(row) for row in coverages], output_format)
    else:
        write_rows(names, [_row(row) for row in coverages], output_format)


def _row(row: IndexCoverage) -> dict[str, Any]:
    document: dict[str, Any] = row.to_json()
    return {**document, "kind": document["kind"] or "none"}


def _table_row(row: IndexCoverage) -> dict[str, Any]:
    """Return the row of the table format, with `none` for undeclared indexes and `empty` for empty tables."""
    document = _row(row)
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
