"""`omnigraph recovery list`: pending intents, and the results of past recoveries. Changes nothing."""

from __future__ import annotations

from typing import Any, Final

from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import Branch
from omnigraph.cli.output import RowsFormat
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import StorageArguments

TITLES: Final = {
    "state": "state",
    "operation_id": "operation",
    "kind": "kind",
    "branch": "branch",
    "actor_id": "actor",
    "created": "time",
    "tables": "tables",
}


@command(
    "omnigraph recovery list graph.omni",
    "omnigraph recovery list --store s3://bucket/graph.omni --branch review/1 --json",
    capability=Capability.DIRECT,
)
def list_recoveries(target: StorageArguments, *, branch: Branch = "main", output: RowsOutput) -> None:
    """Show the intents of unfinished writes of all branches, and the past recoveries of one branch.

    A live intent belongs to a writer that may still run. A pending intent belongs to an interrupted write: the next
    write to its branch, or `optimize`, completes it or rolls it back. An unreadable intent is not changed. Past
    recoveries are listed newest first.
    """
    graph = target.open(branch)

    from omnigraph.wire.maintenance import recoveries_output

    recoveries = graph.recoveries()
    document = recoveries_output(graph.uri, branch, graph.pending_writes(), recoveries)
    rows = [_as_row(entry) for entry in (*document["pending"], *document["recoveries"])]
    if not rows and output.format is RowsFormat.TABLE:
        output.notify(f"no pending intents and no past recoveries on branch {branch}")
        return
    output.show(lambda: document, TITLES, rows)


def _as_row(entry: dict[str, Any]) -> dict[str, Any]:
    row = {name: entry.get(name, "") for name in TITLES}
    if "operation_id" not in entry:
        row["operation_id"] = entry["path"]  # the intent is unreadable: only its path is known
    return {**row, "tables": len(entry.get("tables", ()))}
