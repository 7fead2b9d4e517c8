"""Maintenance run: rewrites fragments, builds indexes and strips settings of a branch's tables, as one commit.

In: a graph, a branch, what may be done, a function that runs tasks. Out: `MaintenanceResult`: what was done to each
table, and the commit. No row changes. `optimize` is all of it; ensuring indexes is the part that builds. The driver
plans, workers write files without the branch's lease, and the driver commits all tables at once through the write
path. A table that the branch has not written yet is forked when there is something to do for it, and only then. Rows
that others append, update or delete in between do not invalidate the work (decision 0018). A group that was lost to
another compaction, an overwrite or a schema change is planned again, a bounded number of times; the last attempt
rewrites a bounded part under the lease. A crash leaves unreferenced files, or what recovery publishes.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, assert_never

from omnigraph.base import limits
from omnigraph.base.errors import Applied, ConflictError, OmnigraphError
from omnigraph.base.ids import new_ulid
from omnigraph.base.progress import log_event
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.records import CommitRecord, Pin
from omnigraph.graph.manifest.snapshot import refresh_snapshot
from omnigraph.graph.manifest.stamp import Format
from omnigraph.graph.scratch import Scratch, open_scratch
from omnigraph.graph.write.check import DriftError
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.multi_commit import TableMaintenance
from omnigraph.graph.write.stage import Outcome, StagingArea, WritableTable, discard_fork
from omnigraph.graph.write.states import MultiCommitEffect, StagedWrite
from omnigraph.maintenance.optimize.concurrent_changes import ChangeReads, rebase_group
from omnigraph.maintenance.optimize.index_plan import IndexStatus, IndexWork, NoWork, plan_indexes, still_fits
from omnigraph.maintenance.optimize.indexes import Built, BuiltIndex, IndexOrder, build_indexes
from omnigraph.maintenance.optimize.options import IndexRow
from omnigraph.maintenance.optimize.plan import RunBounds, TableMaintenancePlan, plan_run
from omnigraph.maintenance.optimize.rewrite import (
    Replaced,
    RewriteBounds,
    RewriteTask,
    indexed_numbers,
    indexes_after,
    plan_lease_part,
    rewrite_group,
    split_segments,
)
from omnigraph.maintenance.optimize.tables import TableView, read_views, view_of
from omnigraph.maintenance.optimize.task_result import FailedTask
from omnigraph.pipeline.runner import RunTasks, batches_of, maintenance_concurrency
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.commit import has_auto_cleanup
from omnigraph.storage.lance.compaction import (
    LANCE_SUPPORTS_BLOB_COMPACTION,
    FragmentRewrite,
    Positions,
    clone_rewritten,
    rewrite_fragments,
)
from omnigraph.storage.lance.dataset import Dataset, DatasetVersion
from omnigraph.storage.lance.fragments import Fragment, data_files, read_fragment_files
from omnigraph.storage.lance.indexes import IndexDescription, IndexSpec, Unbuildable, read_indexes
from omnigraph.storage.location import Location


@dataclass(slots=True)
class TableWork:
    """The work on one table, kept over attempts as long as it fits. `dropped` are segments that go before a rewrite.

    `emptied` are fragments that no longer exist because other writers deleted or moved each of their rows.
    """

    target: WritableTable
    strip: bool = False
    groups: tuple[FragmentRewrite, ...] = ()
    dropped: frozenset[str] = frozenset()
    built: dict[IndexSpec, BuiltIndex] = field(default_factory=dict)
    emptied: frozenset[int] = frozenset()
    reads: ChangeReads = field(default_factory=ChangeReads)

    @property
    def is_empty(self) -> bool:
        return not (self.strip or self.groups or self.built)

    def add_group(self, group: FragmentRewrite, first_id: int) -> None:
        """Add a rewritten group; its fragments are numbered from `first_id` on, above those of the groups before."""
        assigned = [fragment.id for other in self.groups for fragment in other.written]
        self.groups = (*self.groups, group.numbered(max([first_id, *(number + 1 for number in assigned)])))

    def can_move_to(self, at: StagingArea, schema_hash: str) -> bool:
        """Whether files written for this table can be committed to it there: same schema, same Lance branch."""
        table = at.snapshot.tables.get(self.target.table.alias)
        return (
            table is not None
            and at.snapshot.schema.hash == schema_hash
            and self.target.forked_from is None
            and (table.owner, table.pin.branch) == (at.snapshot.branch.id, self.target.dataset.branch)
        )

    def look_ahead(self, target: WritableTable) -> None:
        """Read what `move_to` will need for a newer version, without the lease; nothing else happens."""
        replace(self, built=dict(self.built)).move_to(target)

    def move_to(self, target: WritableTable) -> tuple[int, list[IndexSpec]]:
        """Make the work fit a newer version of the table; how many groups, and which indexes, were lost."""
        dataset, after = target.dataset, self.target.dataset.version
        fragments, present = read_fragment_files(dataset), read_indexes(dataset)
        self._find_emptied(dataset, fragments, after)
        self.target = target

        def read_live(source: Any, is_now: bool) -> Positions:
            if is_now:
                return self.reads.live_offsets(fragments[source.id].native, lambda: dataset)
            return self.reads.live_offsets(source, lambda: dataset.at_version(read_versions[source.id]))

        read_versions = {source.id: group.read_version for group in self.groups for source in group.sources}
        highest = max((*fragments, *indexed_numbers(present)), default=-1)
        rebased = (
            rebase_group(group, fragments, self.emptied, read_live)
            for group in self.groups
            if all(fragment.id > highest for fragment in group.written)  # otherwise the numbers are taken
        )
        groups = tuple(group for group in rebased if group is not None)
        lost = len(self.groups) - len(groups)
        split = split_segments(present, tuple(group.old_ids for group in groups))
        if not split <= self.dropped:  # another writer built an index over a part of a group
            lost, groups, split = lost + len(groups), (), frozenset()
        self.groups = groups
        self.dropped = split | _still_dropped(self.dropped, present, groups)
        now, indexes = (
            fragments_after(fragments, groups),
            indexes_after(present, replaced_by(groups), self.dropped),
        )
        unfit = [
            spec
            for spec, built in self.built.items()
            if not still_fits(built.work, built.fragments, now, indexes, self.emptied)
        ]
        for spec in unfit:
            del self.built[spec]
        return lost, unfit

    def _find_emptied(self, dataset: Dataset, now: Mapping[int, Fragment], after: int) -> None:
        """Tell fragments that lost every row from those that were replaced, by what the versions in between did."""
        sources = {source.id for group in self.groups for source in group.sources}
        written = {fragment.id for group in self.groups for fragment in group.written}
        indexed = {number for built in self.built.values() for number in built.fragments}
        missing = (sources | (indexed - written)) - now.keys() - self.emptied
        if missing and self.reads.only_rows_changed(dataset, after):
            self.emptied |= missing


def _still_dropped(
    dropped: frozenset[str], present: Sequence[IndexDescription], groups: Sequence[FragmentRewrite]
) -> frozenset[str]:
    """The segments that were to be dropped for what is left of the groups; indexes were built without them."""
    old_ids = {number for group in groups for number in group.old_ids}
    return frozenset(
        part.uuid
        for index in present
        if index.kind is not IndexKind.BTREE
        for part in index.parts
        if part.uuid in dropped and not part.fragment_ids.isdisjoint(old_ids)
    )


def number_gap(attempts_lost: int) -> int:
    """How many fragments others may add before the numbers of rewritten ones are taken: more in each attempt."""
    return int(limits.COMPACTION_NUMBER_GAP * limits.COMPACTION_NUMBER_GAP_FACTOR**attempts_lost)


def is_in_place(group: FragmentRewrite, now: Mapping[int, Fragment]) -> bool:
    """Whether a group has taken the place of its fragments."""
    there = all(new.id in now and now[new.id].files == data_files(new) for new in group.new)
    return there and now.keys().isdisjoint(group.old_ids)


def replaced_by(groups: Sequence[FragmentRewrite]) -> tuple[Replaced, ...]:
    """The numbers alone."""
    return tuple(Replaced(group.old_ids, group.new_ids) for group in groups)


def fragments_after(now: Mapping[int, Fragment], groups: Sequence[FragmentRewrite]) -> Mapping[int, Fragment]:
    """The fragments when the groups are in place."""
    gone = {number for group in groups for number in group.old_ids}
    after = {number: fragment for number, fragment in now.items() if number not in gone}
    for group in groups:
        for new in group.new:
            size = sum(file.file_size_bytes or 0 for file in new.files)
            live = group.live_rows(new)
            after[new.id] = Fragment(live, data_files(new), new.physical_rows - live, size, native=new)
    return after


def rewrite_lease_part(
    at: StagingArea, work: TableWork | None, view: TableView, bounds: RewriteBounds
) -> TableWork | None:
    """Return the work with one more group; unchanged if there is nothing to merge within the limits.

    A table that this branch does not own is left alone, because it would have to be forked first.
    """
    table = at.snapshot.tables.get(view.alias)
    if table is None or table.owner != at.snapshot.branch.id:
        return work
    grown = work or TableWork(at.writable(view.alias))
    now = view_of(view, grown.target.dataset)
    taken = {number for group in grown.groups for number in group.old_ids}
    taken.update(number for built in grown.built.values() for number in built.fragments)
    free = {number: fragment for number, fragment in now.fragments.items() if number not in taken}
    part = plan_lease_part(free, now.present, bounds)
    if not part:
        return work
    used = (*taken, *grown.emptied, *view.fragments, *now.fragments, *indexed_numbers(now.present))
    rewritten = rewrite_fragments(grown.target.dataset, part, bounds.rows)
    grown.add_group(rewritten, max(used) + limits.COMPACTION_NUMBER_GAP)
    return grown


logger = logging.getLogger("omnigraph.maintenance")


def keep_published(works: Mapping[str, TableWork], commit: CommitRecord) -> Mapping[str, list[IndexSpec]]:
    """Take out of the work on each table what its published version lacks; the tables that lost something by alias,
    each with its lost indexes.
    """
    pins = {move.table: move.after for move in commit.tables}

    def look(entry: tuple[str, TableWork]) -> tuple[str, list[IndexSpec] | None]:
        alias, work = entry
        try:
            return alias, _keep(work, pins.get(work.target.table.id))
        except OmnigraphError as error:
            sentence = f"{alias} is published and could not be looked at again: {error.message}"
            log_event(logger, sentence, level=logging.WARNING, table=alias, code=error.code)
            return alias, None

    with ThreadPoolExecutor(maintenance_concurrency()) as threads:
        return {alias: lost for alias, lost in threads.map(look, works.items()) if lost is not None}


def _keep(work: TableWork, pin: Pin | None) -> list[IndexSpec] | None:
    """The lost indexes, empty when only groups or the strip are lost; None when everything is there."""
    if pin is None:
        lost = list(work.built)
        work.groups, work.strip, work.built = (), False, {}
        return lost
    table = work.target.dataset.at_version(pin.version)
    fragments = read_fragment_files(table)
    parts = frozenset(part.uuid for index in read_indexes(table) for part in index.parts)
    has_settings = has_auto_cleanup(table)
    groups = tuple(group for group in work.groups if is_in_place(group, fragments))
    lost = [spec for spec, one in work.built.items() if not parts.issuperset(one.uuids)]
    is_whole = len(groups) == len(work.groups) and not lost and not (work.strip and has_settings)
    work.groups, work.strip = groups, work.strip and not has_settings
    for spec in lost:
        del work.built[spec]
    return None if is_whole else lost


@dataclass(slots=True)
class TableSeconds:
    """The seconds of a run, by alias."""

    _spent: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def of(self, alias: str) -> float:
        """What a table took so far."""
        return self._spent[alias]

    def add(self, alias: str, seconds: float) -> None:
        """What a worker says it took."""
        self._spent[alias] += seconds

    @contextmanager
    def clocked(self, alias: str) -> Iterator[None]:
        """What is done within the block counts."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(alias, time.perf_counter() - started)

    def committing(self, alias: str, effect: MultiCommitEffect) -> MultiCommitEffect:
        """The same effect, whose commit counts as work on its table."""

        def run(handle: Dataset, hold: Callable[[], None]) -> Dataset:
            with self.clocked(alias):
                return effect.run(handle, hold)

        return replace(effect, run=run)


