"""`omnigraph repair`: show the changes that external tools made to tables, and publish or discard them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from omnigraph.base.actors import require_actor_name
from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.hints import render_hint
from omnigraph.cli.options import LogFileOption
from omnigraph.cli.output import Number
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import StorageArguments

if TYPE_CHECKING:
    from omnigraph.types import TableRepairStats

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
CHANGED_ROWS: Final = ("rows_added", "rows_updated", "rows_deleted")
Confirm = Annotated[
    bool, typer.Option("--confirm", help="Publish changes that only reorganized files; refuse the others.")
]
Force = Annotated[bool, typer.Option("--force", help="With --confirm: publish every external change.")]
Discard = Annotated[bool, typer.Option("--discard", help="With --confirm: discard every external change.")]
Types = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type. Repeatable.")]
Branches = Annotated[
    list[str] | None, typer.Option("--branch", metavar="NAME", help="Only this branch. Repeatable. Default: all.")
]
RepairActor = Annotated[
    str | None,
    typer.Option("--as", metavar="ACTOR", callback=require_actor_name, help="Who repairs. Default: omnigraph:repair."),
]


@command(
    "omnigraph repair graph.omni",
    "omnigraph repair graph.omni --confirm",
    "omnigraph repair --store s3://bucket/graph.omni --discard --confirm --json",
    "omnigraph repair graph.omni --type Person --branch review/1 --force --confirm --as ada",
    capability=Capability.DIRECT,
)
def repair(
    target: StorageArguments,
    *,
    confirm: Confirm = False,
    force: Force = False,
    discard: Discard = False,
    types: Types = None,
    branches: Branches = None,
    actor: RepairActor = None,
    output: RowsOutput,
    log_file: LogFileOption = None,
) -> None:
    """Show, publish or discard changes of external tools.

    A table has drifted if its newest version is not the published one and no Omnigraph write created it: reads continue
    to work, writes to it are refused. Without --confirm, nothing is changed; with it, interrupted writes are recovered
    first. The default is every table of every live branch. The exit code is 3 if a change was refused.
    """
    location = target.locate_and_print()

    from omnigraph.api.graph import Graph
    from omnigraph.maintenance.repair import RepairOptions
    from omnigraph.wire.maintenance import repair_output

    RepairOptions(confirm=confirm, force=force, discard=discard).validate()
    unverified: Literal["skip", "publish", "discard"] = "publish" if force else "discard" if discard else "skip"
    graph = Graph(location, read_only=not confirm)
    result = graph.repair(unverified=unverified, types=types, branches=branches, dry_run=not confirm, actor=actor)
    document = repair_output(location.uri, result, render_hint)
    rows = [
        {**row, "operations": _count_operations(row["operations"])}
        | {name: None if row[name] is None else Number(row[name]) for name in CHANGED_ROWS}
        for row in document["tables"]
    ]
    output.show(lambda: document, TITLES, rows, fields=(*TITLES, "error", "commit"))
    _print_hints(result.tables, output)
    if any(row.action.value == "refused" for row in result.tables):
        raise typer.Exit(ExitCode.REFUSED)


def _count_operations(operations: list[str]) -> str:
    counts = ((name, len(list(group))) for name, group in groupby(operations))
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counts)


def _print_hints(rows: Sequence[TableRepairStats], output: RowsOutput) -> None:
    """Print errors and unchecked properties to stderr, and, unless quiet, the flags to use next."""
    for row in rows:
        if row.reason is not None:
            sys.stderr.write(f"{row.table_key} on {row.branch}: {render_hint(row.reason)}\n")
    for row in rows:
        if row.action.value == "forced":
            unchecked = " and ".join(row.not_checked)
            sys.stderr.write(f"note: {row.table_key} on {row.branch} was published without a check of {unchecked}\n")
    classifications = {row.classification.value for row in rows if row.can_be_published and not row.reason}
    if "verified_maintenance" in classifications:
        output.notify("hint: Pass `--confirm` to publish verified maintenance, which changes no row.")
    if classifications - {"verified_maintenance"}:
        changes = "the other changes" if "verified_maintenance" in classifications else "external changes"
        output.notify(f"hint: Pass `--force --confirm` to publish {changes}, `--discard --confirm` to discard them.")
