"""`omnigraph commit revert`: undo a commit with a new commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.display import format_count
from omnigraph.cli.command import command
from omnigraph.cli.commands.branch.merge import DryRun, show_merge
from omnigraph.cli.options import Actor, TargetBranch
from omnigraph.cli.resolution import ResolutionArguments
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments, announce

if TYPE_CHECKING:
    from omnigraph.graph.merge.run import MergeResult

CommitId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The commit to undo: its id, a unique prefix of it, or HEAD.", show_default=False
    ),
]


def revert(
    commit_id: CommitId,
    target: GraphArguments,
    *,
    branch: TargetBranch = "main",
    dry_run: DryRun = False,
    resolution: ResolutionArguments,
    actor: Actor = None,
    output: TextOutput,
) -> None:
    """Undo the changes of a commit with a new commit.

    An entity that a later commit changed is a conflict, as in a merge: ours is its current state, theirs its state
    before the commit.
    """
    strategy, decisions = resolution.read()
    location = target.locate()

    from omnigraph.api.graph import Graph
    from omnigraph.wire.results import merge_output

    graph = Graph(location, branch)
    commit = graph.get_commit(commit_id).id
    if not dry_run:
        announce(target.context, location)
    result = graph.revert(commit, strategy=strategy, resolve=decisions, dry_run=dry_run, actor=actor)
    summary = _summary(result, dry_run=dry_run)
    show_merge(output, lambda: merge_output(location, result), result, summary, dry_run=dry_run)


def _summary(result: MergeResult, *, dry_run: bool) -> str:
    if result.conflicts:
        return f"undoing {result.source} has {format_count(len(result.conflicts), 'conflict')}"
    if result.outcome == "already_up_to_date":
        return "nothing to undo"
    if dry_run:
        return f"would undo {result.source}"
    return f"reverted {result.source}" + (f" at commit {result.commit.id}" if result.commit else "")


COMMAND = command(
    revert,
    "omnigraph commit revert HEAD graph.omni",
    "omnigraph commit revert 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --dry-run --json",
)
