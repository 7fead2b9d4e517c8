"""Maintenance run: rewrites fragments, builds indexes and strips settings of a branch's tables, as one commit.

In: a graph, a branch, a `MaintenanceRequest`, a function that runs tasks. Out: `MaintenanceResult`: one `TableResult`
per table, and the commit. No row changes. The driver plans, workers write files without the branch's lease, and the
driver commits all tables together through the write path. A table of another branch is forked only if there is work for
it. Rows that others append, update or delete do not invalidate the work (decision 0018). A group that was lost to
another compaction, an overwrite or a schema change is planned again, at most `MAINTENANCE_ATTEMPTS_MAX` times; the last
attempt rewrites a bounded part under the lease. A crash leaves unreferenced files, or a commit that recovery publishes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar, assert_never

from omnigraph.base import limits
from omnigraph.base.errors import Applied, ConflictError, OmnigraphError
from omnigraph.base.ids import new_ulid
from omnigraph.base.progress import log_event
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.graph.manifest.snapshot import refresh_snapshot
from omnigraph.graph.manifest.stamp import Format
from omnigraph.graph.scratch import Scratch, open_scratch
from omnigraph.graph.write.check import DriftError
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea, discard_fork
from omnigraph.graph.write.states import MultiCommitEffect, StagedWrite
from omnigraph.maintenance.optimize.index_plan import IndexStatus, IndexWork, NoWork, plan_indexes
from omnigraph.maintenance.optimize.indexes import BuiltIndex, IndexOrder, IndexResult, build_indexes
from omnigraph.maintenance.optimize.options import IndexRow
from omnigraph.maintenance.optimize.plan import RunBounds, TableMaintenancePlan, plan_run
from omnigraph.maintenance.optimize.rewrite import RewriteTask, indexed_numbers, rewrite_group, split_segments
from omnigraph.maintenance.optimize.table_work import TableWork, rewrite_lease_part
from omnigraph.maintenance.optimize.tables import TableView, read_views, reread_view
from omnigraph.maintenance.optimize.task_result import FailedTask
from omnigraph.pipeline.runner import RunTasks, batches_of, maintenance_concurrency
from omnigraph.storage.lance.compaction import clone_rewritten
from omnigraph.storage.lance.dataset import Dataset, DatasetVersion
from omnigraph.storage.lance.indexes import IndexSpec, Unbuildable
from omnigraph.storage.location import Location

logger = logging.getLogger("omnigraph.maintenance")

Result = TypeVar("Result")

CONFLICT = "other writers replaced the fragments it was built over"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRequest:
    """What to do to which types, by name or alias; `types` None: all.

    `skipped` are the aliases of tables to leave unchanged. `isolated`: report a table that fails and continue with the
    others.
    """

    kind: WriterKind
    actor: str
    types: frozenset[str] | None
    bounds: RunBounds
    skipped: frozenset[str] = frozenset()
    isolated: bool = False


@dataclass(slots=True)
class TableResult:
    """One table of a run. It grows while the run plans, works and commits.

    `view` is the table before the run; None: it could not be read. `work` is what is done, in the end what is
    published. `has_conflict`: other writers replaced what was rewritten. `seconds` sums the work on this table and its
    tasks.
    """

    alias: str
    view: TableView | None = None
    plan: TableMaintenancePlan | None = None
    work: TableWork | None = None
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
        self.indexes[spec] = IndexRow(self.alias, spec.column, spec.kind, IndexStatus.SKIPPED, reason)

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
    """What a run did to each table, in the order of the schema. `commit` None: nothing."""

    tables: Mapping[str, TableResult]
    commit: CommitRecord | None

    @property
    def indexes(self) -> tuple[IndexRow, ...]:
        return tuple(row for table in self.tables.values() for row in table.indexes.values())

    @property
    def task_count(self) -> int:
        """How many tasks were planned: groups of fragments, and tables with index work alone."""
        plans = (table.plan for table in self.tables.values() if table.plan is not None)
        return sum(len(plan.groups) or plan.indexes for plan in plans)


def run_maintenance(
    root: Location, branch: str, run_tasks: RunTasks, request: MaintenanceRequest, world: WriteEnvironment | None = None
) -> MaintenanceResult:
    """Do the work that the tables need, as at most one commit."""
    run = _MaintenanceRun(run_tasks, request, (world or WriteEnvironment()).rules)
    write_request = WriteRequest(request.kind, request.actor, run.stage, run.restage)
    while True:  # ends: the last attempt leaves out what was lost, and a table is skipped for drift only once
        try:
            published = write(root, branch, write_request, world)
        except _WorkLostError:
            continue
        except DriftError as drift:
            if not run.skip_drifted(drift):
                raise
            continue
        return run.finish(None if published is None else published.publication.commit)


class _WorkLostError(ConflictError):
    """Finished work does not fit the table any more; it is planned again, without the lease."""

    applied = Applied.NO


class _MaintenanceRun:
    """One run. Finished work is kept over attempts, as long as it fits."""

    def __init__(self, run_tasks: RunTasks, request: MaintenanceRequest, rules: Format) -> None:
        self._run_tasks = run_tasks
        self._request = request
        self._rules = rules
        self._attempts_left = limits.MAINTENANCE_ATTEMPTS_MAX
        self._tables: dict[str, TableResult] = {}
        self._schema_hash = ""
        self._began: float | None = None

    @property
    def _working(self) -> list[tuple[TableResult, TableWork]]:
        return [(table, table.work) for table in self._tables.values() if table.work is not None]

    def finish(self, commit: CommitRecord | None) -> MaintenanceResult:
        """Report only published work: an external change that was committed first may have replaced it."""
        if commit is not None:
            with ThreadPoolExecutor(maintenance_concurrency()) as threads:
                list(threads.map(lambda table: _remove_unpublished(table, commit), self._tables.values()))
        tables = {
            alias: table for alias, table in self._tables.items() if table.view is not None or table.error is not None
        }
        return MaintenanceResult(tables, commit)

    def skip_drifted(self, drift: DriftError) -> bool:
        """Continue without a table that an external tool changed during the run; False if that is not possible."""
        table = self._table(str(drift.facts.get("table")))
        if not self._request.isolated or table.drift is not None:
            return False
        table.drift = drift
        table.discard_work()
        return True

    def stage(self, area: StagingArea) -> StagedWrite | None:
        self._began = area.began if self._began is None else self._began
        area = replace(area, began=self._began)  # work of an earlier attempt began earlier
        self._attempts_left -= 1
        for table in self._tables.values():
            table.has_conflict = False
        self._move_work(area)
        self._schema_hash = area.snapshot.schema.hash
        views = self._read_views(area)
        is_done = False
        try:
            self._do_work(area, views)
            self._prefetch_changes(area)
            is_done = True
        finally:
            if not is_done:
                for table in self._tables.values():
                    table.discard_work()
        return self._stage_work(area)

    def restage(self, area: StagingArea, _: StagedWrite) -> StagedWrite | None:
        """Keep what fits, under the lease. Lost work is planned again; the last attempt does a bounded part here."""
        lost = self._move_work(area)
        if lost and self._attempts_left:
            raise _WorkLostError("fragments were replaced during the run", code="upkeep_work_lost")
        for table, spec in lost:
            if spec is not None:
                table.skip_index(spec, f"ConflictingWrites: {CONFLICT}")
            else:
                self._rewrite_under_lease(area, table)
        for table, _spec in lost:
            table.has_conflict = table.has_conflict or table.work is None or table.work.is_empty
        return self._stage_work(area)

    def _table(self, alias: str) -> TableResult:
        return self._tables.setdefault(alias, TableResult(alias))

    def _read_views(self, area: StagingArea) -> list[TableView]:
        """Read the requested tables; return those to work on."""
        request = self._request
        views = read_views(area.snapshot, request.types, self._fail if request.isolated else None)
        for table in self._tables.values():
            table.view, table.plan, table.indexes = None, None, {}
        in_order = {view.alias: self._table(view.alias) for view in views}
        self._tables = in_order | {alias: table for alias, table in self._tables.items() if alias not in in_order}
        for view in views:
            in_order[view.alias].view = view
        return [view for view in views if view.alias not in request.skipped and not in_order[view.alias].is_finished]

    def _do_work(self, area: StagingArea, views: Sequence[TableView]) -> None:
        finished_groups = {table.alias: work.groups for table, work in self._working}
        for view, plan in zip(views, plan_run(views, finished_groups, self._request.bounds), strict=True):
            table = self._tables[view.alias]
            table.plan = plan
            if plan.gated:
                sentence = f"{view.alias} is not compacted: Lance cannot compact its blobs"
                log_event(logger, sentence, level=logging.WARNING, table=view.alias)
            if plan.has_work and table.work is None:
                table.work = self._isolated(
                    table,
                    lambda: TableWork(area.keep_fork(view.alias), strip=plan.strip),  # noqa: B023  # called here
                )
        busy = [view for view in views if self._tables[view.alias].work is not None]
        idle = [view for view in views if self._tables[view.alias].work is None]
        with open_scratch(area.snapshot.root) as scratch:
            for batch in batches_of(busy, maintenance_concurrency()):
                self._rewrite(batch)
                self._build_indexes(area, batch, scratch)
            self._build_indexes(area, idle, scratch)

    def _rewrite(self, views: Sequence[TableView]) -> None:
        bounds = self._request.bounds.rewrite
        if bounds is None:
            return
        planned: list[TableView] = []
        tasks: list[RewriteTask] = []
        for view in views:
            table = self._tables[view.alias]
            if table.plan is None or table.work is None:
                continue
            version = DatasetVersion.of(table.work.target.dataset)
            for group in table.plan.groups:
                planned.append(view)
                rows = sum(view.fragments[number].rows for number in group)
                tasks.append(RewriteTask(version, group, rows, bounds.rows))
        outcomes = self._run_tasks(rewrite_group, tasks) if tasks else ()
        for view, outcome in zip(planned, outcomes, strict=True):
            table, result = self._tables[view.alias], outcome.result
            table.seconds += outcome.seconds
            if isinstance(result, FailedTask):
                self._fail(view.alias, result.error)
            elif table.work is not None:
                used = (*view.fragments, *indexed_numbers(view.present))
                table.work.add_group(result, max(used) + self._number_gap())

    def _number_gap(self) -> int:
        """Return how many fragments others can add before the numbers of rewritten ones are in use."""
        attempts_lost = limits.MAINTENANCE_ATTEMPTS_MAX - 1 - self._attempts_left
        return int(limits.COMPACTION_NUMBER_GAP * limits.COMPACTION_NUMBER_GAP_FACTOR**attempts_lost)

    def _build_indexes(self, area: StagingArea, views: Sequence[TableView], scratch: Scratch) -> None:
        rows_max = self._request.bounds.rows_per_index_task
        rewritten = [self._rewritten_view(area, view, scratch) for view in views]
        orders = [
            order
            for view in rewritten
            if view is not None
            for order in _order_indexes(self._tables[view.alias], view, rows_max)
        ]
        results = build_indexes(orders, self._run_tasks, rows_max, self._add_seconds)
        for order, result in zip(orders, results, strict=True):
            self._collect(order, result)

    def _rewritten_view(self, area: StagingArea, view: TableView, scratch: Scratch) -> TableView | None:
        """Return the table as it will be after the rewrite, where its indexes are built; None: build none."""
        table = self._tables[view.alias]
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

    def _add_seconds(self, alias: str, seconds: float) -> None:
        self._tables[alias].seconds += seconds

    def _collect(self, order: IndexOrder, result: IndexResult) -> None:
        table, spec = self._tables[order.view.alias], order.work.spec
        match result:
            case FailedTask():
                self._fail(table.alias, result.error)
            case BuiltIndex():
                table.indexes[spec] = result.row
                if table.work is not None:
                    table.work.built[spec] = result
            case Unbuildable(reason=reason):
                table.skip_index(spec, reason)
            case _:
                assert_never(result)

    def _prefetch_changes(self, area: StagingArea) -> None:
        """Read the changes of other writers now, so that little is left to read under the lease."""
        now = replace(area, snapshot=refresh_snapshot(area.snapshot, self._rules))
        for table, work in self._working:
            if work.can_move_to(now, self._schema_hash) and now.table(table.alias).pin != work.target.table.pin:
                self._isolated(table, lambda: work.prefetch_changes(now.open_for_write(table.alias)))  # noqa: B023  # called here

    def _move_work(self, area: StagingArea) -> list[tuple[TableResult, IndexSpec | None]]:
        """Move the work onto the tables as they are now.

        Returns:
            What does not fit: indexes, and None for groups. It is discarded.
        """
        lost: list[tuple[TableResult, IndexSpec | None]] = []
        is_same_schema = self._schema_hash == area.snapshot.schema.hash
        for table, work in self._working:
            now = area.snapshot.tables.get(table.alias)
            if now is not None and now.pin == work.target.table.pin and is_same_schema:
                continue
            if work.can_move_to(area, self._schema_hash):
                groups, specs = work.move_to(area.open_for_write(table.alias))
                lost += [(table, None)] * bool(groups) + [(table, spec) for spec in specs]
            else:
                lost += [(table, spec) for spec in work.built] + [(table, None)] * bool(work.groups)
                table.discard_work()
        return lost

    def _rewrite_under_lease(self, area: StagingArea, table: TableResult) -> None:
        """Rewrite a bounded part of a table whose groups were lost in every attempt, if there is one."""
        view, bounds = table.view, self._request.bounds
        rewrite = bounds.rewrite
        if view is None or rewrite is None or table.error is not None:
            return
        if view.has_blobs and not bounds.blobs_compact:
            return
        work = self._isolated(table, lambda: rewrite_lease_part(area, table.work, view, rewrite))
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
        if not self._request.isolated:
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


def _order_indexes(table: TableResult, view: TableView, rows_max: int) -> Iterator[IndexOrder]:
    """Yield an order for each index to build, and note the state of the others. `view` may be a clone."""
    work, plan = table.work, table.plan
    for planned in plan_indexes(view.indexes, rows_max):
        spec = planned.spec
        built = None if work is None else work.built.get(spec)
        if isinstance(planned, IndexWork) and built is not None:
            built = None if set(planned.fragment_ids) - built.fragments.keys() else built
        if built is not None:
            table.indexes[spec] = built.row
            continue
        reason = planned.reason if isinstance(planned, NoWork) else ""
        table.indexes[spec] = IndexRow(table.alias, spec.column, spec.kind, planned.status, reason)
        if isinstance(planned, IndexWork) and work is not None and plan is not None and plan.indexes:
            own = work.target.dataset
            is_clone = view.dataset.location != own.location
            # A fork has the same rows as the table that it was created from, but its own files.
            readable = view if is_clone else replace(view, dataset=own)
            yield IndexOrder(readable, planned, DatasetVersion.of(own) if is_clone else None)


def _remove_unpublished(table: TableResult, commit: CommitRecord) -> None:
    work = table.work
    if work is None:
        return
    pins = {move.table: move.after for move in commit.tables}
    try:
        lost = work.remove_unpublished(pins.get(work.target.table.id))
    except OmnigraphError as error:
        sentence = f"{table.alias} was published, but its new version could not be read: {error.message}"
        log_event(logger, sentence, level=logging.WARNING, table=table.alias, code=error.code)
        return
    if lost is None:
        return
    table.has_conflict = True
    for spec in lost:
        table.skip_index(spec, f"ConflictingWrites: {CONFLICT}")
    if work.is_empty:
        table.work = None
