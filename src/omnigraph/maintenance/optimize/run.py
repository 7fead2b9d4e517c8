"""Optimize: compacts the tables of a branch, builds its indexes and compacts `__manifest`, without changing a row.

In: a graph, options, a function that runs tasks. Out: one `TableOptimizeStats` per table and one for `__manifest`.
Raises while an interrupted write waits for recovery. Skips a table that an external tool changed: `repair` handles it.
The work itself is a maintenance run (`commit`): one commit by `omnigraph:optimize`, or none; with `partial_progress`
several. Then the manifest is compacted and the adjacency of edge tables is persisted. `ensure_indices` is the part that
builds indexes. Deletes nothing. A crash leaves unreferenced files, or a commit that recovery publishes.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Protocol

from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.progress import log_event
from omnigraph.engine.traversal.adjacency import adjacency_path, build_adjacency, write_adjacency
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import hold_lease
from omnigraph.graph.manifest.compaction import ManifestCompaction, compact_manifest_fully, plan_manifest_compaction
from omnigraph.graph.manifest.layout import GRAPH_INDEX, MANIFEST
from omnigraph.graph.manifest.snapshot import Snapshot, open_table, read_snapshot
from omnigraph.maintenance.drift import (
    Classification,
    TableInspection,
    inspect_heads,
    is_in_progress,
    require_no_interrupted_writes,
)
from omnigraph.maintenance.optimize.commit import run_maintenance
from omnigraph.maintenance.optimize.options import IndexResult, OptimizeOptions, TableOptimizeStats
from omnigraph.maintenance.optimize.plan import MaintenanceRequest
from omnigraph.maintenance.optimize.report import find_unwritten, make_rows, plan_stats
from omnigraph.maintenance.rows import row_error
from omnigraph.maintenance.target import GraphTarget
from omnigraph.pipeline.runner import RunTasks
from omnigraph.pipeline.spark.auto import AutoRunner, RunnerChoice, choose_for_graph
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.optimize")


class BranchTarget(GraphTarget, Protocol):
    """An opened graph on a branch."""

    @property
    def branch(self) -> str: ...


def optimize_all_tables(
    graph: BranchTarget, options: OptimizeOptions | None = None, run_tasks: RunTasks | None = None
) -> list[TableOptimizeStats]:
    """Optimize the tables of the graph's branch. `run_tasks` runs the tasks; default: chosen by their size.

    Example:
        >>> options = og.maintenance.OptimizeOptions(dry_run=True)
        >>> [row.table_key for row in og.maintenance.optimize_all_tables(graph, options)]
        ['node:Person', 'edge:Knows', '__manifest']
    """
    options = options or OptimizeOptions()
    options.validate()
    root, branch, storage_format = graph.location, graph.branch, options.environment.storage_format
    running_intents = require_no_interrupted_writes(root, "optimize")
    snapshot = read_snapshot(root, branch, storage_format=storage_format)
    snapshot.schema.catalog.select_types(options.tables)  # raises for an unknown type
    if options.dry_run:
        drift = {
            alias: inspection
            for alias, inspection in _find_drift(snapshot).items()
            if not is_in_progress(inspection, running_intents)
        }
        manifest = _manifest_row(branch, plan_manifest_compaction(snapshot.manifest))
        rows = [*plan_stats(snapshot, drift, options), manifest]
        for row in rows:
            if row.reason is not None:
                _log(row)
        return rows
    drift, unwritten = _find_drift_under_lease(snapshot, options.environment), find_unwritten(snapshot, options.tables)
    request = options.request(skipped=unwritten.union(drift))
    tasks = run_tasks or AutoRunner(choose_for_graph(RunnerChoice.AUTO, root))
    result = run_maintenance(root, branch, tasks, request, options.environment)
    manifest = _compact_manifest(root, branch, options.environment)
    after = read_snapshot(root, branch, storage_format=storage_format)
    _persist_adjacencies(after, options.tables)
    rows = [*make_rows(result, after, drift, unwritten), manifest]
    for row in rows:
        _log(row)
    return rows


def ensure_indices(
    root: Location,
    branch: str,
    run_tasks: RunTasks,
    request: MaintenanceRequest | None = None,
    environment: WriteEnvironment | None = None,
) -> IndexResult:
    """Build every declared index that is missing or does not cover its table, as at most one commit."""
    result = run_maintenance(root, branch, run_tasks, request or MaintenanceRequest(), environment)
    return IndexResult(branch, result.indexes, result.commit)


def _find_drift(snapshot: Snapshot) -> dict[str, TableInspection]:
    """Return the tables of the branch whose heads external tools changed."""
    return {
        inspection.table.alias: inspection
        for inspection in inspect_heads(snapshot)
        if inspection.head is not None
        and inspection.drift.classification is not Classification.NO_DRIFT
        and not inspection.drift.is_ours
    }


def _find_drift_under_lease(snapshot: Snapshot, environment: WriteEnvironment) -> dict[str, TableInspection]:
    """Return the drifted tables, inspected under the branch's lease: without it, a running write looks like drift."""
    if not _find_drift(snapshot):
        return {}
    root, branch = snapshot.root, snapshot.branch
    with hold_lease(ObjectStore(root), branch.id, "optimize: inspect heads", environment.terms):
        require_no_interrupted_writes(root, "optimize")
        drift = _find_drift(read_snapshot(root, branch.name, storage_format=environment.storage_format))
    for alias, inspection in drift.items():
        pin, head = inspection.table.pin.version, inspection.head_version
        sentence = f"an external tool changed {alias}: published version {pin}, head {head}"
        log_event(logger, sentence, table=alias, version=pin)  # level INFO, because the row of the table reports it
    return drift


