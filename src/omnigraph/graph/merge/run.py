"""Merging a branch into another, and reverting a commit: one commit through the one write path, or nothing at all.

In: a source and a target, or a commit to undo. Out: a `MergeResult`, or `MergeConflictError` with every conflict. The
commit of a merge has two parents, names the pins of its source, and brings along the commit rows that the target lacks,
so that a base is found after the source is gone. A target that moved while the merge was planned fails with
`read_set_conflict`. What a crash leaves is the write path's to settle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from omnigraph.base.display import Displayed
from omnigraph.base.errors import NotFoundError, RefusedError, UsageError
from omnigraph.base.ids import CommitId
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.lineage import Lineage, make_lineage
from omnigraph.graph.manifest.publish import CommitDraft, ManifestChange
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.graph.manifest.refs import read_reference
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_record_snapshot, read_snapshot
from omnigraph.graph.merge.bases import CommitBase, find_base, pins_of
from omnigraph.graph.merge.conflicts import Conflict, MergeConflictError
from omnigraph.graph.merge.plan import GraphSides, MergePlan, Resolution, plan_resolved, with_states
from omnigraph.graph.merge.schemas import keep_schema, merge_schemas
from omnigraph.graph.merge.stage import stage_plan, stage_schema_merge
from omnigraph.graph.schema_plan import PlannedStep, planned_step
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import Outcome, StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.schema.catalog import display_order
from omnigraph.storage.location import Location


class MergeOutcome(StrEnum):
    """How a merge ended, or would end."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    """There is nothing to merge."""
    FAST_FORWARD = "fast_forward"
    """Only the source had changed."""
    MERGED = "merged"
    """Both sides had changed, or a commit was undone."""
    CONFLICTS = "conflicts"
    """Both changed the same. Only a dry run ends like this; else `MergeConflictError` is raised."""


@dataclass(frozen=True, slots=True)
class TableCounts:
    """What a merge does to one table."""

    table: str
    """The table, such as `node:Person`."""
    inserted: int
    """How many rows it gains."""
    updated: int
    """How many rows it changes."""
    deleted: int
    """How many rows it loses."""
    adopted: bool = False
    """Whether the branch takes over main's version as it is; the rows are not counted then."""


@dataclass(frozen=True, slots=True, repr=False)
class MergeResult(Displayed):
    """What a merge or a revert did, or would do."""

    source: str
    """The branch or commit that was merged, or the commit that was undone."""
    target: str
    """The branch that was written to."""
    outcome: MergeOutcome
    """How it ended."""
    source_head: CommitId
    """The commit that was merged or undone."""
    commit: CommitRecord | None
    """The one commit, or None when nothing was written."""
    tables: tuple[TableCounts, ...] = ()
    """What changed in each table."""
    conflicts: tuple[Conflict, ...] = ()
    """What both sides disagree on, of a dry run."""
    schema_steps: tuple[PlannedStep, ...] = ()
    """What the schema of the target goes through."""

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
    """What to merge into what, as whom, and what to do about conflicts. A dry run writes nothing and lists them."""

    source: str
    actor: str
    target: str = MAIN
    resolution: Resolution = field(default_factory=Resolution)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RevertRequest:
    """Which commit of a branch to undo, as whom, and what to do about conflicts."""

    commit: CommitId
    actor: str
    branch: str = MAIN
    resolution: Resolution = field(default_factory=Resolution)
    dry_run: bool = False


def merge_branch(root: Location, request: MergeRequest, world: WriteEnvironment | None = None) -> MergeResult:
    """Merge a branch, or a commit of one, into a branch."""
    if request.source == request.target:
        raise UsageError(
            f"branch {request.source} cannot be merged into itself",
            code="merge_into_itself",
            hint="name another branch with --into",
            facts={"branch": request.source},
        )
    theirs = read_reference(root, request.source)
    merging = _Merging(f"merging {request.source} into {request.target}", request.resolution)

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
    commit = merging.run(root, _Writing(kind, request.actor, request.target, request.dry_run), prepare, world)
    outcome = MergeOutcome.ALREADY_UP_TO_DATE
    if merging.prepared is not None and not merging.is_idle:
        outcome = MergeOutcome.FAST_FORWARD if merging.prepared.sides.ours_is_base else MergeOutcome.MERGED
    return merging.result(request.source, request.target, outcome, theirs.head, commit)


