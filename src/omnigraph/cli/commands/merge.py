"""`omnigraph branch merge` and `omnigraph commit revert`: one commit, or every conflict and nothing written."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from omnigraph.base.display import format_count
from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.options import Actor, TargetBranch, Yes
from omnigraph.cli.output import printable
from omnigraph.cli.resolution import ResolutionArguments
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments, StorageArguments, print_location

if TYPE_CHECKING:
    from omnigraph.wire.requests import ConflictDecision
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
    target: GraphArguments,
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
    connection = target.connect(actor=actor, read_only=False)
    deletes = delete_source and not dry_run
    if not dry_run:
        connection.print_location()
    if deletes:
        connection.confirm(f"deleting branch {source}", yes=yes)

    from omnigraph.wire.requests import BranchMergeRequest

    request = BranchMergeRequest(
        source=source,
        target=into,
        delete_branch=delete_source,
        dry_run=dry_run,
        strategy=cast("Any", strategy),
        resolve=_decision_requests(decisions) or None,
    )
    document = connection.client.merge(request)
    notices = [f"deleted branch {source}"] if document.branch_deleted is True else []
    _show(output, document, _merge_summary(document, dry_run=dry_run), dry_run=dry_run, notices=notices)
    if document.branch_deleted is False and not output.as_json:
        error = printable(str(document.branch_delete_error))
        sys.stderr.write(f"warning: branch {source} was not deleted: {error}\n")


def _decision_requests(decisions: Mapping[tuple[str, str], str]) -> list[ConflictDecision]:
    from omnigraph.wire.requests import ConflictDecision

    return [
        ConflictDecision(
            entity_kind=cast("Any", table.partition(":")[0]),
            type_name=table.partition(":")[2],
            entity_id=entity_id,
            take=cast("Any", side),
        )
        for (table, entity_id), side in decisions.items()
    ]


def _show(
    output: TextOutput, document: BranchMergeOutput, summary: str, *, dry_run: bool, notices: Iterable[str] = ()
) -> None:
    """Print the changes of a merge or a revert: after a dry run on stdout, otherwise as notices. Exit for conflicts."""
    text = "\n".join([summary, *_change_lines(document)])
    if not dry_run:
        output.show(lambda: document, notices=[text, *notices])
        return
    output.show(lambda: document, text=text, notices=_conflict_hints(document))
    if document.merge_conflicts:
        raise typer.Exit(ExitCode.ERROR)


def _change_lines(document: BranchMergeOutput) -> Iterator[str]:
    """Yield one line per schema step, one per changed table, and one per conflict."""
    yield from (f"  schema: {printable(step['text'])}" for step in document.schema_steps)
    for table in document.tables:
        changes = ", ".join(f"{table[verb]:,} {verb}" for verb in ("inserted", "updated", "deleted") if table[verb])
        yield f"  {table['table_key']}: {changes or 'same as main'}"
    yield from (f"  {printable(conflict['text'])}" for conflict in document.merge_conflicts)


def _conflict_hints(document: BranchMergeOutput) -> list[str]:
    if not document.merge_conflicts:
        return []
    if any(conflict["kind"] == "schema_diverged" for conflict in document.merge_conflicts):
        return ["hint: Nothing was written. Change the schema of one side: no strategy resolves this."]
    return ["hint: Nothing was written. Pass `--strategy ours|theirs` or `--resolve FILE`, or change one side."]


def _merge_summary(document: BranchMergeOutput, *, dry_run: bool) -> str:
    branches = f"{document.source} into {document.target}"
    kind = " (fast_forward)" if document.outcome == "fast_forward" else ""
    if document.merge_conflicts:
        return f"merging {branches} has {format_count(len(document.merge_conflicts), 'conflict')}"
    if document.outcome == "already_up_to_date":
        return f"{document.target} is already up to date with {document.source}"
    if dry_run:
        return f"would merge {branches}{kind}"
    commit = "" if document.commit is None else f" at commit {document.commit.graph_commit_id}"
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

    graph = target.bind(Graph(location, branch=branch))
    commit = graph.get_commit(commit_id).id
    if not dry_run:
        print_location(target.context, location)
    result = graph.revert(
        commit, strategy=strategy, resolve=decisions, dry_run=dry_run, actor=target.choose_actor(actor)
    )
    document = merge_output(result, read_new_names(location, result.commit))
    _show(output, document, _revert_summary(document, dry_run=dry_run), dry_run=dry_run)


def _revert_summary(document: BranchMergeOutput, *, dry_run: bool) -> str:
    if document.merge_conflicts:
        return f"undoing {document.source} has {format_count(len(document.merge_conflicts), 'conflict')}"
    if document.outcome == "already_up_to_date":
        return "nothing to undo"
    if dry_run:
        return f"would undo {document.source}"
    commit = document.commit
    return f"reverted {document.source}" + (f" at commit {commit.graph_commit_id}" if commit else "")
