"""`Graph.merge` and `Graph.revert`: what users say about conflicts comes in as words; `graph/merge` does the rest."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.base.errors import OmnigraphError, UsageError
from omnigraph.graph.branches import delete_branch
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind, EntityName, MergeConflictError, Side
from omnigraph.graph.merge.resolve import Resolution
from omnigraph.graph.merge.run import (
    MergeOutcome,
    MergeRequest,
    MergeResult,
    RevertRequest,
    TableCounts,
    merge_branch,
    revert_commit,
)
from omnigraph.storage.location import Location

__all__ = [
    "Conflict",
    "MergeConflictError",
    "MergeOutcome",
    "MergeRequest",
    "MergeResult",
    "RevertRequest",
    "TableCounts",
    "delete_merged",
    "make_resolution",
    "merge_branch",
    "revert_commit",
]


def make_resolution(
    strategy: str | Mapping[str, str] | None, resolve: Mapping[tuple[str, str], str] | None
) -> Resolution:
    """What to do about conflicts, from words: a side for all kinds or for each, and a side for single entities."""
    kinds = {kind.value: strategy for kind in ConflictKind} if isinstance(strategy, str) else strategy or {}
    return Resolution(
        {EntityName(table, name): _side(side) for (table, name), side in (resolve or {}).items()},
        {_kind(kind): _side(side) for kind, side in kinds.items()},
    )


def delete_merged(root: Location, outcome: MergeOutcome) -> str | None:
    """Delete the source of a merge, unless it got commits since; why it could not be, or None."""
    try:
        delete_branch(root, outcome.source, head=outcome.source_head)
    except OmnigraphError as error:
        return error.message
    return None


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
