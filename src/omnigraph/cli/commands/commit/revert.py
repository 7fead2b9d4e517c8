"""`omnigraph commit revert`: undo a commit with a new commit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.commands.branch.merge import DryRun, change_lines, conflict_count, print_conflict_hint
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.options import Actor, Json, Store, TargetBranch, Uri
from omnigraph.cli.output import write_json, write_text
from omnigraph.cli.resolution import Resolve, Strategy, read_decisions, read_strategy
from omnigraph.cli.target import announce_target, resolve_target

if TYPE_CHECKING:
    from omnigraph.graph.merge.run import MergeResult

CommitId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The commit to undo: its id, a unique prefix of it, or HEAD.", show_default=False
    ),
]


def revert(
    context: typer.Context,
    commit_id: CommitId,
    uri: Uri = None,
    store: Store = None,
    branch: TargetBranch = "main",
    dry_run: DryRun = False,
    strategy: Strategy = None,
    resolve: Resolve = None,
    actor: Actor = None,
    as_json: Json = False,
) -> None:
    """Undo the changes of a commit with a new commit.

    An entity that a later commit changed is a conflict, as in a merge: ours is its current state, theirs its state
    before the commit.
    """
    sides, decisions = read_strategy(strategy), read_decisions(resolve)
    location = resolve_target(context, uri, store)

    from omnigraph.api.graph import Graph

    graph = Graph(location, branch)
    commit = graph.get_commit(commit_id).id
    if not dry_run:
        announce_target(context, location)
    result = graph.revert(commit, strategy=sides, resolve=decisions, dry_run=dry_run, actor=actor)
    text = "\n".join([_summary(result, dry_run=dry_run), *change_lines(result)]) + "\n"
    if as_json:
        from omnigraph.wire.results import merge_output

        write_json(merge_output(location, result))
    elif dry_run:
        write_text(text)
        print_conflict_hint(result, quiet=context.obj.quiet)
    elif not context.obj.quiet:
        sys.stderr.write(text)
    if result.conflicts:
        raise typer.Exit(ExitCode.ERROR)


def _summary(result: MergeResult, *, dry_run: bool) -> str:
    if result.conflicts:
        return f"undoing {result.source} has {conflict_count(result)}"
    if result.outcome == "already_up_to_date":
        return "nothing to undo"
    if dry_run:
        return f"would undo {result.source}"
    return f"reverted {result.source}" + (f" at commit {result.commit.id}" if result.commit else "")


COMMAND = CommandSource(
    "revert",
    revert,
    (
        "omnigraph commit revert HEAD graph.omni",
        "omnigraph commit revert 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --dry-run --json",
    ),
)
