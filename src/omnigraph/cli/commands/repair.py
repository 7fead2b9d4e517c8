"""`omnigraph repair`: what foreign tools did to the tables of a graph, and what to make of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.hints import render_hint
from omnigraph.cli.options import Format, Json, LogFileOption, Store, Uri
from omnigraph.cli.output import RowsFormat, choose_format, write_json, write_rows
from omnigraph.cli.target import direct_target

if TYPE_CHECKING:
    from omnigraph.maintenance.repair import TableRepairStats

TITLES: Final = {
    "table_key": "table",
    "branch": "branch",
    "classification": "classification",
    "action": "action",
    "manifest_version": "published",
    "lance_head_version": "head",
    "operations": "operations",
    "rows_added": "added",
    "rows_updated": "updated",
    "rows_deleted": "deleted",
}


def repair(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Publish what only rearranged files; refuse the rest.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --confirm: publish every foreign change.")
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="With --confirm: drop every foreign change.")
    ] = False,
    rows_format: Format = None,
    as_json: Json = False,
    log_file: LogFileOption = None,
) -> None:
    """Look for changes that other tools made, and publish or drop them.

    A table whose newest version is not the published one, with no write of ours to explain it, has drifted: reads go
    on as before, writes to it are refused. Without --confirm nothing is changed; with it, a write that stopped half-way
    is finished or undone first. Every live branch is looked at. The exit code is 3 when something was refused.
    """
    how = choose_format(rows_format, as_json)
    location = direct_target(context, uri, store)

    from omnigraph.api.graph import Graph
    from omnigraph.maintenance.repair import RepairOptions

    RepairOptions(confirm=confirm, force=force, discard=discard).validate()
    unverified: Literal["skip", "publish", "discard"] = (
        "publish" if force else "discard" if discard else "skip"
    )
    graph = Graph(location, read_only=not confirm)
    result = graph.repair(unverified=unverified, dry_run=not confirm)
    rows = result.tables
    if how is RowsFormat.JSON:
        from omnigraph.wire.results import repair_output

        write_json(repair_output(location.uri, [_document(row) for row in rows], result))
    else:
        names = {name: name for name in (*TITLES, "error", "commit")}
        write_rows(TITLES if how is RowsFormat.TABLE else names, [_as_row(row) for row in rows], how)
    _tell(rows, quiet=context.obj.quiet)
    if any(row.action.value == "refused" for row in rows):
        raise typer.Exit(ExitCode.REFUSED)


def _document(row: TableRepairStats) -> dict[str, Any]:
    return {**row.to_json(), "error": None if row.reason is None else render_hint(row.reason)}


def _as_row(row: TableRepairStats) -> dict[str, Any]:
    named = ((name, len(list(same))) for name, same in groupby(row.operations))
    operations = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in named)
    return {**_document(row), "operations": operations}


def _tell(rows: Sequence[TableRepairStats], *, quiet: bool) -> None:
    """On stderr: errors and what was published unchecked in any case, and after a preview what to do next."""
    for row in rows:
        if row.reason is not None:
            sys.stderr.write(f"{row.table_key} on {row.branch}: {render_hint(row.reason)}\n")
    for row in rows:
        if row.action.value == "forced":
            unchecked = " and ".join(row.not_checked)
            sys.stderr.write(f"note: nobody checked the {unchecked} of {row.table_key} on {row.branch}\n")
    waiting = {row.classification.value for row in rows if row.can_be_published and not row.reason}
    if quiet or not waiting:
        return
    if "verified_maintenance" in waiting:
        sys.stderr.write("hint: --confirm publishes verified maintenance, which changes no row\n")
    if waiting - {"verified_maintenance"}:
        which = "the others" if "verified_maintenance" in waiting else "foreign changes"
        sys.stderr.write(f"hint: --force --confirm publishes {which}, --discard --confirm drops them\n")


COMMAND = CommandSource(
    "repair",
    repair,
    (
        "omnigraph repair graph.omni",
        "omnigraph repair graph.omni --confirm",
        "omnigraph repair --store s3://bucket/graph.omni --discard --confirm --json",
    ),
)
