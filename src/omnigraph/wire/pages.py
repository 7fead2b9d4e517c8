"""The JSON documents that come in pages: commits, and the changes of a feed, a commit and a difference.

A page of a feed has a `next_page_token` or a `cursor`, never both. A member that is omitted when it has no value is
`UNSET`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from omnigraph.wire.changes import ChangeCauseOutput, EntityChangeOutput, cause_output
from omnigraph.wire.commits import CommitOutput

if TYPE_CHECKING:
    from omnigraph.graph.feed import CommitChanges


class CommitListOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Commits of a branch, newest first."""

    graph_branch: str
    commits: list[CommitOutput]


class LogOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The newest commit of each branch, and the commits of all branches, newest first."""

    heads: dict[str, str | None]
    commits: list[CommitOutput]
    next_page_token: str | msgspec.UnsetType = msgspec.UNSET


class ChangeBlockOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A commit of a feed and what it changed. A commit that changed the schema has its steps."""

    cause: ChangeCauseOutput
    changes: list[EntityChangeOutput]
    schema_steps: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET


class ChangeFeedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Commits of a branch after a cursor, oldest first. `caught_up` is present on the last page."""

    blocks: list[ChangeBlockOutput]
    next_page_token: str | msgspec.UnsetType = msgspec.UNSET
    cursor: str | msgspec.UnsetType = msgspec.UNSET
    caught_up: bool | msgspec.UnsetType = msgspec.UNSET


class CommitChangesOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit changed."""

    cause: ChangeCauseOutput
    changes: list[EntityChangeOutput]
    next_page_token: str | msgspec.UnsetType = msgspec.UNSET


class DiffOutput(msgspec.Struct, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """What differs between two commits."""

    before: str
    after: str
    changes: list[EntityChangeOutput]
    next_page_token: str | msgspec.UnsetType = msgspec.UNSET


def change_block_output(commit_changes: CommitChanges, changes: list[EntityChangeOutput]) -> ChangeBlockOutput:
    """Return the document of a commit of a feed."""
    from omnigraph.wire.results import feed_step_output

    steps = [feed_step_output(step) for step in commit_changes.schema_steps]
    return ChangeBlockOutput(
        cause=cause_output(commit_changes.commit), changes=changes, schema_steps=steps or msgspec.UNSET
    )
