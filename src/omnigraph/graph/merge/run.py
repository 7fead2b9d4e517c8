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
from omnigraph.base.hints import Argument, Placeholder, hint
from omnigraph.base.ids import CommitId
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.lineage import Lineage, make_lineage
from omnigraph.graph.manifest.publish import CommitDraft, ManifestChange
from omnigraph.graph.manifest.records import CommitRecord
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True, repr=False)
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

    def summary(self) -> Mapping[str, object]:
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


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """What to merge into which branch, the actor, and how to resolve conflicts. A dry run only lists conflicts."""

    source: str
    actor: str
    target: str = MAIN
    resolution: Resolution = field(default_factory=Resolution)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RevertRequest:
    """Which commit of a branch to revert, the actor, and how to resolve conflicts."""

    commit: CommitId
    actor: str
    branch: str = MAIN
    resolution: Resolution = field(default_factory=Resolution)
    dry_run: bool = False


def merge_branch(root: Location, request: MergeRequest, environment: WriteEnvironment | None = None) -> MergeResult:
    """Merge a branch, or a commit of one, into a branch."""
    if request.source == request.target:
        raise UsageError(
            f"cannot merge branch '{request.source}' into itself",
            code="merge_into_itself",
            hint=hint("Nothing was written. Pass another branch as {}.", Argument("into", Placeholder("BRANCH"))),
            facts={"branch": request.source},
        )
    theirs = read_reference(root, request.source)
    merge = _MergeRun(f"merging {request.source} into {request.target}", request.resolution)

    def prepare(ours: Snapshot) -> _Prepared | None:
        lineage = _joint_lineage(ours, theirs)
        if theirs.head in lineage.ancestors(ours.head):
            return None
        base = find_base(ours, lineage, ours.head, theirs.head)
        ours_is_base = isinstance(base, CommitBase) and base.commit == ours.head
        tables = {table.id: table for table in theirs.tables.values()}
        sides = GraphSides(merge_schemas(ours, theirs, base), tables, base, ours_is_base)
        return _Prepared(sides, theirs, _missing_commits(ours, lineage, theirs.head))

    kind = WriterKind.MERGE
    commit = merge.run(root, _WriteTarget(kind, request.actor, request.target, request.dry_run), prepare, environment)
    outcome = MergeOutcome.ALREADY_UP_TO_DATE
    if merge.prepared is not None and not merge.is_idle:
        outcome = MergeOutcome.FAST_FORWARD if merge.prepared.sides.ours_is_base else MergeOutcome.MERGED
    return merge.result(request.source, request.target, outcome, theirs.head, commit)


