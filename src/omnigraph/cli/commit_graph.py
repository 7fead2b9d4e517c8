"""Draws the commit graph as text: one line per commit, newest first, with a column for each line of parents. Pure.

A column holds the next commit of its line. A merge adds a column for its second parent. Columns that hold the same
commit are joined into the leftmost of them before that commit is drawn.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest.records import CommitRecord


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """The marks of one line. A line without a commit only joins or splits columns."""

    marks: str
    commit: CommitRecord | None = None


def draw_commits(commits: Mapping[CommitId, CommitRecord], heads: tuple[CommitId, ...]) -> Iterator[DrawnLine]:
    """Yield the lines of the heads and all their ancestors, each commit before its parents."""
    columns: list[CommitId] = []
    for commit in _newest_first(commits, heads):
        if commit.id not in columns:
            columns.append(commit.id)
        column = columns.index(commit.id)
        others = [index for index, held in enumerate(columns) if held == commit.id and index != column]
        if others:
            marks = ["/" if index in others else "|" for index in range(len(columns))]
            yield DrawnLine(" ".join(marks))
            columns = [held for index, held in enumerate(columns) if index not in others]
        yield DrawnLine(" ".join("*" if index == column else "|" for index in range(len(columns))), commit)
        if commit.parent is None:
            del columns[column]
        else:
            columns[column] = commit.parent
        merged = commit.merged_parent
        if merged is not None and merged not in columns:
            columns.insert(column + 1, merged)
            marks = ["|"] * (column + 1) + ["\\"] + ["|"] * (len(columns) - column - 2)
            yield DrawnLine(" ".join(marks))


def _newest_first(commits: Mapping[CommitId, CommitRecord], heads: tuple[CommitId, ...]) -> Iterator[CommitRecord]:
    """Yield the commits by time, but never a parent before its children: the clocks of writers may differ."""
    children: dict[CommitId, int] = dict.fromkeys(heads, 0)
    unvisited = list(children)
    while unvisited:
        for parent in _parents(commits[unvisited.pop()]):
            if parent not in children:
                children[parent] = 0
                unvisited.append(parent)
            children[parent] += 1
    ready = [(-commits[commit_id].created_us, commit_id) for commit_id, count in children.items() if count == 0]
    heapq.heapify(ready)
    while ready:
        commit = commits[heapq.heappop(ready)[1]]
        yield commit
        for parent in _parents(commit):
            children[parent] -= 1
            if children[parent] == 0:
                heapq.heappush(ready, (-commits[parent].created_us, parent))


def _parents(commit: CommitRecord) -> list[CommitId]:
    return [parent for parent in (commit.parent, commit.merged_parent) if parent is not None]
