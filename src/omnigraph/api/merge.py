"""`Graph.merge` and `Graph.revert`: what users say about conflicts comes in as words; `graph/merge` does the rest.

A decision for an entity that is in no conflict is a slip of the pen, or is about a conflict that is settled by now.
It is refused before anything is written, so that nobody believes it was taken into account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from omnigraph.base.errors import OmnigraphError, UsageError
from omnigraph.graph.branches import (
    BranchStatus,
    create_branch,
    delete_branch,
    list_branches,
    read_all_commits,
)
from omnigraph.graph.manifest.records import BranchRecord
from omnigraph.graph.manifest.refs import read_reference
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind, EntityName, MergeConflictError, Side
from omnigraph.graph.merge.plan import Resolution
from omnigraph.graph.merge.run import (
    MergeOutcome,
    MergeRequest,
    MergeResult,
    RevertRequest,
    TableCounts,
    merge_branch,
    revert_commit,
)
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.storage.location import Location

__all__ = [
    "BranchRecord",
    "BranchStatus",
    "Conflict",
    "MergeConflictError",
    "MergeOutcome",
    "MergeRequest",
    "MergeResult",
    "RevertRequest",
    "TableCounts",
    "create_branch_from",
    "delete_merged",
    "list_branches",
    "make_resolution",
    "read_all_commits",
    "remove_branch",
    "run_merge",
    "run_revert",
]


def create_branch_from(root: Location, name: str, source: str, actor: str) -> BranchRecord:
    """Create a branch from the head of a branch or from a commit."""
    return create_branch(root, name, actor, read_reference(root, source))


def remove_branch(root: Location, name: str) -> BranchRecord:
    """Delete a branch."""
    return delete_branch(root, name)


_NAMED_MAX: Final = 10


def run_merge(root: Location, request: MergeRequest) -> MergeOutcome:
    """Merge a branch, or a commit of one, into a branch, after writes to it that stopped were recovered."""
    if not request.dry_run:
        recover_on_open(root, request.target)

    def look(resolution: Resolution) -> MergeOutcome:
        return merge_branch(root, replace(request, resolution=resolution, dry_run=True))

    _refuse_idle_decisions(look, request.resolution)
    return merge_branch(root, request)


def run_revert(root: Location, request: RevertRequest) -> MergeOutcome:
    """Undo what a commit changed against its first parent, as a new commit. Writes that stopped are recovered first."""
    if not request.dry_run:
        recover_on_open(root, request.branch)

    def look(resolution: Resolution) -> MergeOutcome:
        return revert_commit(root, replace(request, resolution=resolution, dry_run=True))

    _refuse_idle_decisions(look, request.resolution)
    return revert_commit(root, request)


def make_resolution(
    strategy: str | Mapping[str, str] | None, resolve: Mapping[tuple[str, str], str] | None
) -> Resolution:
    """What to do about conflicts, from words: a side for all kinds or for each, and a side for single entities."""
    kinds = {kind.value: strategy for kind in ConflictKind} if isinstance(strategy, str) else strategy or {}
    return Resolution(
        {EntityName(_table(table), name): _side(side) for (table, name), side in (resolve or {}).items()},
        {_kind(kind): _side(side) for kind, side in kinds.items()},
    )


def delete_merged(root: Location, outcome: MergeOutcome) -> str | None:
    """Delete the source of a merge, unless it got commits since; why it could not be, or None."""
    try:
        delete_branch(root, outcome.source, head=outcome.source_head)
    except OmnigraphError as error:
        return error.message
    return None


def _refuse_idle_decisions(look: Callable[[Resolution], MergeOutcome], resolution: Resolution) -> None:
    """Raise for decisions about entities that no conflict names. A decision may bring up a conflict for another."""
    idle = set(resolution.entities)
    trial = Resolution()
    while idle:
        outcome = look(trial)
        if outcome.result is MergeResult.ALREADY_UP_TO_DATE or any(
            conflict.entity is None for conflict in outcome.conflicts
        ):
            return  # there is nothing to decide about, or something else comes first
        named = {
            name for found in outcome.conflicts for name in (found.entity, *found.ours, *found.theirs) if name
        }
        idle -= named
        decided = {name: side for name, side in resolution.entities.items() if name not in idle}
        after = Resolution(decided, resolution.kinds)
        if after == trial:
            break
        trial = after
    if idle:
        names = sorted(f"{name.table} {name.id}" for name in idle)
        more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
        raise UsageError(
            f"decided, and in no conflict of this merge: {', '.join(names[:_NAMED_MAX])}{more}",
            code="merge_decisions",
            hint="a dry run lists the conflicts; take the other decisions out",
            facts={"entities": [*names]},
        )


def _table(word: str) -> str:
    if not word.startswith(("node:", "edge:")):
        raise UsageError(
            f"'{word}' is no table",
            code="merge_decisions",
            hint=f"write node:{word} for a node type, edge:{word} for an edge type",
        )
    return word


def _kind(word: str) -> ConflictKind:
    try:
        return ConflictKind(word)
    except ValueError:
        raise UsageError(
            f"'{word}' is no kind of conflict",
            code="merge_strategy",
            hint=f"the kinds are: {', '.join(ConflictKind)}",
        ) from None


def _side(word: str) -> Side:
    try:
        return Side(word)
    except ValueError:
        raise UsageError(
            f"'{word}' is no side of a merge",
            code="merge_strategy",
            hint="ours is the target's state, theirs the source's",
        ) from None