def revert_commit(root: Location, request: RevertRequest, environment: WriteEnvironment | None = None) -> MergeResult:
    """Undo what a commit changed compared with its first parent, as a new commit."""
    merge = _MergeRun(f"reverting {request.commit}", request.resolution)

    def prepare(ours: Snapshot) -> _Prepared | None:
        record, parent = _find_reverted(ours, request.commit)
        undone, before = read_record_snapshot(ours, record), read_record_snapshot(ours, parent)
        base = CommitBase(record.id, pins_of(undone), undone.schema)
        tables = {table.id: table for table in before.tables.values()}
        schema = keep_schema(ours, undone, before, base)
        return _Prepared(GraphSides(schema, tables, base, record.id == ours.head))

    kind = WriterKind.REVERT
    commit = merge.run(root, _WriteTarget(kind, request.actor, request.branch, request.dry_run), prepare, environment)
    outcome = MergeOutcome.ALREADY_UP_TO_DATE if merge.is_idle else MergeOutcome.MERGED
    return merge.result(request.commit, request.branch, outcome, request.commit, commit)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A merge for one snapshot of the target. `theirs` is the merged parent; None for a revert."""

    sides: GraphSides
    theirs: Snapshot | None = None
    ancestors: tuple[CommitRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class _WriteTarget:
    kind: WriterKind
    actor: str
    branch: str
    dry_run: bool


_Prepare = Callable[[Snapshot], _Prepared | None]


@dataclass(slots=True)
class _MergeRun:
    """One merge in progress, and its plan."""

    operation: str
    resolution: Resolution
    prepared: _Prepared | None = None
    plan: MergePlan = field(default_factory=MergePlan)

    @property
    def is_idle(self) -> bool:
        """Return whether there is nothing to commit: no change, and no history to join."""
        if self.prepared is None:
            return True
        return self.plan.is_empty and (self.prepared.theirs is None or self.prepared.sides.ours_is_base)

    def run(
        self, root: Location, target: _WriteTarget, prepare: _Prepare, environment: WriteEnvironment | None
    ) -> CommitRecord | None:
        if target.dry_run:
            self._plan(read_snapshot(root, target.branch), prepare)
            return None

        def stage(area: StagingArea) -> StagedWrite | None:
            self._plan(area.snapshot, prepare)
            if self.plan.conflicts:
                raise MergeConflictError(self.operation, self.plan.conflicts)
            return None if self.is_idle else self._stage(area)

        published = write(root, target.branch, WriteRequest(target.kind, target.actor, stage), environment)
        return None if published is None else published.publication.commit

    def result(
        self, source: str, target: str, outcome: MergeOutcome, head: CommitId, commit: CommitRecord | None
    ) -> MergeResult:
        counted = [
            TableCounts(plan.entity.alias, plan.inserted_rows, plan.updated_rows, plan.removed_rows)
            for plan in self.plan.tables
            if plan.inserted_rows or plan.updated_rows or plan.removed_rows
        ]
        counted += [
            TableCounts(added.table.alias, added.row_count, 0, 0) for added in self.plan.added if added.row_count
        ]
        adopted = [TableCounts(table.alias, 0, 0, 0, adopted=True) for table in self.plan.adopted]
        tables = tuple(sorted((*counted, *adopted), key=lambda counts: display_order(counts.table)))
        conflicts = self.plan.conflicts
        outcome = MergeOutcome.CONFLICTS if conflicts else outcome
        return MergeResult(source, target, outcome, head, commit, tables, conflicts, self._schema_steps())

    def _schema_steps(self) -> tuple[PlannedStep, ...]:
        schema = self.plan.schema
        if schema is None:
            return ()
        return tuple(planned_step(step, schema.row_counts) for step in schema.steps)

    def _plan(self, ours: Snapshot, prepare: _Prepare) -> None:
        self.prepared = prepare(ours)
        if self.prepared is not None:
            plan = plan_resolved(self.prepared.sides, self.resolution)
            self.plan = replace(plan, conflicts=read_conflict_states(self.prepared.sides, plan.conflicts))

    def _stage(self, area: StagingArea) -> StagedWrite:
        assert self.prepared is not None, "the merge was planned"
        schema = self.plan.schema
        schema_change = ManifestChange()
        if schema is not None and schema.is_changed:
            effects, schema_change = stage_schema_merge(area, self.plan)
        else:
            effects = stage_plan(area, self.plan)
        theirs = self.prepared.theirs
        counts = {
            "inserted": sum(plan.inserted_rows for plan in self.plan.tables)
            + sum(added.row_count for added in self.plan.added),
            "updated": sum(plan.updated_rows for plan in self.plan.tables),
            "deleted": sum(plan.removed_rows for plan in self.plan.tables),
        }
        draft = CommitDraft(
            area.commit,
            area.kind,
            area.operation,
            area.actor,
            area.clock.now_us(),
            counts,
            merged_parent=None if theirs is None else theirs.head,
            pins=None if theirs is None else pins_of(theirs),
        )
        tables = (*self.plan.adopted, *schema_change.tables)
        extra_changes = replace(schema_change, commit=draft, tables=tables, ancestors=self.prepared.ancestors)
        return area.finish(effects, self.plan.reads, counts, extra_changes)


def _joint_lineage(ours: Snapshot, theirs: Snapshot) -> Lineage:
    commits = {commit.id: commit for commit in theirs.manifest.read_commits()}
    commits |= {commit.id: commit for commit in ours.manifest.read_commits()}
    return Lineage(ours.head, commits)


def _missing_commits(ours: Snapshot, lineage: Lineage, theirs: CommitId) -> tuple[CommitRecord, ...]:
    """Return the ancestors of theirs that our manifest lacks, oldest first."""
    own_ids = {commit.id for commit in ours.manifest.read_commits()}
    missing = lineage.ancestors(theirs) - own_ids
    return tuple(lineage.commits[commit] for commit in sorted(missing))


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