@dataclass(frozen=True, slots=True)
class TableResult:
    """One table: as it was, what was planned, what of it is published, what was lost to others, or why it failed.

    `seconds` is the work on it alone, that of its tasks added up.
    """

    before: TableView | None
    plan: TableMaintenancePlan | None
    work: TableWork | None
    has_conflict: bool
    error: OmnigraphError | None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """What a run did. `tables` and `indexes` are in the order of the schema; `drifted` are heads by alias."""

    tables: Mapping[str, TableResult]
    indexes: tuple[IndexRow, ...]
    commit: CommitRecord | None
    drifted: Mapping[str, DriftError]


Result = TypeVar("Result")

CONFLICT = "other writers replaced the fragments it was built over"


@dataclass(frozen=True, slots=True)
class MaintenanceRequest:
    """What to do: by whom, to which types by name or alias (None: all), and with `rewrite` also compaction and strip.

    `left_alone` are tables with drift. With `isolated` a table that fails is reported and the others go on.
    """

    kind: WriterKind
    actor: str
    types: frozenset[str] | None = None
    rewrite: RewriteBounds | None = None
    tasks_max: int | None = None
    rows_per_index_task: int = limits.INDEX_ROWS_PER_TASK
    blobs_compact: bool = LANCE_SUPPORTS_BLOB_COMPACTION
    left_alone: frozenset[str] = frozenset()
    isolated: bool = False


