"""Optimize: keeps a branch's tables healthy without changing a row. Never destructive.

In: a graph, options, whoever runs tasks. Out: one `TableOptimizeStats` per table and one for `__manifest`. Refused
while a write waits for recovery. A table that a foreign tool changed is left to repair. The rest is `upkeep`: strip
automatic cleanup, compact, fold and build indexes, one commit by `omnigraph:optimize`, or none. Then the manifest is
compacted and the adjacency of edge tables persisted. A crash leaves orphans, or what recovery publishes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError, UsageError
from omnigraph.base.events import log_event
from omnigraph.graph.commit import World
from omnigraph.graph.compaction import (
    ManifestCompaction,
    compact_manifest_fully,
    plan_manifest_compaction,
)
from omnigraph.graph.intent import WriterKind
from omnigraph.graph.layout import MANIFEST
from omnigraph.graph.lease import acquire_lease
from omnigraph.graph.snapshot import Snapshot, read_snapshot
from omnigraph.maintenance.adjacency_files import persist_adjacencies
from omnigraph.maintenance.drift import Classification
from omnigraph.maintenance.drift_look import TableLook, is_under_way, look_at_heads, refuse_pending
from omnigraph.maintenance.optimize_rows import StatsSum, find_unwritten, plan_stats, row_error
from omnigraph.maintenance.optimize_stats import TableOptimizeStats
from omnigraph.maintenance.rewrite_plan import RewriteBounds
from omnigraph.maintenance.table_view import chosen_types
from omnigraph.maintenance.upkeep import Upkeep, keep_up
from omnigraph.pipeline.runner import RunTasks
from omnigraph.pipeline.session import SparkSettings
from omnigraph.pipeline.spark_runner import on_spark
from omnigraph.storage.compaction import LANCE_SUPPORTS_BLOB_COMPACTION
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

ACTOR: Final = "omnigraph:optimize"

logger = logging.getLogger("omnigraph.optimize")


class BranchPlace(Protocol):
    """A graph on a branch, as far as optimize needs one."""

    @property
    def location(self) -> Location: ...

    @property
    def branch_name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """How to optimize."""

    tables: frozenset[str] | None = None
    """Types by name or alias; None: all."""
    dry_run: bool = False
    """Only plan."""
    partial_progress: bool = False
    """Commit groups of tasks as they finish, so that an interrupted run loses little."""
    rows_per_task: int | None = None
    """How many rows one task rewrites at most; None: about a million."""
    tasks_max: int | None = None
    """How many tasks a run takes on at most; None: all. Several runs converge."""
    blobs_compact: bool = LANCE_SUPPORTS_BLOB_COMPACTION
    """Whether Lance compacts tables with blobs; tests inject it."""
    world: World = field(default_factory=World)

    def refuse_nonsense(self) -> None:
        """Raise for a bound that lets nothing be done."""
        for name, value in (("rows of a task", self.rows_per_task), ("tasks", self.tasks_max)):
            if value is not None and value < 1:
                raise UsageError(
                    f"the number of {name} at most is {value}, and nothing can be done within it",
                    code="bound_too_small",
                    hint="pass a whole number from 1 on",
                )

    @property
    def bounds(self) -> RewriteBounds:
        """How large a rewritten fragment gets."""
        return RewriteBounds(rows=min(limits.COMPACTION_ROWS, self.rows_per_task or limits.COMPACTION_ROWS))


def optimize_all_tables(
    graph: BranchPlace, options: OptimizeOptions | None = None, run_tasks: RunTasks | None = None
) -> list[TableOptimizeStats]:
    """Optimize the tables of the graph's branch; on Spark unless `run_tasks` is given."""
    how = options or OptimizeOptions()
    how.refuse_nonsense()
    root, branch = graph.location, graph.branch_name
    live = refuse_pending(root, "optimize")
    snapshot = read_snapshot(root, branch, rules=how.world.rules)
    chosen_types(snapshot, how.tables)
    if how.dry_run:
        drift = {alias: look for alias, look in _drifted(snapshot).items() if not is_under_way(look, live)}
        manifest = _manifest_row(branch, plan_manifest_compaction(snapshot.manifest))
        planned = [*plan_stats(snapshot, drift, how), manifest]
        for row in planned:
            if row.error is not None:
                _log(row)
        return planned
    total = StatsSum(branch, _judge_drift(snapshot, how.world), find_unwritten(snapshot, how.tables))
    _keep_up(graph, how, run_tasks or on_spark(SparkSettings()), total)
    manifest = _compact_manifest(root, branch, how.world)
    after = read_snapshot(root, branch, rules=how.world.rules)
    persist_adjacencies(after, how.tables)
    rows = [*total.rows(after), manifest]
    for row in rows:
        _log(row)
    return rows


