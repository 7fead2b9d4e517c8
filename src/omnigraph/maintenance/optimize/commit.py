"""Rewrites fragments, builds indexes and removes settings of the tables of a branch, as one commit. Changes no row.

In: a graph, a branch, a `MaintenanceRequest` and a function that runs tasks. Out: a `MaintenanceResult` with one
`TableResult` per table. Workers write files without the branch's lease; then the driver commits all tables through the
write path. Rows that others write at the same time do not invalidate it (decision 0018). Work that another compaction,
an overwrite or a schema change invalidates is planned again, at most `MAINTENANCE_ATTEMPTS_MAX` times; the last attempt
rewrites a bounded part under the lease. A crash leaves unreferenced files, or a commit that recovery publishes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from omnigraph.base import limits
from omnigraph.base.errors import Applied, ConflictError, OmnigraphError
from omnigraph.base.ids import new_ulid
from omnigraph.base.progress import log_event
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.scratch import Scratch, open_scratch
from omnigraph.graph.write.check import DriftError
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea, discard_fork
from omnigraph.graph.write.states import MultiCommitEffect, StagedWrite
from omnigraph.maintenance.optimize.index_plan import IndexStatus, plan_indexes
from omnigraph.maintenance.optimize.indexes import IndexBuild, build_indexes
from omnigraph.maintenance.optimize.options import IndexRow
from omnigraph.maintenance.optimize.plan import MaintenanceRequest, TableMaintenancePlan, plan_run
from omnigraph.maintenance.optimize.rewrite import RewriteTask, indexed_fragment_ids, rewrite_group, split_segments
from omnigraph.maintenance.optimize.table_work import TableWork, rewrite_under_lease
from omnigraph.maintenance.optimize.tables import TableView, read_views, reread_view
from omnigraph.maintenance.optimize.task_result import FailedTask
from omnigraph.pipeline.runner import RunTasks, batches_of, in_threads, maintenance_concurrency
from omnigraph.storage.lance.compaction import clone_rewritten
from omnigraph.storage.lance.dataset import Dataset, DatasetVersion
from omnigraph.storage.lance.indexes import IndexSpec
from omnigraph.storage.location import Location

logger = logging.getLogger("omnigraph.maintenance")

Result = TypeVar("Result")

_INDEX_CONFLICT = "ConflictingWrites: other writers replaced the fragments that the index covers"


@dataclass(frozen=True, slots=True)
class PublishedWork:
    """The work on a table that a commit published, and the table before it."""

    commit: CommitRecord
    view: TableView
    work: TableWork


@dataclass(slots=True, kw_only=True)
class TableResult:
    """One table of a run. Its fields are filled while the run plans, works and commits.

    `view` is the table before the newest commit; None: it could not be read. `work` is what is done and not published
    yet. `has_conflict`: other writers replaced what was rewritten. `seconds` sums the work on this table and its tasks.
    """

    alias: str
    view: TableView | None = None
    plan: TableMaintenancePlan | None = None
    work: TableWork | None = None
    published: list[PublishedWork] = field(default_factory=list)
    indexes: dict[IndexSpec, IndexRow] = field(default_factory=dict)
    has_conflict: bool = False
    drift: DriftError | None = None
    error: OmnigraphError | None = None
    seconds: float = 0.0

    @property
    def is_finished(self) -> bool:
        """Whether later commits must skip the table."""
        return self.has_conflict or self.drift is not None or self.error is not None

    def skip_index(self, spec: IndexSpec, reason: str) -> None:
        """Report an index as not built."""
        self.indexes[spec] = IndexRow(
            table_key=self.alias, property=spec.column, kind=spec.kind, status=IndexStatus.SKIPPED, reason=reason
        )

    def discard_work(self) -> None:
        """Forget the work and delete the fork that was created for it."""
        if self.work is not None:
            discard_fork(self.work.target)
            self.work = None

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Add the time of the block to the seconds of the table."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started

    def measure_commit(self, effect: MultiCommitEffect) -> MultiCommitEffect:
        """Return the same effect, whose commit counts as work on this table."""

        def run(handle: Dataset, hold: Callable[[], None]) -> Dataset:
            with self.measure():
                return effect.run(handle, hold)

        return replace(effect, run=run)


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """What a run did to each table, in the order of the schema. `commit` is the newest; None: nothing was done."""

    tables: Mapping[str, TableResult]
    commit: CommitRecord | None

    @property
    def indexes(self) -> tuple[IndexRow, ...]:
        return tuple(row for table in self.tables.values() for row in table.indexes.values())


def run_maintenance(
    root: Location,
    branch: str,
    run_tasks: RunTasks,
    request: MaintenanceRequest,
    environment: WriteEnvironment | None = None,
) -> MaintenanceResult:
    """Do the work that the tables need, as at most one commit, or with `partial_progress` as several."""
    run = _MaintenanceRun(
        run_tasks=run_tasks,
        request=request,
        environment=environment or WriteEnvironment(),
        tasks_left=request.tasks_max,
    )
    newest: CommitRecord | None = None
    for _ in range(limits.OPTIMIZE_COMMITS_MAX if request.partial_progress else 1):
        commit = run.commit(root, branch)
        newest = commit or newest
        if commit is None or not run.has_more:
            break
    return MaintenanceResult(run.tables, newest)


class _WorkLostError(ConflictError):
    """Finished work does not fit the table any more; it is planned again, without the lease."""

    applied = Applied.NO


@dataclass(slots=True, kw_only=True)
class _MaintenanceRun:
    """One run. Finished work is kept over the attempts of a commit, as long as it fits.

    `tasks_left` bounds the tasks of the whole run. `ended` are the tables that later commits leave unchanged.
    """

    run_tasks: RunTasks
    request: MaintenanceRequest
    environment: WriteEnvironment
    tasks_left: int | None
    attempts_left: int = 0
    all_tables: dict[str, TableResult] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    schema_hash: str = ""
    began: float | None = None
    has_more: bool = False

    @property
    def tables(self) -> Mapping[str, TableResult]:
        """The tables that were read, or whose error is reported."""
        return {
            alias: table
            for alias, table in self.all_tables.items()
            if table.view is not None or table.error is not None
        }

    @property
    def _working(self) -> list[tuple[TableResult, TableWork]]:
        return [(table, table.work) for table in self.all_tables.values() if table.work is not None]

    def commit(self, root: Location, branch: str) -> CommitRecord | None:
        """Do work and publish it as one commit; None if there is nothing to do."""
        self.attempts_left, self.began = limits.MAINTENANCE_ATTEMPTS_MAX, None
        write_request = WriteRequest(
            kind=self.request.kind, actor=self.request.actor, stage=self.stage, restage=self.restage
        )
        while True:  # ends: the last attempt leaves out what was lost, and a table is skipped for drift only once
            try:
                commit = write(root, branch, write_request, self.environment)
                break
            except _WorkLostError:
                continue
            except DriftError as drift:
                if not self.skip_drifted(drift):
                    raise
        if commit is not None:
            in_threads(lambda table: _finish_work(table, commit), list(self.all_tables.values()))
        self._finish_plans()
        return commit

    def _finish_plans(self) -> None:
        """Note how many tasks are left, and which tables have ended."""
        plans = [(table, table.plan) for table in self.all_tables.values() if table.plan is not None]
        if self.tasks_left is not None:  # a table that only builds indexes counts as one task
            self.tasks_left -= sum(len(plan.groups) or plan.builds_indexes for _, plan in plans)
        is_bounded = self.tasks_left is not None and self.tasks_left <= 0
        self.has_more = not is_bounded and any(plan.has_more for table, plan in plans if not table.is_finished)
        self.ended = frozenset(table.alias for table in self.all_tables.values() if table.is_finished)
        for alias in self.ended:
            self.all_tables[alias].plan = None

    def skip_drifted(self, drift: DriftError) -> bool:
        """Continue without a table that an external tool changed during the run; False if that is not possible."""
        table = self._table(str(drift.facts.get("table")))
        if not self.request.isolated or table.drift is not None:
            return False
        table.drift = drift
        table.discard_work()
        return True

    def stage(self, area: StagingArea) -> StagedWrite | None:
        self.began = area.began if self.began is None else self.began
        area = replace(area, began=self.began)  # work of an earlier attempt began earlier
        self.attempts_left -= 1
        for table in self.all_tables.values():
            table.has_conflict = table.has_conflict and table.alias in self.ended
        self._move_work(area)
        self.schema_hash = area.snapshot.schema.hash
        views = self._read_views(area)
        with ExitStack() as on_failure:
            for table in self.all_tables.values():
                on_failure.callback(table.discard_work)
            self._do_work(area, views)
            self._prefetch_changes(area)
            on_failure.pop_all()
        return self._stage_work(area)

    def restage(self, area: StagingArea, _: StagedWrite) -> StagedWrite | None:
        """Keep what fits, under the lease. Lost work is planned again; the last attempt does a bounded part here."""
        lost_work = self._move_work(area)
        if lost_work and self.attempts_left:
            raise _WorkLostError("fragments were replaced during the run", code="maintenance_work_lost")
        for table, spec in lost_work:
            if spec is not None:
                table.skip_index(spec, _INDEX_CONFLICT)
            else:
                self._rewrite_under_lease(area, table)
        for table, _spec in lost_work:
            table.has_conflict = table.has_conflict or table.work is None or table.work.is_empty
        return self._stage_work(area)

    def _table(self, alias: str) -> TableResult:
        return self.all_tables.setdefault(alias, TableResult(alias=alias))

    def _read_views(self, area: StagingArea) -> list[TableView]:
        """Read the requested tables; return those to work on."""
        request = self.request
        views = read_views(area.snapshot, request.types, self._fail if request.isolated else None)
        for table in self.all_tables.values():
            if table.alias not in self.ended:
                table.view, table.plan, table.indexes = None, None, {}
        in_order = {view.alias: self._table(view.alias) for view in views}
        self.all_tables = in_order | {alias: table for alias, table in self.all_tables.items() if alias not in in_order}
        for view in views:
            if view.alias not in self.ended:
                in_order[view.alias].view = view
        return [view for view in views if view.alias not in request.skipped and not in_order[view.alias].is_finished]

    def _do_work(self, area: StagingArea, views: Sequence[TableView]) -> None:
        finished_groups = {table.alias: work.groups for table, work in self._working}
        tasks_max = self.tasks_left
        if self.request.partial_progress:
            tasks_max = min(limits.OPTIMIZE_GROUP_TASKS, tasks_max or limits.OPTIMIZE_GROUP_TASKS)
        request = replace(self.request, tasks_max=tasks_max)
        for view, plan in zip(views, plan_run(views, finished_groups, request), strict=True):
            table = self.all_tables[view.alias]
            table.plan = plan
            if plan.has_unsupported_blobs:
                sentence = f"{view.alias} is not compacted: Lance cannot compact its blobs"
                log_event(logger, sentence, level=logging.WARNING, table=view.alias)
            if plan.has_work and table.work is None:
                table.work = self._isolated(
                    table,
                    lambda: TableWork(target=area.keep_fork(view.alias), strip=plan.strip),  # noqa: B023  # called here
                )
        busy = [view for view in views if self.all_tables[view.alias].work is not None]
        idle = [view for view in views if self.all_tables[view.alias].work is None]
        with open_scratch(area.snapshot.root) as scratch:
            for batch in batches_of(busy, maintenance_concurrency()):
                self._rewrite(batch)
                self._build_indexes(area, batch, scratch)
            self._build_indexes(area, idle, scratch)

    def _rewrite(self, views: Sequence[TableView]) -> None:
        bounds = self.request.rewrite
        if bounds is None:
            return
        planned: list[TableView] = []
        tasks: list[RewriteTask] = []
        for view in views:
            table = self.all_tables[view.alias]
            if table.plan is None or table.work is None:
                continue
            version = DatasetVersion.of(table.work.target.dataset)
            for group in table.plan.groups:
                planned.append(view)
                rows = sum(view.fragments[number].rows for number in group)
                tasks.append(
                    RewriteTask(
                        table=version,
                        fragment_ids=group,
                        rows=rows,
                        size_bytes=view.size_of(group),
                        rows_per_fragment=bounds.rows,
                    )
                )
        outcomes = self.run_tasks(rewrite_group, tasks) if tasks else ()
        for view, outcome in zip(planned, outcomes, strict=True):
            table, result = self.all_tables[view.alias], outcome.result
            table.seconds += outcome.seconds
            if isinstance(result, FailedTask):
                self._fail(view.alias, result.error)
            elif table.work is not None:
                used_ids = (*view.fragments, *indexed_fragment_ids(view.present))
                table.work.add_group(result, max(used_ids) + self._number_gap())

    def _number_gap(self) -> int:
        """Return how many fragments other writers can add before they use the ids of the rewritten ones."""
        attempts_lost = limits.MAINTENANCE_ATTEMPTS_MAX - 1 - self.attempts_left
        return int(limits.COMPACTION_NUMBER_GAP * limits.COMPACTION_NUMBER_GAP_FACTOR**attempts_lost)

    def _build_indexes(self, area: StagingArea, views: Sequence[TableView], scratch: Scratch) -> None:
        rows_max = self.request.rows_per_index_task
        rewritten = [self._rewritten_view(area, view, scratch) for view in views]
        builds = [
            build
            for view in rewritten
            if view is not None
            for build in _start_builds(self.all_tables[view.alias], view, rows_max)
        ]
        build_indexes(builds, self.run_tasks, rows_max)
        for build in builds:
            table, spec, failure = self.all_tables[build.view.alias], build.work.spec, build.failure
            table.seconds += build.seconds
            if isinstance(failure, FailedTask):
                self._fail(table.alias, failure.error)
            elif failure is not None:
                table.skip_index(spec, failure.reason)
            else:
                table.indexes[spec] = build.row
                if table.work is not None:
                    table.work.built[spec] = build

    def _rewritten_view(self, area: StagingArea, view: TableView, scratch: Scratch) -> TableView | None:
        """Return the table as it will be after the rewrite, where its indexes are built; None: build none."""
        table = self.all_tables[view.alias]
        work = table.work
        if table.error is not None or (work is None and table.plan is not None and table.plan.has_work):
            return None
        if work is None or not work.groups:
            return view
        work.dropped = split_segments(view.present, tuple(group.old_ids for group in work.groups))
        location = scratch.location.child(f"clone-{new_ulid()}")

        def clone() -> TableView:
            work.groups = tuple(area.write_deletion_files(work.target, group) for group in work.groups)
            dataset = clone_rewritten(work.target.dataset, location, work.groups, work.dropped)
            return reread_view(view, dataset)

        return self._isolated(table, clone)

    def _prefetch_changes(self, area: StagingArea) -> None:
        """Read the changes of other writers now, so that little is left to read under the lease."""
        branch, storage_format = area.snapshot.branch.name, self.environment.storage_format
        current_area = replace(area, snapshot=read_snapshot(area.snapshot.root, branch, storage_format=storage_format))
        for table, work in self._working:
            if (
                work.can_move_to(current_area, self.schema_hash)
                and current_area.table(table.alias).pin != work.target.table.pin
            ):
                self._isolated(table, lambda: work.prefetch_changes(current_area.open_for_write(table.alias)))  # noqa: B023  # called here

    def _move_work(self, area: StagingArea) -> list[tuple[TableResult, IndexSpec | None]]:
        """Move the work onto the tables as they are now.

        Returns:
            What does not fit: indexes, and None for groups. It is discarded.
        """
        lost_work: list[tuple[TableResult, IndexSpec | None]] = []
        is_same_schema = self.schema_hash == area.snapshot.schema.hash
        for table, work in self._working:
            current = area.snapshot.tables.get(table.alias)
            if current is not None and current.pin == work.target.table.pin and is_same_schema:
                continue
            if work.can_move_to(area, self.schema_hash):
                groups, specs = work.move_to(area.open_for_write(table.alias))
            else:
                groups, specs = len(work.groups), list(work.built)
                table.discard_work()
            lost_work += [(table, spec) for spec in specs]
            if groups:
                lost_work.append((table, None))
        return lost_work

    def _rewrite_under_lease(self, area: StagingArea, table: TableResult) -> None:
        """Rewrite a bounded part of a table whose groups were lost in every attempt, if there is one."""
        view, rewrite = table.view, self.request.rewrite
        if view is None or rewrite is None or table.error is not None:
            return
        if view.has_blobs and not self.request.blobs_compact:
            return
        work = self._isolated(table, lambda: rewrite_under_lease(area, table.work, view, rewrite))
        table.work = work or table.work

    def _stage_work(self, area: StagingArea) -> StagedWrite | None:
        for table, work in self._working:
            if work.is_empty:
                table.discard_work()
        working = self._working
        if not working:
            return None
        effects = tuple(
            table.measure_commit(area.maintenance_effect(work.target, work.changes)) for table, work in working
        )
        groups = [group for _, work in working for group in work.groups]
        counts = {"indexes": sum(len(work.built) for _, work in working)}
        fragments = {
            "fragments_removed": sum(len(group.old) for group in groups),
            "fragments_added": sum(len(group.new) for group in groups),
        }
        counts |= {name: count for name, count in fragments.items() if count}
        return area.finish(effects, frozenset(), counts)

    def _fail(self, alias: str, error: OmnigraphError) -> None:
        """End the work on one table; raise if the others must not continue without it."""
        if not self.request.isolated:
            raise error
        table = self._table(alias)
        if table.error is None:
            table.error = error
            sentence = f"{alias} was not changed: {error.message}"
            log_event(logger, sentence, level=logging.WARNING, in_result=True, table=alias, code=error.code)
        table.discard_work()

    def _isolated(self, table: TableResult, run: Callable[[], Result]) -> Result | None:
        try:
            with table.measure():
                return run()
        except OmnigraphError as error:
            self._fail(table.alias, error)
            return None


def _start_builds(table: TableResult, view: TableView, rows_max: int) -> Iterator[IndexBuild]:
    """Yield a build for each index to build, and note the state of the others. `view` may be a clone."""
    work, plan = table.work, table.plan
    for planned in plan_indexes(view.indexes, rows_max):
        spec = planned.spec
        built = None if work is None else work.built.get(spec)
        if built is not None and built.fragments.keys() >= set(planned.fragment_ids):
            table.indexes[spec] = built.row
            continue
        table.indexes[spec] = IndexRow(
            table_key=table.alias, property=spec.column, kind=spec.kind, status=planned.status, reason=planned.reason
        )
        if planned.fragment_ids and work is not None and plan is not None and plan.builds_indexes:
            own = work.target.dataset
            is_clone = view.dataset.location != own.location
            # A fork has the same rows as the table that it was created from, but its own files.
            readable = view if is_clone else replace(view, dataset=own)
            yield IndexBuild(view=readable, work=planned, owner=DatasetVersion.of(own) if is_clone else None)


def _finish_work(table: TableResult, commit: CommitRecord) -> None:
    """Report only published work: an external change that was committed first may have replaced it."""
    view, work, table.work = table.view, table.work, None
    if work is None or view is None:
        return
    lost_indexes: list[IndexSpec] | None = None
    pins = {move.table: move.after for move in commit.tables}
    try:
        lost_indexes = work.remove_unpublished(pins.get(work.target.table.id))
    except OmnigraphError as error:
        sentence = f"{table.alias} was published, but its new version could not be read: {error.message}"
        log_event(logger, sentence, level=logging.WARNING, table=table.alias, code=error.code)
    if lost_indexes is not None:
        table.has_conflict = True
        for spec in lost_indexes:
            table.skip_index(spec, _INDEX_CONFLICT)
    if not work.is_empty:
        table.published.append(PublishedWork(commit, view, work))
