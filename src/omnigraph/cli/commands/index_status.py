"""`omnigraph index status`: how far the declared indexes cover the tables of a branch. Changes nothing."""

from __future__ import annotations

from typing import Final

from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import Branch
from omnigraph.cli.output import Number
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import GraphArguments

TITLES: Final = {
    "table_key": "table",
    "property": "property",
    "kind": "index",
    "state": "state",
    "uncovered_fragments": "uncovered fragments",
    "uncovered_rows": "uncovered rows",
    "pending_rows": "pending vectors",
    "reason": "reason",
}
FIELDS: Final = (*TITLES, "declared", "coverage", "rows", "lance_type", "segments", "used_by_queries")
NUMBERS: Final = ("uncovered_fragments", "uncovered_rows", "rows")


@command(
    "omnigraph index status graph.omni",
    "omnigraph index status --store s3://bucket/graph.omni --branch review/1 --json",
    capability=Capability.ANY,
)
def index_status(target: GraphArguments, *, branch: Branch = "main", output: RowsOutput) -> None:
    """Show the indexes of a branch and the rows that they do not cover.

    An index covers the rows that existed when it was built or last extended; queries scan newer rows. Results are
    correct in any state. complete: every row is covered. behind: some rows are not covered. missing: the index was
    never built. `optimize` builds missing indexes and extends those that are behind. empty: the table has no rows.
    pending vectors: the rows that `embed` fills.
    none: no declared index serves `=` and range filters on this column, so they read every row, or the column is a
    vector for which no index is needed or possible. --json also has the coverage (Indexed, or Degraded for every state
    but complete), the Lance type, the segments, and whether queries use the index.
    """
    client = target.connect().client

    from omnigraph.wire.requests import StateParameters

    document = client.index_status(StateParameters(branch=branch))
    rows = [
        {**row, "kind": row["kind"] or "none", **{name: Number(row[name]) for name in NUMBERS}}
        for row in document["indexes"]
    ]
    output.show(lambda: document, TITLES, rows, fields=FIELDS)
