"""Commits with what documents about them need: the names of their tables, and whether their data still exists.

In: the location of a graph. Out: frozen values, which `wire` maps to JSON. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from omnigraph.base.errors import OmnigraphError
from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest.lineage import make_lineage, newest_first
from omnigraph.graph.manifest.records import CommitRecord, TableId
from omnigraph.graph.manifest.refs import read_reference, readable_commits
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, find_named_commit, read_snapshot
from omnigraph.storage.location import Location

if TYPE_CHECKING:
    from omnigraph.graph.diff import EntityChanges

TableNames = Mapping[TableId, str]
"""The alias of each table that still has one, such as `node:Person`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHistory:
    """Commits of a branch, newest first."""

    commits: tuple[CommitRecord, ...]
    table_names: TableNames
    readable: frozenset[CommitId]
    """The commits whose data `cleanup` did not delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLog:
    """The commits of all branches, newest first and each before its parents."""

    commits: tuple[CommitRecord, ...]
    heads: Mapping[str, CommitId | None]
    """The newest commit of each branch, main first; None if it cannot be read, as in a copied graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDiff:
    """The changes from one commit to another."""

    before: CommitId
    after: CommitId
    changes: EntityChanges


def read_history(location: Location, branch: str, limit: int) -> CommitHistory:
    """Read the newest commits of a branch."""
    newest = read_snapshot(location, branch)
    lineage = make_lineage(newest.head, newest.manifest.read_commits())
    return _history(newest, tuple(islice(lineage.history(), limit)))


def read_commit(location: Location, branch: str, name: str) -> CommitHistory:
    """Read one commit of a branch, by its id, a unique part of it, or `HEAD`."""
    newest = read_snapshot(location, branch)
    return _history(newest, (find_named_commit(newest, name),))


def read_new_names(location: Location, commit: CommitRecord | None) -> TableNames:
    """Read the names of the tables of a commit that was just created.

    The commit exists: if the store fails now, or the branch was deleted, only the names are missing.
    """
    if commit is not None:
        with suppress(OmnigraphError):
            return _table_names(read_snapshot(location, commit.branch))
    return {}


def read_log(location: Location) -> GraphLog:
    """Read the commits of every branch."""
    from omnigraph.graph.branch_list import read_all_commits

    commits, heads = read_all_commits(location)
    live_heads = (head for head in heads.values() if head is not None)
    return GraphLog(commits=tuple(commits[commit] for commit in newest_first(live_heads, commits)), heads=heads)


def read_log_names(location: Location, log: GraphLog, limit: int) -> Mapping[CommitId, TableNames]:
    """Read the names of the tables of the newest commits of a log. A deleted branch has the names of main."""
    commits = log.commits[:limit]
    live_branches = {commit.branch for commit in commits if log.heads.get(commit.branch) is not None}
    names = {branch: _table_names(read_snapshot(location, branch)) for branch in {MAIN, *live_branches}}
    return {commit.id: {**names[MAIN], **names.get(commit.branch, {})} for commit in commits}


def read_diff(location: Location, left: str, right: str) -> StateDiff:
    """Return the changes that lead from one branch or commit to another."""
    from omnigraph.graph.diff import EntityChanges, diff_snapshots

    before, after = read_reference(location, left), read_reference(location, right)
    changes = EntityChanges(partial(diff_snapshots, before, after))
    return StateDiff(before=before.head, after=after.head, changes=changes)


def _history(newest: Snapshot, commits: tuple[CommitRecord, ...]) -> CommitHistory:
    return CommitHistory(commits=commits, table_names=_table_names(newest), readable=readable_commits(newest, commits))


def _table_names(snapshot: Snapshot) -> TableNames:
    return {table.id: alias for alias, table in snapshot.tables.items()}
