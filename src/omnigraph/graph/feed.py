"""The change feed of a branch: its commits after a cursor, oldest first, each with the state before it and after it.

A cursor is a commit id, and the caller keeps it: whoever asks again with the same one gets the same commits again, at
least once and whole. Commits are those of the branch's own line, along first parents; a merge is one of them, with all
that it brought. A commit that changed the schema has the steps that it took, so that a rename is told. When the line no
longer has the cursor, a state on the way was collected, or a property went with its values, it is a gap: the caller
takes a new baseline. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.base.errors import ErrorKind, Fact, NotFoundError, OmnigraphError
from omnigraph.base.ids import CommitId, TypeId
from omnigraph.graph.diff import ChangeBatch, SchemaDiffError, diff_snapshots, refuse_lost_values
from omnigraph.graph.manifest.lineage import make_lineage, name_commit
from omnigraph.graph.manifest.records import CommitRecord, TableId, table_id
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_record_snapshot, read_snapshot
from omnigraph.graph.schema_change import HARD_DROPS
from omnigraph.graph.schema_plan import PlannedStep, planned_step, read_null_counts
from omnigraph.schema.evolution.diff import find_steps_by_id
from omnigraph.schema.evolution.steps import (
    DropType,
    RenameProperty,
    RenameType,
    Step,
    UpdateInterfaces,
    UpdateText,
)
from omnigraph.storage.location import Location


class ChangeFeedGapError(OmnigraphError):
    """What came after the cursor cannot be told any more."""

    kind = ErrorKind.CONFLICT


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """A step that a commit took with the schema."""

    planned: PlannedStep
    """The step."""
    table_id: TableId | None
    """The table of its type, by which changes of rows name it too; None when it is about no one type."""

    def to_json(self) -> dict[str, Fact]:
        """As `schema plan` tells it; a rename has the old name and the new one as well."""
        told = {**self.planned.to_json(), "table_id": self.table_id}
        match self.planned.step:
            case RenameType(alias=alias, name=name):
                return {**told, "old_name": alias.partition(":")[2], "new_name": name}
            case RenameProperty(old=old, new=new):
                return {**told, "old_name": old, "new_name": new}
            case _:
                return told


@dataclass(frozen=True, slots=True)
class FeedBlock:
    """One commit of a feed, with the state before it and after it; the first commit of a graph has none before."""

    commit: CommitRecord
    before: Snapshot | None
    after: Snapshot

    def schema_steps(self) -> tuple[SchemaStep, ...]:
        """What it did to the schema, in the order in which it can be followed."""
        if self.before is None:
            return ()
        old, new = self.before.schema, self.after.schema
        found = find_steps_by_id(old.catalog, new.catalog, hard=HARD_DROPS in self.commit.counts)
        if not found and old.source != new.source:
            found = (UpdateText(),)
        rows = {TypeId(table.type_id): table.row_count for table in self.before.tables.values()}
        nulls = read_null_counts(self.before, new.catalog)
        return tuple(SchemaStep(planned_step(step, rows, nulls), self._table_of(step)) for step in found)

    def table_names(self) -> dict[TableId, str]:
        """The alias of every table that it has or had: the new one where there are two."""
        states = (self.after,) if self.before is None else (self.before, self.after)
        return {table.id: alias for state in states for alias, table in state.tables.items()}

    def _table_of(self, step: Step) -> TableId | None:
        if isinstance(step, UpdateInterfaces | UpdateText):
            return None
        state = self.before if isinstance(step, DropType) else self.after
        entity = None if state is None else state.schema.catalog.type_with_id(step.type_id)
        return None if entity is None else table_id(entity.id, entity.incarnation)

    def changes(self) -> Iterator[ChangeBatch]:
        """What it changed against its first parent."""
        if self.before is None:
            return
        try:
            yield from diff_snapshots(self.before, self.after)
        except NotFoundError as gone:
            raise _gap(self.after.branch.name, self.commit.id, gone.message) from gone


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Commits to tell, oldest first, and the cursor after them. `has_more`: there are later ones."""

    blocks: tuple[FeedBlock, ...]
    cursor: CommitId
    has_more: bool


def read_feed(root: Location, branch: str = MAIN, cursor: str | None = None, limit: int = 100) -> FeedPage:
    """The commits after the cursor, at most so many; without a cursor from the first one on.

    A page ends before a gap, so that what it has can be told whole; the next page is the gap.
    """
    newest = read_snapshot(root, branch)
    line = list(make_lineage(newest.head, newest.manifest.read_commits()).history())
    line.reverse()
    at = -1
    seen = None
    if cursor is not None:
        seen = name_commit(cursor, newest.head, lambda: (commit.id for commit in line))
        at = next((place for place, commit in enumerate(line) if commit.id == seen), -2)
        if at == -2:
            raise _gap(branch, seen, "it is not a commit of the branch's line")
    rest = line[at + 1 :]
    blocks = tuple(_readable_blocks(newest, line[at] if at >= 0 else None, rest[:limit]))
    last = blocks[-1].commit.id if blocks else seen or newest.head
    return FeedPage(blocks, last, len(rest) > len(blocks))


def commit_changes(newest: Snapshot, commit: CommitRecord) -> Iterator[ChangeBatch]:
    """What a commit changed against its first parent; the first commit of a graph changed nothing."""
    parent = None if commit.parent is None else newest.manifest.find_commit(commit.parent)
    yield from _read_block(newest, None if parent is None else _state(newest, parent), commit).changes()


def _readable_blocks(
    newest: Snapshot, cursor: CommitRecord | None, commits: list[CommitRecord]
) -> Iterator[FeedBlock]:
    """The commits up to the first one that cannot be told; when that is the first of all, it is the gap."""
    before = _state(newest, cursor) if cursor is not None and commits else None
    for number, commit in enumerate(commits):
        try:
            block = _read_block(newest, before, commit)
            _refuse_untellable(block)
            if number == 0:
                next(block.changes(), None)  # also that its tables are there, before anything is told
        except ChangeFeedGapError:
            if number == 0:
                raise
            return
        yield block
        before = block.after


def _read_block(newest: Snapshot, before: Snapshot | None, commit: CommitRecord) -> FeedBlock:
    return FeedBlock(commit, before, _state(newest, commit))


def _refuse_untellable(block: FeedBlock) -> None:
    """A property that goes with its values is a gap too: who follows needs a new baseline."""
    try:
        if block.before is not None:
            refuse_lost_values(block.before, block.after)
    except SchemaDiffError as refused:
        raise _gap(block.after.branch.name, block.commit.id, refused.message) from refused


def _state(newest: Snapshot, commit: CommitRecord) -> Snapshot:
    try:
        return read_record_snapshot(newest, commit)
    except NotFoundError as gone:
        raise _gap(newest.branch.name, commit.id, gone.message) from gone


def _gap(branch: str, commit: CommitId, why: str) -> ChangeFeedGapError:
    return ChangeFeedGapError(
        f"the changes of branch {branch} from {commit} on cannot be told: {why}",
        code="change_feed_gap",
        hint="export the branch again and go on from the commit that the export names",
        facts={"change_feed_gap": {"first_unreadable_commit_id": commit}, "branch": branch},
    )
