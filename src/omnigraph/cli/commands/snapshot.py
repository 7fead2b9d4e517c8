"""`omnigraph snapshot`: the tables that a branch, a commit or a manifest version publishes."""

from __future__ import annotations

from typing import Final

from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import StateArguments
from omnigraph.cli.output import Count, RowsFormat, format_pairs, write_text
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import GraphArguments

TITLES: Final = {
    "table_key": "table",
    "published_dataset_version": "version",
    "native_dataset_branch": "lance branch",
    "entity_count": "rows",
}


@command(
    "omnigraph snapshot graph.omni",
    "omnigraph snapshot --store s3://bucket/graph.omni --branch review/1 --json",
    "omnigraph snapshot graph.omni --version 3 --format csv",
    capability=Capability.ANY,
)
def snapshot(target: GraphArguments, state: StateArguments, output: RowsOutput) -> None:
    """Show the tables that are published together.

    Shows the newest state of a branch, or that of an earlier commit, manifest version or time.
    """
    connection = target.connect(state=state)

    from omnigraph.wire.requests import StateParameters

    document = connection.client.snapshot(StateParameters(**connection.state))
    rows = [{name: getattr(dataset, name) for name in TITLES} for dataset in document.datasets]
    if output.format is RowsFormat.TABLE:
        pairs = format_pairs(
            {
                "branch": document.graph_branch,
                "commit": document.graph_commit_id,
                "manifest version": document.graph_manifest_version,
                "internal-schema": document.internal_schema_version,
                "schema": document.schema_hash,
            }
        )
        write_text(f"{pairs}\n\n")
        rows = [
            {
                **row,
                "native_dataset_branch": row["native_dataset_branch"] or "main",
                "entity_count": Count(row["entity_count"]),
            }
            for row in rows
        ]
    output.show(lambda: document, TITLES, rows)
