"""The commit graph: a projection of the `graph_commit` rows of one manifest version. Pure.

There is no second lineage store. A branch's history is the walk from its head along first parents; what a branch
contains is everything that is reachable from its head along both parents. A merge copies the rows that its target
lacks, so both walks stay inside one manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.base.errors import FormatError
from omnigraph.base.ids import CommitId
from omnigraph.graph.records import CommitRecord


@dataclass(frozen=True, slots=True)
class Lineage:
    """Commits by id, and the head they are walked from."""

    head: CommitId
    commits: Mapping[CommitId, CommitRecord]

    def history(self) -> Iterator[CommitRecord]:
        """Newest first, along first parents, each once; ends at the root."""
        at: CommitId | None = self.head
        for _ in range(len(self.commits)):
            if at is None:
                return
            commit = self.commits.get(at)
            if commit is None:
                raise _broken(at)
            yield commit
            at = commit.parent
        if at is not None:
            raise _broken(at)

    def ancestors(self, *tips: CommitId) -> frozenset[CommitId]:
        """The tips and everything that is reachable from them along both parents."""
        found: set[CommitId] = set()
        waiting = list(tips)
        while waiting:
            at = waiting.pop()
            if at in found:
                continue
            commit = self.commits.get(at)
            if commit is None:
                raise _broken(at)
            found.add(at)
            waiting += [parent for parent in (commit.parent, commit.merged_parent) if parent is not None]
        return frozenset(found)


def make_lineage(head: CommitId, commits: Iterable[CommitRecord]) -> Lineage:
    """The lineage of a manifest's commits."""
    return Lineage(head, {commit.id: commit for commit in commits})


def _broken(at: CommitId) -> FormatError:
    return FormatError(
        f"the history is broken at commit {at}: it is missing or part of a cycle",
        code="lineage_broken",
        hint="the manifest may be damaged: restore the graph's directory from a backup",
        facts={"commit": at},
    )
