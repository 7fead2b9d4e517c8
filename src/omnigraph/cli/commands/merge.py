"""`omnigraph branch merge` and `omnigraph commit revert`: one commit, or every conflict and nothing written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.display import format_count
from omnigraph.base.errors import OmnigraphError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.hints import render_hint
from omnigraph.cli.options import Actor, TargetBranch, Yes
from omnigraph.cli.output import printable
from omnigraph.cli.resolution import ResolutionArguments
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import StorageArguments, confirm_destruction, print_location

if TYPE_CHECKING:
    from omnigraph.api.graph import Graph
    from omnigraph.types import MergeResult
    from omnigraph.wire.results import BranchMergeOutput

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="The branch or commit to merge.", show_default=False)]
Into = Annotated[str, typer.Option("--into", metavar="BRANCH", help="The branch that gets the changes.")]
DeleteBranch = Annotated[
    bool, typer.Option("--delete-branch", help="Delete the merged branch, unless it has commits that were not merged.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the changes and every conflict, and write nothing.")]
CommitId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The commit to undo: its id, a unique prefix of it, or HEAD.", show_default=False
    ),
]


@command(
    "omnigraph branch merge review/1 graph.omni",
    "omnigraph branch merge review/1 --into main --store graph.omni --delete-branch",
    "omnigraph branch merge review/1 --store graph.omni --dry-run --json",
    "omnigraph branch merge review/1 --store graph.omni --strategy divergent_update=theirs",
    capability=Capability.ANY,
)
def merge(
    source: Source,
    target: StorageArguments,
    *,
    into: Into = "main",
    delete_source: DeleteBranch = False,
    dry_run: DryRun = False,
    resolution: ResolutionArguments,
    actor: Actor = None,
    yes: Yes = False,
    output: TextOutput,
) -> None:
    """Merge a branch into another.

    Compares both sides with their merge base, entity by entity. If only one side changed an entity, the merge takes
    that change; if both changed it differently, that is a conflict. With a conflict, nothing is written and the exit
    code is 1.
    """
    strategy, decisions = resolution.read()
    location = target.locate()

    from omnigraph.api.graph import Graph
    from omnigraph.api.history import read_new_names
    from omnigraph.wire.results import BranchDeletion, merge_output

    deletes = delete_source and not dry_run
    if not dry_run:
        print_location(target.context, location)
    if deletes:
        confirm_destruction(target.context, location, f"deleting branch {source}", yes=yes)
    graph = Graph(location, branch=into)
    result = graph.merge(source, strategy=strategy, resolve=decisions, dry_run=dry_run, actor=actor)
    failure = _delete_source(graph, result) if deletes else None

    def document() -> BranchMergeOutput:
        hint = "" if failure is None else render_hint(failure.advice, target.arguments)
        deletion = BranchDeletion(failure, hint) if deletes else None
        return merge_output(result, read_new_names(location, result.commit), deletion)

    notices = [f"deleted branch {source}"] if deletes and failure is None else []
    _show(output, document, result, _merge_summary(result, dry_run=dry_run), dry_run=dry_run, notices=notices)
    if failure is not None and not output.as_json:
        sys.stderr.write(f"warning: branch {source} was not deleted: {printable(failure.message)}\n")


def _delete_source(graph: Graph, result: MergeResult) -> OmnigraphError | None:
    """Delete the merged branch if it has no newer commits. Return why it could not be deleted."""
    try:
        graph.delete_branch(result.source, if_commit=result.source_head)
    except OmnigraphError as error:
        return error
    return None


def _show(
    output: TextOutput,
    document: Callable[[], BranchMergeOutput],
    result: MergeResult,
    summary: str,
    *,
    dry_run: bool,
    notices: Iterable[str] = (),
) -> None:
    """Print the changes of a merge or a revert: after a dry run on stdout, otherwise as notices. Exit for conflicts."""
    text = "\n".join([summary, *_change_lines(result)])
    if not dry_run:
        output.show(document, notices=[text, *notices])
        return
    output.show(document, text=text, notices=_conflict_hints(result))
    if result.conflicts:
        raise typer.Exit(ExitCode.ERROR)


def _change_lines(result: MergeResult) -> Iterator[str]:
    """Yield one line per schema step, one per changed table, and one per conflict."""
    yield from (f"  schema: {printable(planned.step.describe())}" for planned in result.schema_steps)
    for table in result.tables:
        counts = ((table.inserted, "inserted"), (table.updated, "updated"), (table.deleted, "deleted"))
        changes = ", ".join(f"{count:,} {word}" for count, word in counts if count)
        yield f"  {table.table}: {changes or 'same as main'}"
    yield from (f"  {printable(conflict.describe())}" for conflict in result.conflicts)


def _conflict_hints(result: MergeResult) -> list[str]:
    from omnigraph import MergeConflictError

    if not result.conflicts:
        return []
    return [f"hint: {render_hint(MergeConflictError(result.source, result.conflicts).advice)}"]


def _merge_summary(result: MergeResult, *, dry_run: bool) -> str:
    branches = f"{result.source} into {result.target}"
    kind = " (fast_forward)" if result.outcome == "fast_forward" else ""
    if result.conflicts:
        return f"merging {branches} has {format_count(len(result.conflicts), 'conflict')}"
    if result.outcome == "already_up_to_date":
        return f"{result.target} is already up to date with {result.source}"
    if dry_run:
        return f"would merge {branches}{kind}"
    commit = "" if result.commit is None else f" at commit {result.commit.id}"
    return f"merged {branches}{kind}{commit}"


@command(
    "omnigraph commit revert HEAD graph.omni",
    "omnigraph commit revert 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --dry-run --json",
    capability=Capability.DIRECT,
)
def revert(
    commit_id: CommitId,
    target: StorageArguments,
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
    from omnigraph.api.history import read_new_names
    from omnigraph.wire.results import merge_output

    graph = Graph(location, branch=branch)
    commit = graph.get_commit(commit_id).id
    if not dry_run:
        print_location(target.context, location)
    result = graph.revert(commit, strategy=strategy, resolve=decisions, dry_run=dry_run, actor=actor)
    summary = _revert_summary(result, dry_run=dry_run)

    def document() -> BranchMergeOutput:
        return merge_output(result, read_new_names(location, result.commit))

    _show(output, document, result, summary, dry_run=dry_run)


def _revert_summary(result: MergeResult, *, dry_run: bool) -> str:
    if result.conflicts:
        return f"undoing {result.source} has {format_count(len(result.conflicts), 'conflict')}"
    if result.outcome == "already_up_to_date":
        return "nothing to undo"
    if dry_run:
        return f"would undo {result.source}"
    return f"reverted {result.source}" + (f" at commit {result.commit.id}" if result.commit else "")