def _compact_manifest(root: Location, branch: str, environment: WriteEnvironment) -> TableOptimizeStats:
    started = time.perf_counter()
    snapshot = read_snapshot(root, branch, storage_format=environment.storage_format)
    reason, compaction = None, ManifestCompaction(version=snapshot.manifest.version)
    try:
        compaction = compact_manifest_fully(
            root, snapshot.branch.lance_branch, environment.storage_format, environment.clock
        )
    except OmnigraphError as error:
        # A commit before the failure may have removed Lance's own cleanup settings.
        reason, stripped = row_error(error), error.facts.get("stripped") is True
        compaction = replace(compaction, committed=stripped, stripped=stripped)
    seconds = time.perf_counter() - started
    return replace(_manifest_row(branch, compaction), seconds=seconds, reason=reason)


def _manifest_row(branch: str, compaction: ManifestCompaction) -> TableOptimizeStats:
    return TableOptimizeStats(
        table_key=MANIFEST,
        branch=branch,
        manifest_version=compaction.version,
        lance_head_version=compaction.version,
        fragments_removed=compaction.fragments_removed,
        fragments_added=compaction.fragments_added,
        bytes_before=compaction.bytes_before,
        bytes_after=compaction.bytes_after,
        committed=compaction.committed,
        stripped=compaction.stripped,
    )


def _persist_adjacencies(snapshot: Snapshot, types: frozenset[str] | None) -> None:
    """Write the missing adjacencies of the edge types, by name or alias; None: all."""
    try:
        existing_paths = {entry.path for entry in ObjectStore(snapshot.root).list(GRAPH_INDEX)}
    except OmnigraphError as error:
        logger.warning("cannot list the persisted adjacencies: %s", error.message)
        return
    for edge in snapshot.schema.catalog.edges:
        record = snapshot.tables[edge.alias]
        is_requested = types is None or types & {edge.name, edge.alias}
        if not is_requested or not 0 < record.row_count <= limits.ADJACENCY_EDGES_MAX:
            continue
        if adjacency_path(record) in existing_paths:
            continue
        try:
            dataset = open_table(snapshot.root, record)
            endpoints = dataset.read(["src", "dst"])
            sources, targets = (endpoints.column(name).combine_chunks() for name in ("src", "dst"))
            adjacency = build_adjacency(sources, targets, same_type=edge.source == edge.target)
            write_adjacency(snapshot.root, record, dataset, adjacency)
        except OmnigraphError as error:
            logger.warning("cannot persist the adjacency of %s: %s", edge.alias, error.message)
            continue
        sentence = f"persisted the adjacency of {edge.alias} at version {record.pin.version}"
        log_event(logger, sentence, table=edge.alias, version=record.pin.version)


def _log(row: TableOptimizeStats) -> None:
    result = "committed" if row.committed else row.skipped or ("failed" if row.reason else "nothing to do")
    log_event(
        logger,
        f"optimize {row.table_key} on {row.branch}: {result}",
        level=logging.INFO if row.reason is None else logging.ERROR,
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