def run_maintenance(
    root: Location,
    branch: str,
    run_tasks: RunTasks,
    upkeep: MaintenanceRequest,
    world: WriteEnvironment | None = None,
) -> MaintenanceResult:
    """Do what the tables need, as at most one commit."""
    run = _MaintenanceRun(run_tasks, upkeep, (world or WriteEnvironment()).rules)
    request = WriteRequest(upkeep.kind, upkeep.actor, run.stage, run.restage)
    while True:  # ends, because the last attempt leaves out what was lost, and a table drifts once
        try:
            published = write(root, branch, request, world)
        except _WorkLostError:
            continue
        except DriftError as drift:
            if not run.leave_alone(drift):
                raise
            continue
        return run.outcome(None if published is None else published.publication.commit)


class _WorkLostError(ConflictError):
    """Something that was built does not fit any more; it is planned again, without the lease."""

    applied = Applied.NO


class _MaintenanceRun:
    """One run. What was done is kept over attempts, as long as it fits."""

    def __init__(self, run_tasks: RunTasks, upkeep: MaintenanceRequest, rules: Format) -> None:
        self._run_tasks = run_tasks
        self._upkeep = upkeep
        self._rules = rules
        self._attempts_left = limits.UPKEEP_ATTEMPTS_MAX
        self._views: dict[str, TableView] = {}
        self._plans: dict[str, TableMaintenancePlan] = {}
        self._works: dict[str, TableWork] = {}
        self._errors: dict[str, OmnigraphError] = {}
        self._conflicts: set[str] = set()
        self._rows: dict[tuple[str, IndexSpec], IndexRow] = {}
        self._drifted: dict[str, DriftError] = {}
        self._schema_hash = ""
        self._began: float | None = None
        self._seconds = TableSeconds()

    def outcome(self, commit: CommitRecord | None) -> MaintenanceResult:
        self._keep_published(commit)
        aliases = dict.fromkeys((*self._views, *self._errors))
        tables = {
            alias: TableResult(
                self._views.get(alias),
                self._plans.get(alias),
                self._works.get(alias),
                alias in self._conflicts,
                self._errors.get(alias),
                self._seconds.of(alias),
            )
            for alias in aliases
        }
        return MaintenanceResult(tables, tuple(self._rows.values()), commit, self._drifted)

    def _keep_published(self, commit: CommitRecord | None) -> None:
        """Tell only what is published: a foreign change that landed first may have taken its place."""
        lost = {} if commit is None else keep_published(self._works, commit)
        for alias, specs in lost.items():
            self._conflicts.add(alias)
            for spec in specs:
                self._skip(alias, spec)
            if self._works[alias].is_empty:
                del self._works[alias]

    def leave_alone(self, drift: DriftError) -> bool:
        """Go on without a table that a foreign tool changed meanwhile; False when that cannot be."""
        alias = str(drift.facts.get("table"))
        if not self._upkeep.isolated or alias in self._drifted:
            return False
        self._drifted[alias] = drift
        self._discard(alias)
        return True

    def stage(self, at: StagingArea) -> StagedWrite | None:
        self._began = at.began if self._began is None else self._began
        at = replace(at, began=self._began)  # of what was kept from an earlier attempt
        self._attempts_left -= 1
        self._conflicts.clear()
        self._drop_unfit(at)
        self._schema_hash = at.snapshot.schema.hash
        isolated = self._upkeep.isolated
        views = read_views(at, self._upkeep.types, self._fail if isolated else None)
        self._views = {view.alias: view for view in views}
        alone = self._upkeep.left_alone | self._drifted.keys() | self._errors.keys()
        wanted = [view for view in views if view.alias not in alone]
        done = False
        try:
            self._work(at, wanted)
            self._look_ahead(at)
            done = True
        finally:
            if not done:
                for alias in tuple(self._works):
                    self._discard(alias)
        return self._finish(at)

    def restage(self, at: StagingArea, _: StagedWrite) -> StagedWrite | None:
        """Under the lease: keep what fits. Lost work is planned again; the last attempt does a bounded part here."""
        lost = self._drop_unfit(at)
        if lost and self._attempts_left:
            raise _WorkLostError("fragments were replaced during the run", code="upkeep_work_lost")
        for alias, spec in lost:
            if spec is not None:
                self._skip(alias, spec)
            else:
                self._rewrite_under_lease(at, alias)
        done = {alias for alias, work in self._works.items() if not work.is_empty}
        self._conflicts.update({alias for alias, _ in lost} - done)
        return self._finish(at)

    def _skip(self, alias: str, spec: IndexSpec) -> None:
        self._rows[alias, spec] = IndexRow(
            alias, spec.column, spec.kind, IndexStatus.SKIPPED, f"ConflictingWrites: {CONFLICT}"
        )

    def _work(self, at: StagingArea, views: Sequence[TableView]) -> None:
        upkeep = self._upkeep
        bounds = RunBounds(
            upkeep.rewrite, upkeep.rows_per_index_task, upkeep.tasks_max, blobs_compact=upkeep.blobs_compact
        )
        kept = {alias: work.groups for alias, work in self._works.items()}
        self._plans = {plan.alias: plan for plan in plan_run(views, kept, bounds)}
        for view in views:
            plan = self._plans[view.alias]
            if plan.gated:
                sentence = f"{view.alias} is not compacted: Lance cannot compact its blobs"
                log_event(logger, sentence, level=logging.WARNING, table=view.alias)
            if plan.has_work and view.alias not in self._works:
                self._isolated(view.alias, lambda: self._open(at, view))  # noqa: B023  # called at once
        self._rows = {}
        busy = [view for view in views if view.alias in self._works]
        idle = [view for view in views if view.alias not in self._works]
        with open_scratch(at.snapshot.root) as scratch:
            for tables in batches_of(busy, maintenance_concurrency()):
                self._rewrite(tables)
                self._build(at, tables, scratch)
            self._build(at, idle, scratch)
        order = {view.alias: place for place, view in enumerate(views)}
        self._rows = dict(sorted(self._rows.items(), key=lambda row: order[row[0][0]]))

    def _open(self, at: StagingArea, view: TableView) -> None:
        self._works[view.alias] = TableWork(at.keep_fork(view.alias), strip=self._plans[view.alias].strip)

    def _rewrite(self, views: Sequence[TableView]) -> None:
        bounds = self._upkeep.rewrite
        if bounds is None:
            return
        planned = [
            (view, group)
            for view in views
            for group in self._plans[view.alias].groups
            if view.alias in self._works
        ]
        tasks = [
            RewriteTask(
                DatasetVersion.of(self._works[view.alias].target.dataset),
                group,
                sum(view.fragments[number].rows for number in group),
                bounds.rows,
            )
            for view, group in planned
        ]
        outcomes = self._run_tasks(rewrite_group, tasks) if tasks else ()
        for (view, _), outcome in zip(planned, outcomes, strict=True):
            result = outcome.result
            self._seconds.add(view.alias, outcome.seconds)
            if isinstance(result, FailedTask):
                self._fail(view.alias, result.error)
            elif view.alias in self._works:
                work = self._works[view.alias]
                used = (*view.fragments, *indexed_numbers(view.present))
                work.add_group(
                    result, max(used) + number_gap(limits.UPKEEP_ATTEMPTS_MAX - 1 - self._attempts_left)
                )

    def _look_ahead(self, at: StagingArea) -> None:
        """Read now what others did during the work, so that little is left to read under the lease."""
        now = replace(at, snapshot=refresh_snapshot(at.snapshot, self._rules))
        for alias, work in tuple(self._works.items()):
            if work.can_move_to(now, self._schema_hash) and now.table(alias).pin != work.target.table.pin:
                self._isolated(alias, lambda: work.look_ahead(now.writable(alias)))  # noqa: B023  # called at once

    def _rewrite_under_lease(self, at: StagingArea, alias: str) -> None:
        """Rewrite a bounded part of a table whose groups were lost in every attempt, if there is one."""
        view, bounds = self._views.get(alias), self._upkeep.rewrite
        if view is None or bounds is None or alias in self._errors:
            return
        if view.has_blobs and not self._upkeep.blobs_compact:
            return
        work = self._isolated(alias, lambda: rewrite_lease_part(at, self._works.get(alias), view, bounds))
        if work is not None:
            self._works[alias] = work

    def _workplace(self, at: StagingArea, view: TableView, scratch: Scratch) -> TableView | None:
        """The table as it will be after the rewrite: where its indexes are built. None when it is left alone."""
        work = self._works.get(view.alias)
        if view.alias in self._errors or (work is None and self._plans[view.alias].has_work):
            return None
        if work is None or not work.groups:
            return view
        work.dropped = split_segments(view.present, tuple(group.old_ids for group in work.groups))
        place = scratch.location.child(f"clone-{new_ulid()}")

        def clone() -> TableView:
            work.groups = tuple(at.masked(work.target, group) for group in work.groups)
            return view_of(view, clone_rewritten(work.target.dataset, place, work.groups, work.dropped))

        return self._isolated(view.alias, clone)

    def _build(self, at: StagingArea, views: Sequence[TableView], scratch: Scratch) -> None:
        places = [place for view in views if (place := self._workplace(at, view, scratch)) is not None]
        orders: list[IndexOrder] = []
        for view in places:
            work, plan = self._works.get(view.alias), self._plans[view.alias]
            for planned in plan_indexes(view.indexes, self._upkeep.rows_per_index_task):
                kept = None if work is None else work.built.get(planned.spec)
                if kept is not None and isinstance(planned, IndexWork):
                    uncovered = set(planned.fragment_ids) - kept.fragments.keys()
                    kept = None if uncovered else kept
                self._rows[view.alias, planned.spec] = _row(planned) if kept is None else kept.row
                if kept is None and isinstance(planned, IndexWork) and work is not None and plan.indexes:
                    own = work.target.dataset
                    is_clone = view.dataset.location != own.location
                    readable = view if is_clone else _view_at(view, work)
                    orders.append(IndexOrder(readable, planned, DatasetVersion.of(own) if is_clone else None))
        rows_max = self._upkeep.rows_per_index_task
        finished = build_indexes(orders, self._run_tasks, rows_max, self._seconds.add)
        for order, built in zip(orders, finished, strict=True):
            self._collect(order, built)

    def _collect(self, order: IndexOrder, built: Built) -> None:
        alias, spec = order.view.alias, order.work.spec
        match built:
            case FailedTask():
                self._fail(alias, built.error)
            case BuiltIndex():
                self._rows[alias, spec] = built.row
                if alias in self._works:
                    self._works[alias].built[spec] = built
            case Unbuildable(reason=reason):
                self._rows[alias, spec] = _row(NoWork(alias, spec, IndexStatus.SKIPPED, reason))
            case _:
                assert_never(built)

    def _drop_unfit(self, at: StagingArea) -> list[tuple[str, IndexSpec | None]]:
        """Move what was done onto the tables as they are now; forget, and tell, what does not fit them."""
        lost: list[tuple[str, IndexSpec | None]] = []
        same_schema = self._schema_hash == at.snapshot.schema.hash
        for alias, work in tuple(self._works.items()):
            target = work.target
            now = at.snapshot.tables.get(alias)
            if now is not None and now.pin == target.table.pin and same_schema:
                continue
            if not work.can_move_to(at, self._schema_hash):
                lost += [(alias, spec) for spec in work.built]
                lost += [(alias, None)] if work.groups else []
                self._discard(alias)
                continue
            groups, specs = work.move_to(at.writable(alias))
            lost += [(alias, None)] * bool(groups) + [(alias, spec) for spec in specs]
        return lost

    def _finish(self, at: StagingArea) -> StagedWrite | None:
        for alias in [alias for alias, work in self._works.items() if work.is_empty]:
            self._discard(alias)
        if not self._works:
            return None
        effects = tuple(
            self._seconds.committing(alias, _effect(at, work)) for alias, work in self._works.items()
        )
        counts = {
            "indexes": sum(len(work.built) for work in self._works.values()),
            "fragments_removed": sum(len(g.old) for work in self._works.values() for g in work.groups),
            "fragments_added": sum(len(g.new) for work in self._works.values() for g in work.groups),
        }
        named = {name: count for name, count in counts.items() if count or name == "indexes"}
        return at.finish(effects, frozenset(), Outcome(named))

    def _discard(self, alias: str) -> None:
        work = self._works.pop(alias, None)
        if work is not None:
            discard_fork(work.target)

    def _fail(self, alias: str, error: OmnigraphError) -> None:
        """End the work on one table; raise when the others must not go on without it."""
        if not self._upkeep.isolated:
            raise error
        if alias not in self._errors:
            self._errors[alias] = error
            sentence = f"{alias} is left as it is: {error.message}"
            log_event(logger, sentence, level=logging.WARNING, in_result=True, table=alias, code=error.code)
        self._discard(alias)

    def _isolated(self, alias: str, run: Callable[[], Result]) -> Result | None:
        try:
            with self._seconds.clocked(alias):
                return run()
        except OmnigraphError as error:
            self._fail(alias, error)
            return None


def _view_at(view: TableView, work: TableWork) -> TableView:
    """The table where this branch may write it: a fork reads the same, but its files are its own."""
    return TableView(view.alias, work.target.dataset, view.fragments, view.declared, view.present)


def _effect(at: StagingArea, work: TableWork) -> MultiCommitEffect:
    segments = {spec: one.segments for spec, one in work.built.items()}
    dropped = work.dropped if work.groups else frozenset[str]()
    return at.maintenance_effect(work.target, TableMaintenance(work.strip, dropped, work.groups, segments))


def _row(planned: IndexWork | NoWork) -> IndexRow:
    reason = planned.reason if isinstance(planned, NoWork) else ""
    spec = planned.spec
    return IndexRow(planned.alias, spec.column, spec.kind, planned.status, reason)
