"""What histories have in common: the best common ancestors of two sides, or of every pair of branches. Pure.

Best is what no other common ancestor contains; of criss-cross histories there is more than one, and a merge then needs
what those have in common as well. The work follows the number of commits, not of pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from omnigraph.base.ids import CommitId
from omnigraph.graph.records import CommitRecord

Commits = Mapping[CommitId, CommitRecord]


def merge_bases(
    ours: Iterable[CommitId], theirs: Iterable[CommitId], commits: Commits
) -> tuple[CommitId, ...]:
    """The best common ancestors of two sides, each one commit or several that stand for one. Oldest first."""
    marks = dict.fromkeys(ours, 1)
    for tip in theirs:
        marks[tip] = marks.get(tip, 0) | 2
    found = _bases_of(marks, commits)
    return tuple(sorted(found, key=lambda commit: (commits[commit].created_us, commit)))


def all_merge_bases(heads: Iterable[CommitId], commits: Commits) -> frozenset[CommitId]:
    """The bases of every pair of heads, and of those bases with each other, as long as there are more."""
    start = tuple(heads)
    found: frozenset[CommitId] = frozenset()
    while True:
        tips = dict.fromkeys((*start, *sorted(found)))
        more = _bases_of({tip: 1 << place for place, tip in enumerate(tips)}, commits)
        if more <= found:
            return found
        found |= more


def _bases_of(marks: Mapping[CommitId, int], commits: Commits) -> frozenset[CommitId]:
    """A commit is a base of a pair of marks when both reach it and no child of it is reached by both."""
    reach: dict[CommitId, int] = {}
    children: dict[CommitId, list[CommitId]] = {}
    for commit in _children_first(marks, commits):
        reach[commit] = marks.get(commit, 0)
        for child in children.get(commit, ()):
            reach[commit] |= reach[child]
        for parent in _parents(commits, commit):
            children.setdefault(parent, []).append(commit)
    return frozenset(
        commit
        for commit, mask in reach.items()
        if _has_uncovered_pair(mask, [reach[child] for child in children.get(commit, ())])
    )


def _children_first(heads: Mapping[CommitId, int], commits: Commits) -> list[CommitId]:
    """Everything that the heads reach, each commit after all of its children."""
    waiting: dict[CommitId, int] = {}
    stack, seen = list(heads), set(heads)
    while stack:
        for parent in _parents(commits, stack.pop()):
            waiting[parent] = waiting.get(parent, 0) + 1
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    ready = [head for head in heads if not waiting.get(head)]
    ordered = []
    while ready:
        commit = ready.pop()
        ordered.append(commit)
        for parent in _parents(commits, commit):
            waiting[parent] -= 1
            if not waiting[parent]:
                ready.append(parent)
    return ordered


def _parents(commits: Commits, commit: CommitId) -> list[CommitId]:
    """A parent whose row is not known here is beyond what any branch can be merged at."""
    record = commits.get(commit)
    if record is None:
        return []
    known = (parent for parent in (record.parent, record.merged_parent) if parent is not None)
    return [parent for parent in dict.fromkeys(known) if parent in commits]


def _has_uncovered_pair(mask: int, children: list[int]) -> bool:
    """Whether two branches reach it of which no child is reached by both."""
    if mask & (mask - 1) == 0 or mask in children:
        return False
    for place in range(mask.bit_length()):
        bit = 1 << place
        if mask & bit:
            covered = bit
            for child in children:
                covered |= child if child & bit else 0
            if mask & ~covered:
                return True
    return False