def _keep_up(graph: BranchPlace, how: OptimizeOptions, run_tasks: RunTasks, total: StatsSum) -> None:
    left = how.tasks_max
    for _ in range(limits.OPTIMIZE_COMMITS_MAX if how.partial_progress else 1):
        bound = left
        if how.partial_progress:
            bound = limits.OPTIMIZE_GROUP_TASKS if left is None else min(left, limits.OPTIMIZE_GROUP_TASKS)
        upkeep = Upkeep(
            WriterKind.OPTIMIZE,
            ACTOR,
            how.tables,
            how.bounds,
            tasks_max=bound,
            blobs_compact=how.blobs_compact,
            left_alone=total.finished,
            isolated=True,
        )
        done = keep_up(graph.location, graph.branch_name, run_tasks, upkeep, how.world)
        total.add(done)
        left = None if left is None else left - total.tasks_of(done)
        if done.commit is None or not total.has_more or (left is not None and left <= 0):
            return


def _drifted(snapshot: Snapshot) -> dict[str, TableLook]:
    """The tables of the branch whose heads are not where it publishes them, and not by our own doing."""
    return {
        look.table.alias: look
        for look in look_at_heads(snapshot)
        if look.head is not None
        and look.drift.classification is not Classification.NO_DRIFT
        and not look.drift.ours
    }


def _judge_drift(snapshot: Snapshot, world: World) -> Mapping[str, TableLook]:
    """Under the branch's lease, because a writer at work moves heads before it publishes them."""
    if not _drifted(snapshot):
        return {}
    root, branch = snapshot.root, snapshot.branch
    lease = acquire_lease(ObjectStore(root), branch.id, "optimize: look at heads", world.terms)
    try:
        refuse_pending(root, "optimize")
        found = _drifted(read_snapshot(root, branch.name, rules=world.rules))
    finally:
        lease.release()
    for alias, look in found.items():
        pin, head = look.table.pin.version, look.head_version
        sentence = (
            f"{alias} was changed outside Omnigraph (head {head}, published {pin}); see `omnigraph repair`"
        )
        log_event(logger, sentence, table=alias, version=pin)  # its row says it to people
    return found


def _compact_manifest(root: Location, branch: str, world: World) -> TableOptimizeStats:
    started = time.perf_counter()
    snapshot = read_snapshot(root, branch, rules=world.rules)
    version = snapshot.manifest.version
    error, done = None, ManifestCompaction(version)
    try:
        done = compact_manifest_fully(root, snapshot.branch.lance_branch, world.rules, world.clock)
    except OmnigraphError as failure:
        error, stripped = row_error(failure), failure.facts.get("stripped") is True
        done = replace(done, committed=stripped, stripped=stripped)
    return replace(_manifest_row(branch, done), seconds=time.perf_counter() - started, error=error)


def _manifest_row(branch: str, done: ManifestCompaction) -> TableOptimizeStats:
    return TableOptimizeStats(
        table_key=MANIFEST,
        branch=branch,
        manifest_version=done.version,
        lance_head_version=done.version,
        fragments_removed=done.fragments_removed,
        fragments_added=done.fragments_added,
        bytes_before=done.bytes_before,
        bytes_after=done.bytes_after,
        committed=done.committed,
        stripped=done.stripped,
    )


def _log(row: TableOptimizeStats) -> None:
    what = "committed" if row.committed else row.skipped or ("failed" if row.error else "nothing to do")
    log_event(
        logger,
        f"optimize {row.table_key} on {row.branch}: {what}",
        level=logging.INFO if row.error is None else logging.ERROR,
        in_result=True,
        table=row.table_key,
        branch=row.branch,
        version=row.manifest_version,
        committed=row.committed,
        skipped=row.skipped,
        fragments_removed=row.fragments_removed,
        fragments_added=row.fragments_added,
        error=row.error,
        seconds=round(row.seconds, 3),
    )