def revert_commit(
    root: Location, request: RevertRequest, world: WriteEnvironment | None = None
) -> MergeResult:
    """Undo what a commit changed against its first parent, as a new commit."""
    merging = _Merging(f"reverting {request.commit}", request.resolution)

    def prepare(ours: Snapshot) -> _Prepared | None:
        record, parent = _undone(ours, request.commit)
        undone, before = read_record_snapshot(ours, record), read_record_snapshot(ours, parent)
        base = CommitBase(record.id, pins_of(undone), undone.schema)
        tables = {table.id: table for table in before.tables.values()}
        schema = keep_schema(ours, undone, before, base)
        return _Prepared(GraphSides(schema, tables, base, record.id == ours.head))

    kind = WriterKind.REVERT
    commit = merging.run(root, _Writing(kind, request.actor, request.branch, request.dry_run), prepare, world)
    outcome = MergeOutcome.ALREADY_UP_TO_DATE if merging.is_idle else MergeOutcome.MERGED
    return merging.result(request.commit, request.branch, outcome, request.commit, commit)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A merge for one snapshot of the target. `theirs` is the merged parent; a revert has none."""

    sides: GraphSides
    theirs: Snapshot | None = None
    ancestors: tuple[CommitRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class _Writing:
    kind: WriterKind
    actor: str
    branch: str
    dry_run: bool


_Prepare = Callable[[Snapshot], _Prepared | None]


@dataclass(slots=True)
class _Merging:
    """One merge under way, and what it found."""

    what: str
    resolution: Resolution
    prepared: _Prepared | None = None
    plan: MergePlan = field(default_factory=MergePlan)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to say: nothing changes, and no history comes together."""
        if self.prepared is None:
            return True
        return self.plan.is_empty and (self.prepared.theirs is None or self.prepared.sides.ours_is_base)

    def run(
        self, root: Location, writing: _Writing, prepare: _Prepare, world: WriteEnvironment | None
    ) -> CommitRecord | None:
        if writing.dry_run:
            self._plan(read_snapshot(root, writing.branch), prepare)
            return None

        def stage(at: StagingArea) -> StagedWrite | None:
            self._plan(at.snapshot, prepare)
            if self.plan.conflicts:
                raise MergeConflictError(self.what, self.plan.conflicts)
            return None if self.is_idle else self._stage(at)

        published = write(root, writing.branch, WriteRequest(writing.kind, writing.actor, stage), world)
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
            TableCounts(one.table.alias, one.row_count, 0, 0) for one in self.plan.added if one.row_count
        ]
        adopted = [TableCounts(table.alias, 0, 0, 0, adopted=True) for table in self.plan.adopted]
        tables = tuple(sorted((*counted, *adopted), key=lambda one: display_order(one.table)))
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
            self.plan = replace(plan, conflicts=with_states(self.prepared.sides, plan.conflicts))

    def _stage(self, at: StagingArea) -> StagedWrite:
        assert self.prepared is not None, "it was planned"
        schema = self.plan.schema
        others = ManifestChange()
        if schema is not None and schema.is_changed:
            effects, others = stage_schema_merge(at, self.plan)
        else:
            effects = stage_plan(at, self.plan)
        theirs = self.prepared.theirs
        counts = {
            "inserted": sum(plan.inserted_rows for plan in self.plan.tables)
            + sum(one.row_count for one in self.plan.added),
            "updated": sum(plan.updated_rows for plan in self.plan.tables),
            "deleted": sum(plan.removed_rows for plan in self.plan.tables),
        }
        draft = CommitDraft(
            at.commit,
            at.kind,
            at.operation,
            at.actor,
            at.clock.now_us(),
            counts,
            merged_parent=None if theirs is None else theirs.head,
            pins=None if theirs is None else pins_of(theirs),
        )
        tables = (*self.plan.adopted, *others.tables)
        extra_changes = replace(others, commit=draft, tables=tables, ancestors=self.prepared.ancestors)
        return at.finish(effects, self.plan.reads, Outcome(counts, extra_changes))


def _joint_lineage(ours: Snapshot, theirs: Snapshot) -> Lineage:
    commits = {commit.id: commit for commit in theirs.manifest.read_commits()}
    commits |= {commit.id: commit for commit in ours.manifest.read_commits()}
    return Lineage(ours.head, commits)


def _missing_commits(ours: Snapshot, lineage: Lineage, theirs: CommitId) -> tuple[CommitRecord, ...]:
    """The commits that theirs descends from and our manifest lacks, oldest first."""
    there = {commit.id for commit in ours.manifest.read_commits()}
    missing = lineage.ancestors(theirs) - there
    return tuple(lineage.commits[commit] for commit in sorted(missing))


def _undone(ours: Snapshot, commit: CommitId) -> tuple[CommitRecord, CommitRecord]:
    lineage = make_lineage(ours.head, ours.manifest.read_commits())
    record = lineage.commits.get(commit)
    if record is None or commit not in lineage.ancestors(ours.head):
        raise NotFoundError(
            f"there is no commit {commit} on branch {ours.branch.name}",
            code="commit_missing",
            hint="pass HEAD, an id or a part of one; `omnigraph commit list` shows the commits of a branch",
            facts={"commit": commit, "branch": ours.branch.name},
        )
    if record.parent is None:
        raise RefusedError(
            f"commit {commit} made the graph and cannot be undone",
            code="commit_is_first",
            hint="revert a later commit",
            facts={"commit": commit},
        )
    return record, lineage.commits[record.parent]
