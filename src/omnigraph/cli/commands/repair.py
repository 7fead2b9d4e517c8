"""`omnigraph repair`: show the changes that external tools made to tables, and publish or discard them."""

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
        bool, typer.Option("--confirm", help="Publish changes that only reorganized files; refuse the others.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="With --confirm: publish every external change.")] = False,
    discard: Annotated[bool, typer.Option("--discard", help="With --confirm: discard every external change.")] = False,
    rows_format: Format = None,
    as_json: Json = False,
    log_file: LogFileOption = None,
) -> None:
    """Show, publish or discard changes of external tools.

    A table has drifted if its newest version is not the published one and no Omnigraph write created it: reads continue
    to work, writes to it are refused. Without --confirm, nothing is changed; with it, interrupted writes are recovered
    first. Every live branch is checked. The exit code is 3 if a change was refused.
    """
    output_format = choose_format(rows_format, as_json)
    location = direct_target(context, uri, store)

    from omnigraph.api.graph import Graph
    from omnigraph.maintenance.repair import RepairOptions

    RepairOptions(confirm=confirm, force=force, discard=discard).validate()
    unverified: Literal["skip", "publish", "discard"] = "publish" if force else "discard" if discard else "skip"
    graph = Graph(location, read_only=not confirm)
    result = graph.repair(unverified=unverified, dry_run=not confirm)
    rows = result.tables
    if output_format is RowsFormat.JSON:
        from omnigraph.wire.results import repair_output

        write_json(repair_output(location.uri, [_document(row) for row in rows], result))
    else:
        names = {name: name for name in (*TITLES, "error", "commit")}
        write_rows(
            TITLES if output_format is RowsFormat.TABLE else names, [_as_row(row) for row in rows], output_format
        )
    _print_hints(rows, quiet=context.obj.quiet)
    if any(row.action.value == "refused" for row in rows):
        raise typer.Exit(ExitCode.REFUSED)


def _document(row: TableRepairStats) -> dict[str, Any]:
    return {**row.to_json(), "error": None if row.reason is None else render_hint(row.reason)}


def _as_row(row: TableRepairStats) -> dict[str, Any]:
    counts = ((name, len(list(group))) for name, group in groupby(row.operations))
    operations = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counts)
    return {**_document(row), "operations": operations}


def _print_hints(rows: Sequence[TableRepairStats], *, quiet: bool) -> None:
    """Print errors and unchecked properties to stderr, and, unless quiet, the flags to use next."""
    for row in rows:
        if row.reason is not None:
            sys.stderr.write(f"{row.table_key} on {row.branch}: {render_hint(row.reason)}\n")
    for row in rows:
        if row.action.value == "forced":
            unchecked = " and ".join(row.not_checked)
            sys.stderr.write(f"note: {row.table_key} on {row.branch} was published without a check of {unchecked}\n")
    classifications = {row.classification.value for row in rows if row.can_be_published and not row.reason}
    if quiet or not classifications:
        return
    if "verified_maintenance" in classifications:
        sys.stderr.write("hint: Pass `--confirm` to publish verified maintenance, which changes no row.\n")
    if classifications - {"verified_maintenance"}:
        which = "the other changes" if "verified_maintenance" in classifications else "external changes"
        sys.stderr.write(f"hint: Pass `--force --confirm` to publish {which}, `--discard --confirm` to discard them.\n")


COMMAND = CommandSource(
    "repair",
    repair,
    (
        "omnigraph repair graph.omni",
        "omnigraph repair graph.omni --confirm",
        "omnigraph repair --store s3://bucket/graph.omni --discard --confirm --json",
    ),
)
