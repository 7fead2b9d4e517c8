"""Merge a branch into another, or revert a commit: one commit through the write path, or nothing.

In: a source and a target, or a commit to revert. Out: a `MergeResult`, or `MergeConflictError` with every conflict.
The commit of a merge has two parents, records the pins of its source, and adds the commit rows that the target lacks,
so that a base is found after the source was deleted. If the target changed while the merge was planned, it fails with
`read_set_conflict`. The write path recovers from crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from omnigraph.base.display import Displayed
from omnigraph.base.errors import RefusedError, UsageError
from omnigraph.base.hints import Placeholder, action, hint
from omnigraph.base.ids import CommitId
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.lineage import Lineage, make_lineage
from omnigraph.graph.manifest.publish import ManifestChange
from omnigraph.graph.manifest.records import CommitRecord, WriteOperation
from omnigraph.graph.manifest.refs import read_reference
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, missing_commit, read_record_snapshot, read_snapshot
from omnigraph.graph.merge.bases import CommitBase, find_base, pins_of
from omnigraph.graph.merge.conflicts import Conflict, MergeConflictError
from omnigraph.graph.merge.plan import GraphSides, MergePlan, Resolution, plan_resolved, read_conflict_states
from omnigraph.graph.merge.schemas import keep_schema, merge_schemas
from omnigraph.graph.merge.stage import stage_plan, stage_schema_merge
from omnigraph.graph.schema_plan import PlannedStep, planned_step
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.schema.catalog import display_order
from omnigraph.storage.location import Location


class MergeOutcome(StrEnum):
    """How a merge ended, or would end."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    """The target has everything already."""
    FAST_FORWARD = "fast_forward"
    """Only the source had changed."""
    MERGED = "merged"
    """Both sides had changed, or a commit was reverted."""
    CONFLICTS = "conflicts"
    """Both sides changed the same entities. Only a dry run returns it; else `MergeConflictError` is raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCounts:
    """What a merge does to one table."""

    table: str
    """The table, such as `node:Person`."""
    inserted: int
    """The number of inserted rows."""
    updated: int
    """The number of updated rows."""
    deleted: int
    """The number of deleted rows."""
    adopted: bool = False
    """Whether the branch uses a version of main unchanged; its rows are not counted then."""


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class MergeResult(Displayed):
    """What a merge or a revert did, or would do."""

    source: str
    """The branch or commit that was merged, or the commit that was reverted."""
    target: str
    """The branch that was written."""
    outcome: MergeOutcome
    """How it ended."""
    source_head: CommitId
    """The commit that was merged or reverted."""
    commit: CommitRecord | None
    """The commit of the merge, or None if nothing was written."""
    tables: tuple[TableCounts, ...] = ()
    """What changed in each table."""
    conflicts: tuple[Conflict, ...] = ()
    """The conflicts of a dry run."""
    schema_steps: tuple[PlannedStep, ...] = ()
    """The steps that change the schema of the target."""

    def _summary(self) -> Mapping[str, object]:
        return {
            "source": self.source,
            "target": self.target,
            "outcome": self.outcome.value,
            "commit": None if self.commit is None else self.commit.id,
            **{
                table.table: f"{table.inserted} inserted, {table.updated} updated, {table.deleted} deleted"
                for table in self.tables
            },
            **({"conflicts": len(self.conflicts)} if self.conflicts else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """What to merge into which branch, or which commit of it to revert; the actor, and how to resolve conflicts.

    A dry run only lists conflicts.
    """

    source: str
    actor: str
    target: str = MAIN
    resolution: Resolution = field(default_factory=Resolution)
    dry_run: bool = False


def merge_branch(root: Location, request: MergeRequest, environment: WriteEnvironment | None = None) -> MergeResult:
    """Merge a branch, or a commit of one, into a branch."""
    if request.source == request.target:
        raise UsageError(
            f"cannot merge branch '{request.source}' into itself",
            code="merge_into_itself",
            hint=hint(
                "Nothing was written. Merge into another branch: {}.",
                action("branch merge", source=request.source, into=Placeholder("BRANCH")),
            ),
            facts={"branch": request.source},
        )
    theirs = read_reference(root, request.source)

    def prepare(ours: Snapshot) -> _Prepared | None:
        own_commits = {commit.id: commit for commit in ours.manifest.read_commits()}
        their_commits = {commit.id: commit for commit in theirs.manifest.read_commits()}
        lineage = Lineage(ours.head, their_commits | own_commits)
        if theirs.head in lineage.ancestors(ours.head):
            return None
        base = find_base(ours, lineage, ours.head, theirs.head)
        ours_is_base = isinstance(base, CommitBase) and base.commit == ours.head
        tables = {table.id: table for table in theirs.tables.values()}
        sides = GraphSides(
            schema=merge_schemas(ours, theirs, base), theirs=tables, base=base, ours_is_base=ours_is_base
        )
        missing = sorted(lineage.ancestors(theirs.head) - own_commits.keys())  # by id: oldest first
        return _Prepared(sides, theirs, tuple(lineage.commits[commit] for commit in missing))

    return _MergeRun(request=request, kind=WriteOperation.MERGE, prepare=prepare).run(root, theirs.head, environment)


def revert_commit(root: Location, request: MergeRequest, environment: WriteEnvironment | None = None) -> MergeResult:
    """Undo what a commit of the branch changed compared with its first parent, as a new commit."""
    reverted = CommitId(request.source)

    def prepare(ours: Snapshot) -> _Prepared | None:
        record, parent = _find_reverted(ours, reverted)
        undone, before = read_record_snapshot(ours, record), read_record_snapshot(ours, parent)
        base = CommitBase(record.id, pins_of(undone), undone.schema)
        tables = {table.id: table for table in before.tables.values()}
        schema = keep_schema(ours, undone, before, base)
        return _Prepared(GraphSides(schema=schema, theirs=tables, base=base, ours_is_base=record.id == ours.head))

    return _MergeRun(request=request, kind=WriteOperation.REVERT, prepare=prepare).run(root, reverted, environment)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A merge for one snapshot of the target. `theirs` is the merged parent; None for a revert.

    `ancestors` are its commits that the target lacks.
    """

    sides: GraphSides
    theirs: Snapshot | None = None
    ancestors: tuple[CommitRecord, ...] = ()


@dataclass(slots=True, kw_only=True)
class _MergeRun:
    """One merge or revert in progress. `prepare` returns None if the target has everything already."""

    request: MergeRequest
    kind: WriteOperation
    prepare: Callable[[Snapshot], _Prepared | None]
    prepared: _Prepared | None = None
    plan: MergePlan = field(default_factory=MergePlan)

    def run(self, root: Location, source_head: CommitId, environment: WriteEnvironment | None) -> MergeResult:
        request, commit = self.request, None
        if request.dry_run:
            self._plan(read_snapshot(root, request.target))
        else:
            write_request = WriteRequest(kind=self.kind, actor=request.actor, stage=self._stage)
            commit = write(root, request.target, write_request, environment)
        schema = self.plan.schema
        return MergeResult(
            source=request.source,
            target=request.target,
            outcome=self._outcome(),
            source_head=source_head,
            commit=commit,
            tables=self._table_counts(),
            conflicts=self.plan.conflicts,
            schema_steps=()
            if schema is None
            else tuple(planned_step(step, schema.row_counts) for step in schema.steps),
        )

    def _plan(self, ours: Snapshot) -> None:
        self.prepared = self.prepare(ours)
        if self.prepared is not None:
            plan = plan_resolved(self.prepared.sides, self.request.resolution)
            self.plan = replace(plan, conflicts=read_conflict_states(self.prepared.sides, plan.conflicts))

    def _outcome(self) -> MergeOutcome:
        if self.plan.conflicts:
            return MergeOutcome.CONFLICTS
        if self.prepared is None or self._is_idle(self.prepared):
            return MergeOutcome.ALREADY_UP_TO_DATE
        is_forward = self.kind is WriteOperation.MERGE and self.prepared.sides.ours_is_base
        return MergeOutcome.FAST_FORWARD if is_forward else MergeOutcome.MERGED

    def _is_idle(self, prepared: _Prepared) -> bool:
        """Return whether there is nothing to commit: no change, and no history to join."""
        return self.plan.is_empty and (prepared.theirs is None or prepared.sides.ours_is_base)

    def _table_counts(self) -> tuple[TableCounts, ...]:
        counted = [
            TableCounts(
                table=plan.entity.alias,
                inserted=plan.inserted_rows,
                updated=plan.updated_rows,
                deleted=plan.removed_rows,
            )
            for plan in self.plan.tables
            if plan.inserted_rows or plan.updated_rows or plan.removed_rows
        ]
        added = [
            TableCounts(table=added.table.alias, inserted=added.row_count, updated=0, deleted=0)
            for added in self.plan.added
            if added.row_count
        ]
        adopted = [
            TableCounts(table=table.alias, inserted=0, updated=0, deleted=0, adopted=True)
            for table in self.plan.adopted
        ]
        return tuple(sorted((*counted, *added, *adopted), key=lambda counts: display_order(counts.table)))

    def _stage(self, area: StagingArea) -> StagedWrite | None:
        self._plan(area.snapshot)
        prepared, plan, request = self.prepared, self.plan, self.request
        if plan.conflicts:
            is_merge = self.kind is WriteOperation.MERGE
            operation = f"merging {request.source} into {request.target}" if is_merge else f"reverting {request.source}"
            raise MergeConflictError(operation, plan.conflicts)
        if prepared is None or self._is_idle(prepared):
            return None
        schema_change = ManifestChange()
        if plan.schema is not None and plan.schema.is_changed:
            effects, schema_change = stage_schema_merge(area, plan)
        else:
            effects = stage_plan(area, plan)
        tables = self._table_counts()
        counts = {
            "inserted": sum(table.inserted for table in tables),
            "updated": sum(table.updated for table in tables),
            "deleted": sum(table.deleted for table in tables),
        }
        extra_changes = replace(
            schema_change, tables=(*plan.adopted, *schema_change.tables), ancestors=prepared.ancestors
        )
        staged = area.finish(effects, plan.reads, counts, extra_changes)
        theirs = prepared.theirs
        if theirs is None:
            return staged
        return replace(staged, merged_parent=theirs.head, merged_pins=pins_of(theirs))


def _find_reverted(ours: Snapshot, commit: CommitId) -> tuple[CommitRecord, CommitRecord]:
    lineage = make_lineage(ours.head, ours.manifest.read_commits())
    record = lineage.commits.get(commit)
    if record is None or commit not in lineage.ancestors(ours.head):
        raise missing_commit(commit, ours.branch.name)
    if record.parent is None:
        raise RefusedError(
            f"commit {commit} created the graph and cannot be reverted",
            code="commit_is_first",
            hint="Nothing was written. Revert a later commit.",
            facts={"commit": commit},
        )
    return record, lineage.commits[record.parent]
