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
from dataclasses import dataclass, replace
from typing import Final, Protocol

from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.progress import log_event
from omnigraph.engine.tables import one_array
from omnigraph.engine.traversal.adjacency import (
    PublishedTable,
    adjacency_path,
    build_adjacency,
    write_adjacency,
)
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.coordination.lease import acquire_lease
from omnigraph.graph.manifest.compaction import (
    ManifestCompaction,
    compact_manifest_fully,
    plan_manifest_compaction,
)
from omnigraph.graph.manifest.layout import GRAPH_INDEX, MANIFEST
from omnigraph.graph.manifest.snapshot import Snapshot, open_table, read_snapshot
from omnigraph.maintenance.drift import (
    Classification,
    TableInspection,
    inspect_heads,
    is_under_way,
    refuse_pending,
)
from omnigraph.maintenance.optimize.commit import MaintenanceRequest, run_maintenance
from omnigraph.maintenance.optimize.options import IndexResult, OptimizeOptions, TableOptimizeStats
from omnigraph.maintenance.optimize.report import StatsSum, find_unwritten, plan_stats, row_error
from omnigraph.maintenance.optimize.tables import chosen_types
from omnigraph.pipeline.runner import RunTasks
from omnigraph.pipeline.spark.runner import on_spark
from omnigraph.pipeline.spark.session import SparkSettings
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.optimize")


def persist_adjacencies(snapshot: Snapshot, types: frozenset[str] | None) -> int:
    """Write what is missing for the edge types, by name or alias (None: all); how many were written."""
    try:
        there = {entry.path for entry in ObjectStore(snapshot.root).list(GRAPH_INDEX)}
    except OmnigraphError as error:
        logger.warning("the persisted adjacencies cannot be listed: %s", error.message)
        return 0
    edges = [
        edge for edge in snapshot.schema.catalog.edges if types is None or types & {edge.name, edge.alias}
    ]
    return sum(_persist(snapshot, edge, there) for edge in edges)


def _persist(snapshot: Snapshot, edge: EdgeType, there: set[str]) -> bool:
    record = snapshot.tables[edge.alias]
    if adjacency_path(record) in there or not 0 < record.row_count <= limits.ADJACENCY_EDGES_MAX:
        return False
    pin = record.pin
    try:
        dataset = open_table(snapshot.root, record)
        ends = dataset.read(["src", "dst"])
        sources, targets = one_array(ends.column("src")), one_array(ends.column("dst"))
        adjacency = build_adjacency(sources, targets, one_type=edge.source == edge.target)
        written = write_adjacency(snapshot.root, PublishedTable(record, dataset), adjacency)
    except OmnigraphError as error:
        logger.warning("the adjacency of %s is not persisted: %s", edge.alias, error.message)
        return False
    sentence = f"persisted the adjacency of {edge.alias} at version {pin.version}"
    log_event(logger, sentence, table=edge.alias, version=pin.version)
    return written


INDEX_ACTOR = "omnigraph:ensure_indices"


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """Which types, by name or alias (None: all), by whom, and how many rows one task may index."""

    types: frozenset[str] | None = None
    actor: str = INDEX_ACTOR
    rows_per_task: int = limits.INDEX_ROWS_PER_TASK


def ensure_indices(
    root: Location,
    branch: str,
    run_tasks: RunTasks,
    options: IndexOptions | None = None,
    world: WriteEnvironment | None = None,
) -> IndexResult:
    """Build every declared index that is missing or does not cover its table, as at most one commit."""
    how = options or IndexOptions()
    upkeep = MaintenanceRequest(
        WriterKind.ENSURE_INDICES, how.actor, how.types, rows_per_index_task=how.rows_per_task
    )
    done = run_maintenance(root, branch, run_tasks, upkeep, world)
    return IndexResult(branch, done.indexes, done.commit)


OPTIMIZE_ACTOR: Final = "omnigraph:optimize"


class BranchPlace(Protocol):
    """A graph on a branch, as far as optimize needs one."""

    @property
    def location(self) -> Location: ...

    @property
    def branch(self) -> str: ...


def optimize_all_tables(
    graph: BranchPlace, options: OptimizeOptions | None = None, run_tasks: RunTasks | None = None
) -> list[TableOptimizeStats]:
    """Optimize the tables of the graph's branch; on Spark unless `run_tasks` is given."""
    how = options or OptimizeOptions()
    how.validate()
    root, branch = graph.location, graph.branch
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
    _run_maintenance(graph, how, run_tasks or on_spark(SparkSettings()), total)
    manifest = _compact_manifest(root, branch, how.world)
    after = read_snapshot(root, branch, rules=how.world.rules)
    persist_adjacencies(after, how.tables)
    rows = [*total.rows(after), manifest]
    for row in rows:
        _log(row)
    return rows


def _run_maintenance(graph: BranchPlace, how: OptimizeOptions, run_tasks: RunTasks, total: StatsSum) -> None:
    left = how.tasks_max
    for _ in range(limits.OPTIMIZE_COMMITS_MAX if how.partial_progress else 1):
        bound = left
        if how.partial_progress:
            bound = limits.OPTIMIZE_GROUP_TASKS if left is None else min(left, limits.OPTIMIZE_GROUP_TASKS)
        upkeep = MaintenanceRequest(
            WriterKind.OPTIMIZE,
            OPTIMIZE_ACTOR,
            how.tables,
            how.bounds,
            tasks_max=bound,
            blobs_compact=how.blobs_compact,
            left_alone=total.finished,
            isolated=True,
        )
        done = run_maintenance(graph.location, graph.branch, run_tasks, upkeep, how.world)
        total.add(done)
        left = None if left is None else left - total.tasks_of(done)
        if done.commit is None or not total.has_more or (left is not None and left <= 0):
            return


def _drifted(snapshot: Snapshot) -> dict[str, TableInspection]:
    """The tables of the branch whose heads are not where it publishes them, and not by our own doing."""
    return {
        look.table.alias: look
        for look in inspect_heads(snapshot)
        if look.head is not None
        and look.drift.classification is not Classification.NO_DRIFT
        and not look.drift.ours
    }


def _judge_drift(snapshot: Snapshot, world: WriteEnvironment) -> Mapping[str, TableInspection]:
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


def _compact_manifest(root: Location, branch: str, world: WriteEnvironment) -> TableOptimizeStats:
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
