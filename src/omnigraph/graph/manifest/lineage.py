"""What histories have in common: the best common ancestors of two sides, or of every pair of branches. Pure.

Best is what no other common ancestor contains; of criss-cross histories there is more than one, and a merge then needs
what those have in common as well. The work follows the number of commits, not of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import FormatError, UsageError
from omnigraph.base.ids import ULID_LENGTH, CommitId, as_commit_id
from omnigraph.graph.manifest.records import CommitRecord

HEAD: Final = "HEAD"


def is_whole(text: str) -> bool:
    """Whether the text can only be an id, so that nobody has to look which one it means."""
    return len(text) == ULID_LENGTH


def resolve_commit(text: str, head: CommitId, read_ids: Callable[[], Iterable[CommitId]]) -> CommitId:
    """The id that the text means; when no commit has it, what was typed, for messages. Ids are read if they must be."""
    if text == HEAD:
        return head
    if is_whole(text) or len(text) < limits.COMMIT_NAME_LENGTH_MIN or not text.isalnum():
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
        f"{len(matches)} commits begin or end with '{text}': {', '.join(shown)}{more}",
        code="commit_ambiguous",
        hint="give more of the id; its last digits differ most",
        facts={"commit": text, "candidates": list(shown)},
    )


@dataclass(frozen=True, slots=True)
class Lineage:
    """Commits by id, and the head they are walked from."""

    head: CommitId
    commits: Mapping[CommitId, CommitRecord]

    def history(self) -> Iterator[CommitRecord]:
        """Newest first, along first parents, each once; ends at the root."""
        commit_id: CommitId | None = self.head
        for _ in range(len(self.commits)):
            if commit_id is None:
                return
            commit = self.commits.get(commit_id)
            if commit is None:
                raise _broken(commit_id)
            yield commit
            commit_id = commit.parent
        if commit_id is not None:
            raise _broken(commit_id)

    def ancestors(self, *tips: CommitId) -> frozenset[CommitId]:
        """The tips and everything that is reachable from them along both parents."""
        reached: set[CommitId] = set()
        waiting = list(tips)
        while waiting:
            commit_id = waiting.pop()
            if commit_id in reached:
                continue
            commit = self.commits.get(commit_id)
            if commit is None:
                raise _broken(commit_id)
            reached.add(commit_id)
            waiting += [parent for parent in (commit.parent, commit.merged_parent) if parent is not None]
        return frozenset(reached)


def make_lineage(head: CommitId, commits: Iterable[CommitRecord]) -> Lineage:
    """The lineage of a manifest's commits."""
    return Lineage(head, {commit.id: commit for commit in commits})


def _broken(commit_id: CommitId) -> FormatError:
    return FormatError(
        f"the history is broken at commit {commit_id}: it is missing or part of a cycle",
        code="lineage_broken",
        hint="the manifest may be damaged: restore the graph's directory from a backup",
        facts={"commit": commit_id},
    )


Commits = Mapping[CommitId, CommitRecord]


def merge_bases(
    ours: Iterable[CommitId], theirs: Iterable[CommitId], commits: Commits
) -> tuple[CommitId, ...]:
    """The best common ancestors of two sides, each one commit or several that stand for one. Oldest first."""
    marks = dict.fromkeys(ours, 1)
    for tip in theirs:
        marks[tip] = marks.get(tip, 0) | 2
    bases = _bases_of(marks, commits)
    return tuple(sorted(bases, key=lambda commit: (commits[commit].created_us, commit)))


def all_merge_bases(heads: Iterable[CommitId], commits: Commits) -> frozenset[CommitId]:
    """The bases of every pair of heads, and of those bases with each other, as long as there are more."""
    start = tuple(heads)
    bases: frozenset[CommitId] = frozenset()
    while True:
        tips = dict.fromkeys((*start, *sorted(bases)))
        next_bases = _bases_of({tip: 1 << index for index, tip in enumerate(tips)}, commits)
        if next_bases <= bases:
            return bases
        bases |= next_bases


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
    parents = (parent for parent in (record.parent, record.merged_parent) if parent is not None)
    return [parent for parent in dict.fromkeys(parents) if parent in commits]


def _has_uncovered_pair(mask: int, children: list[int]) -> bool:
    """Whether two branches reach it of which no child is reached by both."""
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
