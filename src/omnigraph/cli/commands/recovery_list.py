"""`omnigraph recovery list`: pending intents, and the results of past recoveries. Changes nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import typer

from omnigraph.base.clock import format_timestamp
from omnigraph.cli.command import CommandSource
from omnigraph.cli.options import Branch, Format, Json, Store, Uri
from omnigraph.cli.output import RowsFormat, choose_format, write_json, write_rows
from omnigraph.cli.target import resolve_target

if TYPE_CHECKING:
    from omnigraph.graph.coordination.intent import PendingIntent
    from omnigraph.graph.manifest.records import RecoveryRecord

TITLES: Final = {
    "state": "state",
    "operation_id": "operation",
    "kind": "kind",
    "branch": "branch",
    "actor_id": "actor",
    "created": "time",
    "tables": "tables",
}


def list_recoveries(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    rows_format: Format = None,
    as_json: Json = False,
) -> None:
    """Show pending intents and past recoveries.

    A pending intent is a write that was interrupted: the next write to its branch, or `optimize`, completes it or rolls
    it back. A live intent belongs to a running writer. Past recoveries are those of the branch, newest first.
    """
    output_format = choose_format(rows_format, as_json)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    graph = Graph(location, branch, read_only=True)
    recoveries = [_recovery_to_json(record, branch) for record in graph.recoveries()]
    pending = [_intent_to_json(intent) for intent in graph.pending_writes()]
    if output_format is RowsFormat.JSON:
        write_json({"uri": graph.uri, "graph_branch": branch, "pending": pending, "recoveries": recoveries})
        return
    rows = [_as_row(document) for document in (*pending, *recoveries)]
    if not rows and output_format is RowsFormat.TABLE:
        if not context.obj.quiet:
            sys.stderr.write(f"no pending intents and no past recoveries on branch {branch}\n")
        return
    write_rows(TITLES if output_format is RowsFormat.TABLE else {name: name for name in TITLES}, rows, output_format)


def _intent_to_json(pending: PendingIntent) -> dict[str, Any]:
    document: dict[str, Any] = {"state": pending.state.value, "path": pending.path}
    if pending.problem:
        document["why"] = pending.problem
    if pending.intent is not None:
        intent = pending.intent
        document |= {
            "operation_id": intent.op_id,
            "kind": intent.kind,
            "branch": intent.branch,
            "actor_id": intent.actor,
            "graph_commit_id": intent.commit_id,
            "created_at": intent.created_us,
            "created": format_timestamp(intent.created_us),
            "tables": [table.id for table in intent.tables],
        }
    return document


def _recovery_to_json(record: RecoveryRecord, branch: str) -> dict[str, Any]:
    return {
        "state": record.action,
        "operation_id": record.operation_id,
        "kind": record.kind,
        "branch": branch,
        "actor_id": record.actor,
        "created_at": record.recovered_us,
        "created": format_timestamp(record.recovered_us),
        "tables": dict(record.tables),
    }


def _as_row(document: dict[str, Any]) -> dict[str, Any]:
    row = {name: document.get(name, "") for name in TITLES}
    if "operation_id" not in document:
        row["operation_id"] = document["path"]
    return {**row, "tables": len(document.get("tables", ()))}


COMMAND = CommandSource(
    "list",
    list_recoveries,
    (
        "omnigraph recovery list graph.omni",
        "omnigraph recovery list --store s3://bucket/graph.omni --branch review/1 --json",
    ),
)
