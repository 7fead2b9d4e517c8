"""The change feed of a branch: its commits after a cursor, oldest first, each with the state before and after it.

In: a branch and a cursor, which is a commit id that the caller stores. Out: a page of commits. A repeated call with the
same cursor returns the same commits with all their changes, so delivery is at least once. The feed follows first
parents; a merge is one commit with everything that it merged. A commit that changed the schema has its schema steps,
so that renames are visible. The feed has a gap if the history no longer contains the cursor, a state in between was
deleted, or a property was dropped with its values: the caller then needs a new export. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, overload

from omnigraph.base.display import Displayed, DisplayedRow
from omnigraph.base.errors import ErrorKind, Fact, NotFoundError, OmnigraphError, RefusedError
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import CommitId, TypeId
from omnigraph.graph.diff import EntityChange, EntityChanges, SchemaDiffError, diff_snapshots, require_no_lost_values
from omnigraph.graph.manifest.lineage import make_lineage, resolve_commit
from omnigraph.graph.manifest.records import CommitRecord, TableId, table_id
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, find_named_commit, read_record_snapshot, read_snapshot
from omnigraph.graph.schema_change import HARD_DROPS
from omnigraph.graph.schema_plan import PlannedStep, planned_step, read_null_counts
from omnigraph.schema.evolution.diff import find_steps_by_id
from omnigraph.schema.evolution.steps import DropType, EvolutionStep, TypeStep, UpdateText
from omnigraph.storage.location import Location

NOT_IN_HISTORY: Final = "the commit is not in the history of the branch"


class ChangeFeedGapError(OmnigraphError):
    """The changes after the cursor are no longer available."""

    kind = ErrorKind.CONFLICT


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """A schema step of a commit."""

    planned: PlannedStep
    """The step."""
    table_id: TableId | None
    """The table of its type, as in changes of rows; None if the step is not about one type."""


@dataclass(frozen=True, slots=True, repr=False)
class CommitChanges(DisplayedRow):
    """One commit and what it changed against its first parent."""

    commit: CommitRecord
    """The commit."""
    schema_steps: tuple[SchemaStep, ...]
    """Its schema steps, to apply before its row changes, in an order in which they can be applied."""
    table_names: Mapping[TableId, str]
    """The alias of each table by its id, including dropped types; the new alias if the commit renamed the type."""
    changes: EntityChanges
    """What it did to nodes and edges, under the new names of types and properties."""

    def _summary(self) -> Mapping[str, object]:
        commit = self.commit
        shown = f"{commit.id} ({commit.operation.value} by {commit.actor})"
        return {"commit": shown, "schema_steps": len(self.schema_steps)}


@dataclass(frozen=True, slots=True, repr=False)
class ChangeFeed(Displayed, Sequence[CommitChanges]):
    """One page of the commits of a branch after a cursor: a sequence of `commits`."""

    commits: tuple[CommitChanges, ...]
    """The commits, oldest first."""
    cursor: str
    """The cursor to pass to the next call, after all of these commits were read."""
    has_more: bool
    """Whether there are more commits."""

    def _summary(self) -> Mapping[str, object]:
        commits: dict[str, object] = {change.commit.id: change.commit.operation.value for change in self.commits}
        return {"cursor": self.cursor, "has_more": self.has_more, **commits}

    def __len__(self) -> int:
        return len(self.commits)

    @overload
    def __getitem__(self, index: int) -> CommitChanges: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[CommitChanges]: ...
    def __getitem__(self, index: int | slice) -> CommitChanges | Sequence[CommitChanges]:
        return self.commits[index]


@dataclass(frozen=True, slots=True)
class _CommitStates:
    """One commit, with the state before and after it. The first commit of a graph has no state before.

    `cursor` is the cursor of the page; the error of a gap reports it.
    """

    commit: CommitRecord
    before: Snapshot | None
    after: Snapshot
    cursor: CommitId | None = None

    def describe(self) -> CommitChanges:
        states = (self.after,) if self.before is None else (self.before, self.after)
        table_names = {table.id: alias for state in states for alias, table in state.tables.items()}
        return CommitChanges(self.commit, self._schema_steps(), table_names, EntityChanges(self.changes))

    def _schema_steps(self) -> tuple[SchemaStep, ...]:
        if self.before is None or self.before.schema == self.after.schema:
            return ()
        old, new = self.before.schema, self.after.schema
        steps = find_steps_by_id(old.catalog, new.catalog, hard=HARD_DROPS in self.commit.counts)
        if not steps and old.source != new.source:
            steps = (UpdateText(),)
        rows = {TypeId(table.type_id): table.row_count for table in self.before.tables.values()}
        nulls = read_null_counts(self.before, new.catalog)
        return tuple(SchemaStep(planned_step(step, rows, nulls), self._table_of(step)) for step in steps)

    def _table_of(self, step: EvolutionStep) -> TableId | None:
        if not isinstance(step, TypeStep):
            return None
        state = self.before if isinstance(step, DropType) else self.after
        entity = None if state is None else state.schema.catalog.type_with_id(step.type_id)
        return None if entity is None else table_id(entity.id, entity.incarnation)

    def changes(self) -> Iterator[EntityChange]:
        """Yield what it changed, compared with its first parent."""
        if self.before is None:
            return
        try:
            yield from diff_snapshots(self.before, self.after)
        except NotFoundError as missing:
            raise feed_gap(self.after.branch.name, self.commit.id, missing.message, self.cursor) from missing


def read_feed(root: Location, branch: str = MAIN, cursor: str | None = None, limit: int = 100) -> ChangeFeed:
    """Read at most `limit` commits after the cursor; without a cursor, from the first commit on.

    A page ends before a gap, so that all of its commits are complete. The next page raises the error for the gap.
    """
    newest = read_snapshot(root, branch)
    history = list(make_lineage(newest.head, newest.manifest.read_commits()).history())
    history.reverse()
    position = -1
    cursor_id = None
    if cursor is not None:
        cursor_id = resolve_commit(cursor, newest.head, lambda: (commit.id for commit in history))
        position = next((index for index, commit in enumerate(history) if commit.id == cursor_id), -2)
        if position == -2:
            raise feed_gap(branch, cursor_id, NOT_IN_HISTORY, cursor_id)
    later = history[position + 1 :]
    readable = tuple(_readable_commits(newest, history[position] if position >= 0 else None, later[:limit]))
    next_cursor = readable[-1].commit.id if readable else cursor_id or newest.head
    return ChangeFeed(tuple(map(_CommitStates.describe, readable)), next_cursor, len(later) > len(readable))


def read_commit_diff(root: Location, branch: str, name: str) -> EntityChanges:
    """Return what a commit of a branch changed compared with its first parent; raise if it is the first commit."""
    newest = read_snapshot(root, branch)
    commit = find_named_commit(newest, name)
    if commit.parent is None:
        raise RefusedError(
            f"commit {commit.id} created the graph: it has no parent to compare it with",
            code="commit_is_first",
            hint=hint("Pass a later commit. Run {} to list the commits.", action("commit list")),
            facts={"change_diff_refusal": {"reason": "parentless_commit", "graph_commit_id": commit.id}},
        )
    parent = newest.manifest.find_commit(commit.parent)
    before = None if parent is None else _read_snapshot_of(newest, parent)
    return EntityChanges(_CommitStates(commit, before, _read_snapshot_of(newest, commit)).changes)


def _readable_commits(
    newest: Snapshot, cursor: CommitRecord | None, commits: list[CommitRecord]
) -> Iterator[_CommitStates]:
    """Yield the commits up to the first gap; raise if the first commit is a gap."""
    cursor_id = None if cursor is None else cursor.id
    before = _read_snapshot_of(newest, cursor, cursor_id) if cursor is not None and commits else None
    for number, commit in enumerate(commits):
        try:
            states = _CommitStates(commit, before, _read_snapshot_of(newest, commit, cursor_id), cursor_id)
            _require_no_gap(states)
            if number == 0:
                next(states.changes(), None)  # Fail before anything is returned if its tables do not exist.
        except ChangeFeedGapError:
            if number == 0:
                raise
            return
        yield states
        before = states.after


def _require_no_gap(states: _CommitStates) -> None:
    """Raise for a property that was dropped with its values: the caller needs a new export."""
    try:
        if states.before is not None:
            require_no_lost_values(states.before, states.after)
    except SchemaDiffError as error:
        raise feed_gap(states.after.branch.name, states.commit.id, error.message, states.cursor) from error


def _read_snapshot_of(newest: Snapshot, commit: CommitRecord, cursor: CommitId | None = None) -> Snapshot:
    try:
        return read_record_snapshot(newest, commit)
    except NotFoundError as missing:
        raise feed_gap(newest.branch.name, commit.id, missing.message, cursor) from missing


def feed_gap(branch: str, commit: CommitId, reason: str, cursor: CommitId | None) -> ChangeFeedGapError:
    """Return the error for commits whose changes are not available."""
    gap: dict[str, Fact] = {} if cursor is None else {"cursor": cursor}
    return ChangeFeedGapError(
        f"the changes of branch '{branch}' from {commit} on are not available: {reason}",
        code="change_feed_gap",
        hint="Export the branch again, then continue from the commit of the export.",
        facts={"change_feed_gap": {**gap, "first_unreadable_commit_id": commit}, "branch": branch},
    )
