"""Draws the commit graph as text: one line per commit, newest first, with a column for each line of parents. Pure.

A column holds the next commit of its line. A merge adds a column for its second parent. Columns that hold the same
commit are joined into the leftmost of them before that commit is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.wire.commits import CommitOutput


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """The marks of one line. A line without a commit only joins or splits columns."""

    marks: str
    commit: CommitOutput | None = None


def draw_commits(commits: Iterable[CommitOutput]) -> Iterator[DrawnLine]:
    """Yield the lines of commits, which come with all their ancestors, each before its parents."""
    columns: list[str] = []
    for commit in commits:
        if commit.graph_commit_id not in columns:
            columns.append(commit.graph_commit_id)
        column = columns.index(commit.graph_commit_id)
        others = [index for index, held in enumerate(columns) if held == commit.graph_commit_id and index != column]
        if others:
            marks = ["/" if index in others else "|" for index in range(len(columns))]
            yield DrawnLine(" ".join(marks))
            columns = [held for index, held in enumerate(columns) if index not in others]
        yield DrawnLine(" ".join("*" if index == column else "|" for index in range(len(columns))), commit)
        if commit.parent_commit_id is None:
            del columns[column]
        else:
            columns[column] = commit.parent_commit_id
        merged = commit.merged_parent_commit_id
        if merged is not None and merged not in columns:
            columns.insert(column + 1, merged)
            marks = ["|"] * (column + 1) + ["\\"] + ["|"] * (len(columns) - column - 2)
            yield DrawnLine(" ".join(marks))
