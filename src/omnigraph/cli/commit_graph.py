"""The commit graph as lines of text: one line per commit, newest first, with a column for each line of descent. Pure.

A column follows one line of parents back in time. A merge opens a column for its second parent; columns that wait
for the same commit close into the leftmost of them when it comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest.records import CommitRecord


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """The marks of one line; without a commit it only leads columns together or apart."""

    marks: str
    commit: CommitRecord | None = None


def draw_commits(
    commits: Mapping[CommitId, CommitRecord], heads: tuple[CommitId, ...]
) -> Iterator[DrawnLine]:
    """Everything that the heads descend from, each commit before its parents."""
    columns: list[CommitId] = []
    for commit in _newest_first(commits, heads):
        if commit.id not in columns:
            columns.append(commit.id)
        at = columns.index(commit.id)
        others = [place for place, waiting in enumerate(columns) if waiting == commit.id and place != at]
        if others:
            marks = ["/" if place in others else "|" for place in range(len(columns))]
            yield DrawnLine(" ".join(marks))
            columns = [waiting for place, waiting in enumerate(columns) if place not in others]
        yield DrawnLine(" ".join("*" if place == at else "|" for place in range(len(columns))), commit)
        if commit.parent is None:
            del columns[at]
        else:
            columns[at] = commit.parent
        merged = commit.merged_parent
        if merged is not None and merged not in columns:
            columns.insert(at + 1, merged)
            marks = ["|"] * (at + 1) + ["\\"] + ["|"] * (len(columns) - at - 2)
            yield DrawnLine(" ".join(marks))


def _newest_first(
    commits: Mapping[CommitId, CommitRecord], heads: tuple[CommitId, ...]
) -> Iterator[CommitRecord]:
    """By time, but never a parent before its children, whatever the clocks of their writers said."""
    children: dict[CommitId, int] = dict.fromkeys(heads, 0)
    waiting = list(children)
    while waiting:
        for parent in _parents(commits[waiting.pop()]):
            if parent not in children:
                children[parent] = 0
                waiting.append(parent)
            children[parent] += 1
    ready = [(-commits[one].created_us, one) for one, count in children.items() if count == 0]
    heapq.heapify(ready)
    while ready:
        commit = commits[heapq.heappop(ready)[1]]
        yield commit
        for parent in _parents(commit):
            children[parent] -= 1
            if children[parent] == 0:
                heapq.heappush(ready, (-commits[parent].created_us, parent))


def _parents(commit: CommitRecord) -> list[CommitId]:
    return [one for one in (commit.parent, commit.merged_parent) if one is not None]
