"""`omnigraph branch merge`: merge a branch as one commit, or report every conflict and write nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.actors import login_name
from omnigraph.cli.command import CommandSource
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.hints import render_hint
from omnigraph.cli.options import Actor, Json, Store, Uri, Yes
from omnigraph.cli.output import printable, write_json, write_text
from omnigraph.cli.resolution import Resolve, Strategy, read_decisions, read_strategy
from omnigraph.cli.target import announce_target, confirm_destruction, resolve_target

if TYPE_CHECKING:
    from omnigraph.graph.merge.run import MergeResult

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="The branch or commit to merge.", show_default=False)]
Into = Annotated[str, typer.Option("--into", metavar="BRANCH", help="The branch that gets the changes.")]
DeleteBranch = Annotated[
    bool, typer.Option("--delete-branch", help="Delete the merged branch, unless it has commits that were not merged.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the changes and every conflict, and write nothing.")]


def merge(
    context: typer.Context,
    source: Source,
    uri: Uri = None,
    store: Store = None,
    into: Into = "main",
    delete_source: DeleteBranch = False,
    dry_run: DryRun = False,
    strategy: Strategy = None,
    resolve: Resolve = None,
    actor: Actor = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Merge a branch into another.

    Compares both sides with their merge base, entity by entity. If only one side changed an entity, the merge takes
    that change; if both changed it differently, that is a conflict. With a conflict, nothing is written and the exit
    code is 1.
    """
    sides = read_strategy(strategy)
    decisions = read_decisions(resolve)
    location = resolve_target(context, uri, store)

    from omnigraph.graph.merge.request import delete_merged, make_resolution, run_merge
    from omnigraph.graph.merge.run import MergeRequest

    resolution = make_resolution(sides, decisions)
    if not dry_run:
        announce_target(context, location)
        if delete_source:
            confirm_destruction(context, location, f"deleting branch {source}", yes=yes, as_json=as_json)
    request = MergeRequest(source, actor or login_name(), into, resolution, dry_run)
    result = run_merge(location, request)
    failure = delete_merged(location, result) if delete_source and not dry_run else None
    deleted = delete_source and not dry_run and failure is None
    if as_json:
        from msgspec.structs import replace

        from omnigraph.wire.results import merge_output

        document = merge_output(location, result)
        if delete_source and not dry_run:
            document = replace(document, branch_deleted=deleted, branch_delete_error=failure)
        write_json(document)
    elif dry_run:
        write_text(_report(result, dry_run=True))
        print_conflict_hint(result, quiet=context.obj.quiet)
    elif not context.obj.quiet:
        sys.stderr.write(_report(result, dry_run=False))
        sys.stderr.write(f"deleted branch {source}\n" if deleted else "")
    if failure is not None and not as_json:
        sys.stderr.write(f"warning: branch {source} was not deleted: {printable(failure)}\n")
    if result.conflicts:
        raise typer.Exit(ExitCode.ERROR)


def change_lines(result: MergeResult) -> list[str]:
    """Return one line per schema step, one per changed table, and one per conflict."""
    lines = [f"  schema: {printable(str(planned.to_json()['text']))}" for planned in result.schema_steps]
    for table in result.tables:
        counts = ((table.inserted, "inserted"), (table.updated, "updated"), (table.deleted, "deleted"))
        changes = ", ".join(f"{count:,} {word}" for count, word in counts if count)
        lines.append(f"  {table.table}: {changes or 'same as main'}")
    return lines + [f"  {printable(conflict.describe())}" for conflict in result.conflicts]


def print_conflict_hint(result: MergeResult, *, quiet: bool) -> None:
    """Print the hint of the conflict error to stderr after a dry run."""
    from omnigraph.graph.merge.conflicts import MergeConflictError

    if result.conflicts and not quiet:
        error = MergeConflictError(result.source, result.conflicts)
        sys.stderr.write(f"hint: {render_hint(error.advice)}\n")


def conflict_count(result: MergeResult) -> str:
    """Return the number of conflicts as text."""
    count = len(result.conflicts)
    return "1 conflict" if count == 1 else f"{count:,} conflicts"


def _report(result: MergeResult, *, dry_run: bool) -> str:
    branches = f"{result.source} into {result.target}"
    kind = " (fast_forward)" if result.outcome == "fast_forward" else ""
    if result.conflicts:
        first = f"merging {branches} has {conflict_count(result)}"
    elif result.outcome == "already_up_to_date":
        first = f"{result.target} is already up to date with {result.source}"
    elif dry_run:
        first = f"would merge {branches}{kind}"
    else:
        commit = "" if result.commit is None else f" at commit {result.commit.id}"
        first = f"merged {branches}{kind}{commit}"
    return "\n".join([first, *change_lines(result)]) + "\n"


COMMAND = CommandSource(
    "merge",
    merge,
    (
        "omnigraph branch merge review/1 graph.omni",
        "omnigraph branch merge review/1 --into main --store graph.omni --delete-branch",
        "omnigraph branch merge review/1 --store graph.omni --dry-run --json",
        "omnigraph branch merge review/1 --store graph.omni --strategy divergent_update=theirs",
    ),
)
