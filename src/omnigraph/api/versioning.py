"""The part of `Graph` that is about branches and history: create, merge, revert, compare, follow.

Everything is imported when it is first needed, as in `api/graph.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.api.arguments import checked_methods, refuse_none_at_all
from omnigraph.api.maintaining import Maintained
from omnigraph.graph.lineage import make_lineage
from omnigraph.graph.records import CommitRecord
from omnigraph.graph.snapshot import find_named_commit, read_snapshot

if TYPE_CHECKING:
    from typing import Self

    from omnigraph.api.branching import BranchStanding
    from omnigraph.api.history import ChangeFeed, EntityChange
    from omnigraph.api.merging import MergeOutcome


@checked_methods
class VersionedGraph(Maintained):
    """Branches and history of a graph, beside its maintenance."""

    __slots__ = ()

    def commits(self) -> Iterator[CommitRecord]:
        """The branch's history, newest first."""
        snapshot = read_snapshot(self.location, self.branch_name)
        return make_lineage(snapshot.head, snapshot.manifest.read_commits()).history()

    def commit(self, commit_id: str) -> CommitRecord:
        """One commit of the branch's lineage, by its id, by enough of its beginning or end, or as `HEAD`."""
        return find_named_commit(read_snapshot(self.location, self.branch_name), commit_id)

    def branch(self, name: str, *, create_from: str | None = None, actor: str | None = None) -> Self:
        """The graph on another branch; `create_from`, a branch or a commit, makes it first."""
        if create_from is not None:
            self.refuse_if_read_only()
            from omnigraph.api.branching import create_branch_from

            create_branch_from(self.location, name, create_from, self._writer(actor))
        else:
            read_snapshot(self.location, name)
        graph: Any = self
        return replace(graph, branch_name=name)  # type: ignore[no-any-return]

    def branches(self) -> tuple[BranchStanding, ...]:
        """Every branch, main first, with its newest commit and how far it and main are apart."""
        from omnigraph.api.branching import list_branches

        return list_branches(self.location)

    def delete_branch(self, name: str) -> None:
        """Delete a branch. Main stays, and so does a branch that a live branch was made from."""
        self.refuse_if_read_only()
        from omnigraph.api.branching import remove_branch

        remove_branch(self.location, name)

    def merge(  # noqa: PLR0913  # a program names what it wants
        self,
        source: str,
        *,
        into: str | None = None,
        strategy: str | Mapping[str, str] | None = None,
        resolve: Mapping[tuple[str, str], str] | None = None,
        dry_run: bool = False,
        actor: str | None = None,
    ) -> MergeOutcome:
        """Merge a branch, or a commit of one, into a branch as one commit, or raise with every conflict.

        `into` is the graph's branch unless given. `strategy` is ours (the target's) or theirs (the source's), for every
        conflict or by kind; `resolve` is a side for single entities, by table, such as node:Person, and id. `dry_run`
        writes nothing and returns the conflicts.
        """
        if not dry_run:
            self.refuse_if_read_only()
        from omnigraph.api.merging import MergeRequest, make_resolution, run_merge

        resolution = make_resolution(strategy, resolve)
        target = into or self.branch_name
        request = MergeRequest(source, self._writer(actor), target, resolution, dry_run)
        return run_merge(self.location, request)

    def revert(
        self,
        commit: str,
        *,
        strategy: str | Mapping[str, str] | None = None,
        resolve: Mapping[tuple[str, str], str] | None = None,
        dry_run: bool = False,
        actor: str | None = None,
    ) -> MergeOutcome:
        """Undo what a commit of the branch changed, as a new commit; conflicts are those of a merge."""
        if not dry_run:
            self.refuse_if_read_only()
        from omnigraph.api.merging import RevertRequest, make_resolution, run_revert

        resolution = make_resolution(strategy, resolve)
        who = self._writer(actor)
        request = RevertRequest(self.commit(commit).id, who, self.branch_name, resolution, dry_run)
        return run_revert(self.location, request)

    def commit_changes(self, commit: str) -> Iterator[EntityChange]:
        """What a commit of the branch changed against its first parent, with images before and after."""
        from omnigraph.api.history import commit_changes, entity_changes

        newest = read_snapshot(self.location, self.branch_name)
        return entity_changes(commit_changes(newest, find_named_commit(newest, commit)))

    def diff(self, left: str, right: str) -> Iterator[EntityChange]:
        """What differs between two branches or commits: the change that leads from the first to the second."""
        from omnigraph.api.history import read_diff

        return read_diff(self.location, left, right)

    def changes(self, cursor: str | None = None, *, limit: int = 100) -> ChangeFeed:
        """The next commits of the branch after a cursor, with their changes, oldest first; the caller keeps the cursor.

        A cursor is a commit id. Without one it is all commits. `limit` is how many commits at most, 1 or more.
        """
        refuse_none_at_all("limit", limit)
        from omnigraph.api.history import feed_changes

        return feed_changes(self.location, self.branch_name, cursor, limit)
