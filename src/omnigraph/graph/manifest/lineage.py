"""The commit graph: names of commits, histories, and the best common ancestors of two sides or of all branches. Pure.

A common ancestor is best if no other common ancestor contains it. Criss-cross histories have more than one, and a
merge then needs their common ancestors as well. The cost grows with the number of commits, not of pairs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import FormatError, UsageError
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import ULID_LENGTH, CommitId, as_commit_id
from omnigraph.graph.manifest.records import CommitRecord

HEAD: Final = "HEAD"


def is_full_id(text: str) -> bool:
    """Return whether the text has the length of an id, so that no other commit needs to be read to resolve it."""
    return len(text) == ULID_LENGTH


def require_full_id(text: str) -> CommitId:
    """Return the commit id of a precondition; a part of an id could mean another commit later."""
    if not is_full_id(text):
        raise UsageError(
            f"cannot use part of a commit id as a precondition: expected a full commit id, got '{text}'",
            code="commit_id_partial",
            hint=hint("Nothing was written. Run {} to see the full id of the head.", action("log", limit=1)),
            facts={"commit": text},
        )
    return as_commit_id(text)


def resolve_commit(text: str, head: CommitId, read_ids: Callable[[], Iterable[CommitId]]) -> CommitId:
    """Return the id that `text` names: `HEAD`, a full id, or the beginning or end of one.

    Ids are read only if they are needed. Text that matches no commit is returned unchanged, for messages.
    """
    if text == HEAD:
        return head
    if is_full_id(text) or len(text) < limits.COMMIT_NAME_LENGTH_MIN or not text.isalnum():
        return as_commit_id(text)
    part = text.upper()
    matches = sorted(
        {commit for commit in read_ids() if commit.startswith(part) or commit.endswith(part)}, reverse=True
    )
    if len(matches) > 1:
        raise _ambiguous(text, matches)
    return matches[0] if matches else CommitId(text)


def _ambiguous(text: str, matches: list[CommitId]) -> UsageError:
    shown = matches[: limits.COMMIT_NAMES_SHOWN_MAX]
    more = f" and {len(matches) - len(shown)} more" if len(matches) > len(shown) else ""
    return UsageError(
        f"'{text}' is ambiguous: {len(matches)} commits begin or end with it: {', '.join(shown)}{more}",
        code="commit_ambiguous",
        hint="Pass more characters of the id, best from its end.",
        facts={"commit": text, "candidates": list(shown)},
    )


@dataclass(frozen=True, slots=True)
class Lineage:
    """Commits by id, and the head from which they are walked."""

    head: CommitId
    commits: Mapping[CommitId, CommitRecord]

    def history(self) -> Iterator[CommitRecord]:
        """Yield the commits newest first, along first parents, each once, down to the root."""
        commit_id: CommitId | None = self.head
        for _ in range(len(self.commits)):
            if commit_id is None:
                return
            commit = self.commits.get(commit_id)
            if commit is None:
                raise _damaged(commit_id, f"commit {commit_id} is missing")
            yield commit
            commit_id = commit.parent
        if commit_id is not None:
            raise _damaged(commit_id, f"the parents of commit {commit_id} form a cycle")

    def ancestors(self, *tips: CommitId) -> frozenset[CommitId]:
        """Return the tips and everything that is reachable from them along both parents."""
        reached: set[CommitId] = set()
        waiting = list(tips)
        while waiting:
            commit_id = waiting.pop()
            if commit_id in reached:
                continue
            commit = self.commits.get(commit_id)
            if commit is None:
                raise _damaged(commit_id, f"commit {commit_id} is missing")
            reached.add(commit_id)
            waiting += [parent for parent in (commit.parent, commit.merged_parent) if parent is not None]
        return frozenset(reached)


def make_lineage(head: CommitId, commits: Iterable[CommitRecord]) -> Lineage:
    """Return the lineage of the commits of a manifest."""
    return Lineage(head, {commit.id: commit for commit in commits})


def _damaged(commit_id: CommitId, reason: str) -> FormatError:
    return FormatError(
        f"the history is damaged: {reason}",
        code="lineage_broken",
        hint="Restore the directory of the graph from a backup.",
        facts={"commit": commit_id},
    )


Commits = Mapping[CommitId, CommitRecord]


def merge_bases(ours: Iterable[CommitId], theirs: Iterable[CommitId], commits: Commits) -> tuple[CommitId, ...]:
    """Return the best common ancestors of two sides, oldest first. Several commits can form one side."""
    marks = dict.fromkeys(ours, 1)
    for tip in theirs:
        marks[tip] = marks.get(tip, 0) | 2
    bases = _bases_of(marks, commits)
    return tuple(sorted(bases, key=lambda commit: (commits[commit].created_us, commit)))


def all_merge_bases(heads: Iterable[CommitId], commits: Commits) -> frozenset[CommitId]:
    """Return the bases of every pair of heads, and of those bases with each other, until there are no more."""
    first_tips = tuple(heads)
    bases: frozenset[CommitId] = frozenset()
    while True:
        tips = dict.fromkeys((*first_tips, *sorted(bases)))
        next_bases = _bases_of({tip: 1 << index for index, tip in enumerate(tips)}, commits)
        if next_bases <= bases:
            return bases
        bases |= next_bases


def _bases_of(marks: Mapping[CommitId, int], commits: Commits) -> frozenset[CommitId]:
    """Return each commit that is reachable from two sides and none of whose children is.

    `marks` has a bit for each side: the sides of which a commit is a tip. A mask has the bits of all sides from which a
    commit is reachable.
    """
    masks: dict[CommitId, int] = {}
    children: dict[CommitId, list[CommitId]] = {}
    for commit in newest_first(marks, commits):
        masks[commit] = marks.get(commit, 0)
        for child in children.get(commit, ()):
            masks[commit] |= masks[child]
        for parent in _parents(commits, commit):
            children.setdefault(parent, []).append(commit)
    return frozenset(
        commit
        for commit, mask in masks.items()
        if _has_uncovered_pair(mask, [masks[child] for child in children.get(commit, ())])
    )


def newest_first(heads: Iterable[CommitId], commits: Commits) -> Iterator[CommitId]:
    """Yield everything that the heads reach by time, but each commit after all of its children.

    The clocks of writers may differ, so the time of a child may be before that of its parent.
    """
    unyielded_children = dict.fromkeys(heads, 0)
    unvisited = list(unyielded_children)
    while unvisited:
        for parent in _parents(commits, unvisited.pop()):
            if parent not in unyielded_children:
                unyielded_children[parent] = 0
                unvisited.append(parent)
            unyielded_children[parent] += 1

    def age(commit: CommitId) -> tuple[int, CommitId]:
        return (-commits[commit].created_us if commit in commits else 0), commit

    ready = [age(commit) for commit, count in unyielded_children.items() if not count]
    heapq.heapify(ready)
    while ready:
        commit = heapq.heappop(ready)[1]
        yield commit
        for parent in _parents(commits, commit):
            unyielded_children[parent] -= 1
            if not unyielded_children[parent]:
                heapq.heappush(ready, age(parent))


def _parents(commits: Commits, commit: CommitId) -> list[CommitId]:
    """Return the parents that are in `commits`. No branch can be merged at a parent that is not."""
    record = commits.get(commit)
    if record is None:
        return []
    parents = (parent for parent in (record.parent, record.merged_parent) if parent is not None)
    return [parent for parent in dict.fromkeys(parents) if parent in commits]


def _has_uncovered_pair(mask: int, children: list[int]) -> bool:
    """Return whether the mask has a pair of bits that no mask of a child has."""
    if mask & (mask - 1) == 0 or mask in children:
        return False
    for index in range(mask.bit_length()):
        bit = 1 << index
        if mask & bit:
            covered = bit
            for child in children:
                covered |= child if child & bit else 0
            if mask & ~covered:
                return True
    return False
