"""`omnigraph index status`: how far the declared indexes cover the tables of a branch. Changes nothing."""

from __future__ import annotations

from typing import Any, Final

from omnigraph.cli.command import command
from omnigraph.cli.options import Branch
from omnigraph.cli.output import RowsFormat
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import GraphArguments

TITLES: Final = {
    "table_key": "table",
    "property": "property",
    "kind": "index",
    "coverage": "coverage",
    "uncovered_fragments": "uncovered fragments",
    "uncovered_rows": "uncovered rows",
    "reason": "reason",
}
FIELDS: Final = (*TITLES, "declared", "rows")


@command(
    "omnigraph index status graph.omni",
    "omnigraph index status --store s3://bucket/graph.omni --branch review/1 --json",
)
def index_status(target: GraphArguments, *, branch: Branch = "main", output: RowsOutput) -> None:
    """Show the indexes of a branch and the rows that they do not cover.

    An index covers the rows that existed when it was built or last extended; queries scan newer rows. Results are
    correct with any coverage. Indexed: every row is covered. Degraded: some rows are not covered; `optimize` covers
    them. none: no declared index serves `=` and range filters on this column, so they read every row. empty: the
    table has no rows. --json and --format jsonl report the last two as Degraded, with the reason.
    """
    graph = target.open(branch)

    from omnigraph.wire.maintenance import index_status_output

    document = index_status_output(graph.uri, branch, graph.index_status())
    rows = [{**row, "kind": row["kind"] or "none"} for row in document["indexes"]]
    if output.format is not RowsFormat.JSONL:
        rows = [{**row, "coverage": _coverage_text(row)} for row in rows]
    output.show(lambda: document, TITLES, rows, fields=FIELDS)


def _coverage_text(row: dict[str, Any]) -> str:
    """Return the coverage in text formats, with `none` for undeclared indexes and `empty` for empty tables."""
    if not row["declared"]:
        return "none"
    return "empty" if not row["rows"] and row["coverage"] == "Degraded" else str(row["coverage"])
