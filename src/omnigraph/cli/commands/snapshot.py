"""`omnigraph snapshot`: the tables that a branch, a commit or a manifest version publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import At, Branch, Commit, Format, Json, Store, Uri, Version
from omnigraph.cli.output import RowsFormat, choose_format, write_json, write_pairs, write_rows, write_text
from omnigraph.cli.state import choose_state
from omnigraph.cli.target import resolve_target

if TYPE_CHECKING:
    from omnigraph.graph.manifest.snapshot import Snapshot

TITLES: Final = {
    "table_key": "table",
    "published_dataset_version": "version",
    "native_dataset_branch": "lance branch",
    "entity_count": "rows",
}


def snapshot(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    commit: Commit = None,
    version: Version = None,
    timestamp: At = None,
    rows_format: Format = None,
    as_json: Json = False,
) -> None:
    """Show the tables that are published together.

    Shows the newest state of a branch, or that of an earlier commit, manifest version or time.
    """
    output_format = choose_format(rows_format, as_json)
    state = choose_state(commit, version, timestamp)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    graph = Graph(location, branch, read_only=True)
    selected = graph.snapshot(state)
    selected.schema.require_intact()
    _show(selected, output_format)


def _show(selected: Snapshot, output_format: RowsFormat) -> None:
    from omnigraph.wire.commits import snapshot_output

    document = snapshot_output(selected)
    if output_format is RowsFormat.JSON:
        write_json(document)
        return
    rows = [{name: getattr(dataset, name) for name in TITLES} for dataset in document.datasets]
    if output_format is RowsFormat.TABLE:
        write_pairs(
            {
                "branch": document.graph_branch,
                "commit": document.graph_commit_id,
                "manifest version": document.graph_manifest_version,
                "internal-schema": document.internal_schema_version,
                "schema": document.schema_hash,
            }
        )
        write_text("")
        rows = [{**row, "native_dataset_branch": row["native_dataset_branch"] or "main"} for row in rows]
    write_rows(TITLES, rows, output_format)


COMMAND = CommandSource(
    "snapshot",
    snapshot,
    (
        "omnigraph snapshot graph.omni",
        "omnigraph snapshot --store s3://bucket/graph.omni --branch review/1 --json",
        "omnigraph snapshot graph.omni --version 3 --format csv",
    ),
)
