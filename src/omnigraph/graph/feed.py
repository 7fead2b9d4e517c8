"""The change feed of a branch: its commits after a cursor, oldest first, each with the state before it and after it.

A cursor is a commit id, and the caller keeps it: whoever asks again with the same one gets the same commits again, at
least once and whole. Commits are those of the branch's own line, along first parents; a merge is one of them, with all
that it brought. When the line no longer has the cursor, or a state on the way was collected, it is a gap: the caller
takes a new baseline. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.base.errors import ErrorKind, NotFoundError, OmnigraphError
from omnigraph.base.ids import CommitId
from omnigraph.graph.diff import ChangeBatch, diff_snapshots
from omnigraph.graph.lineage import make_lineage
from omnigraph.graph.records import CommitRecord
from omnigraph.graph.snapshot import MAIN, Snapshot, read_record_snapshot, read_snapshot
from omnigraph.storage.location import Location


class ChangeFeedGapError(OmnigraphError):
    """What came after the cursor cannot be told any more."""

    kind = ErrorKind.NOT_FOUND


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Commits to tell, oldest first, and the cursor after them. `has_more`: there are later ones."""

    newest: Snapshot
    commits: tuple[CommitRecord, ...]
    cursor: CommitId
    has_more: bool


def read_feed(
    root: Location, branch: str = MAIN, cursor: CommitId | None = None, limit: int = 100
) -> FeedPage:
    """The commits after the cursor, at most so many; without a cursor from the first one on."""
    newest = read_snapshot(root, branch)
    line = list(make_lineage(newest.head, newest.manifest.read_commits()).history())
    line.reverse()
    at = -1
    if cursor is not None:
        at = next((place for place, commit in enumerate(line) if commit.id == cursor), -2)
        if at == -2:
            raise _gap(branch, cursor, "it is not a commit of the branch's line")
    rest = line[at + 1 :]
    told = tuple(rest[:limit])
    for commit in told[:1]:  # the oldest state that is needed: told before anything else is
        next(commit_changes(newest, commit), None)
    last = told[-1].id if told else cursor or newest.head
    return FeedPage(newest, told, last, len(rest) > limit)


def commit_changes(newest: Snapshot, commit: CommitRecord) -> Iterator[ChangeBatch]:
    """What a commit changed against its first parent; the first commit of a graph changed nothing."""
    if commit.parent is None:
        return
    parent = newest.manifest.find_commit(commit.parent)
    assert parent is not None, "a manifest has the parents of its commits"
    try:
        before, after = read_record_snapshot(newest, parent), read_record_snapshot(newest, commit)
        yield from diff_snapshots(before, after)
    except NotFoundError as gone:
        raise _gap(newest.branch.name, commit.id, gone.message) from gone


def _gap(branch: str, commit: CommitId, why: str) -> ChangeFeedGapError:
    return ChangeFeedGapError(
        f"the changes of branch {branch} from {commit} on cannot be told: {why}",
        code="change_feed_gap",
        hint="export the branch again and go on from that commit",
        facts={"change_feed_gap": {"branch": branch, "commit": commit}},
    )
