"""Cleanup: deletes old versions, what only they needed, and what nothing refers to. The one command that destroys.

In: a graph and a policy. Out: a row per table and branch. Without `confirm` it only plans, and changes nothing. With
it, under the lease of the graph: preflight, plan, then exactly the files of that plan, `__manifest` before the tables,
so that no snapshot is left whose tables are gone. A table that fails has its error in its row, and the others go on. A
crash leaves files that the next run deletes: manifests go before what they name, and the ref of a Lance branch last.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.progress import Report, log_event, report_nothing
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import Lease, LeaseLostError, acquire_lease
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.publish import ManifestChange, PublishTarget, publish
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.recovery.run import recover_every_branch
from omnigraph.maintenance.cleanup.deletion_plan import DeletableFile, Reason, folder_of, is_manifest
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions, KeptVersions, TableCleanupStats
from omnigraph.maintenance.cleanup.plan import GraphPlan, plan_cleanup
from omnigraph.maintenance.cleanup.preflight import inspect_before_preview, wait_for_writers
from omnigraph.maintenance.cleanup.retention import KeepReason, owner_of
from omnigraph.maintenance.cleanup.tasks import DatasetPlan
from omnigraph.maintenance.optimize.report import row_error
from omnigraph.maintenance.target import GraphPlace
from omnigraph.pipeline.runner import RunTasks, in_threads
from omnigraph.pipeline.spark.runner import on_spark
from omnigraph.pipeline.spark.session import SparkSettings
from omnigraph.schema.catalog import display_order
from omnigraph.storage.files import has_more_files
from omnigraph.storage.lance.delete import delete_files
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore


def make_stats(plan: GraphPlan) -> list[TableCleanupStats]:
    """A row for main of every dataset that a snapshot has, and for whatever else has something to tell.

    Tables come first, as everywhere, though the manifest's versions go before theirs.
    """
    rows = []
    tables = sorted(plan.tables, key=lambda dataset: display_order(dataset.table_key))
    for dataset in (*tables, plan.manifest, *plan.leftovers):
        by_branch: dict[str, list[DeletableFile]] = {MAIN: []} if _is_always_told(dataset) else {}
        for file in dataset.doomed:
            by_branch.setdefault(_branch_name(plan, dataset, file), []).append(file)
        rows += [_row(dataset, branch, files) for branch, files in by_branch.items()]
    return rows


def _is_always_told(dataset: DatasetPlan) -> bool:
    return dataset.retained is not None or dataset.error is not None


def _branch_name(plan: GraphPlan, dataset: DatasetPlan, file: DeletableFile) -> str:
    """Return the graph branch that a file belongs to; main for a file that belongs to none.

    The name of a fork has the id of the base if one write created the graph branch and the fork, so the tables of
    live branches are asked first.
    """
    if file.branch is None:
        return MAIN
    if (dataset.path, file.branch) in plan.fork_owners:
        return plan.fork_owners[dataset.path, file.branch]
    owner = owner_of(file.branch)
    return MAIN if owner is None else plan.owners.get(owner, MAIN)


def _kept(dataset: DatasetPlan) -> tuple[KeptVersions, ...]:
    return tuple(
        KeptVersions(reason, dataset.kept[reason]) for reason in KeepReason if dataset.kept.get(reason)
    )


def _row(dataset: DatasetPlan, branch: str, files: list[DeletableFile]) -> TableCleanupStats:
    return TableCleanupStats(
        table_key=dataset.table_key,
        branch=branch,
        old_versions_removed=sum(file.why is Reason.VERSION for file in files),
        files_removed=len(files),
        bytes_removed=sum(file.size_bytes for file in files),
        orphan_files_removed=sum(file.why in (Reason.ORPHAN, Reason.LEFTOVER) for file in files),
        orphan_branches_removed=len({file.branch for file in files if file.why is Reason.FORK}),
        error=dataset.error if branch == MAIN else None,
        files=tuple(f"{dataset.path}/{file.path}" for file in files),
        kept=_kept(dataset) if branch == MAIN else (),
    )


logger = logging.getLogger("omnigraph.cleanup")

NOT_TOUCHED: Final = f"not touched, because {MANIFEST} could not be cleaned up"


def cleanup_all_tables(
    graph: GraphPlace,
    options: CleanupPolicyOptions,
    *,
    run_tasks: RunTasks | None = None,
    world: WriteEnvironment | None = None,
) -> list[TableCleanupStats]:
    """Delete what the policy lets go, or tell what it would be. `run_tasks` is for graphs with many versions."""
    how = world or WriteEnvironment()
    policy = options.policy(how.clock.now_us())
    run = run_tasks or in_threads
    root = graph.location
    if not options.confirm:
        plan = plan_cleanup(inspect_before_preview(root, how), policy, run, how)
        _log_failures(plan)
        return make_stats(plan)
    lease = acquire_lease(ObjectStore(root), None, "cleanup", how.terms)
    try:
        with lease.kept():
            plan = plan_cleanup(wait_for_writers(root, how), policy, run, how)
            done = _Deleting(root, lease, how).run(plan)
            _log_failures(done)
            return make_stats(done)
    finally:
        lease.release()


class _Deleting:
    """One run while it holds the graph's lease."""

    def __init__(self, root: Location, lease: Lease, world: WriteEnvironment) -> None:
        self._root = root
        self._lease = lease
        self._world = world
        self._turn = threading.Lock()

    def run(self, plan: GraphPlan) -> GraphPlan:
        """Delete it; the plan again, with only what went, and the errors."""
        self._fence(plan.manifest)
        manifest = self._delete(plan.manifest)
        if manifest.error is not None:
            left = tuple(replace(table, doomed=(), error=table.error or NOT_TOUCHED) for table in plan.tables)
            return replace(plan, manifest=manifest, tables=left, leftovers=())
        tables = tuple(in_threads(self._delete, plan.tables))
        leftovers = tuple(map(self._delete, plan.leftovers))
        return replace(plan, manifest=manifest, tables=tables, leftovers=leftovers)

    def _fence(self, manifest: DatasetPlan) -> None:
        """Whoever lost the graph's lease while creating a branch must not publish its row once the branch is gone."""
        if any(file.why is Reason.FORK for file in manifest.doomed):
            main = read_snapshot(self._root, rules=self._world.rules)
            target = PublishTarget(self._root, MAIN, main.branch.id, main.branch.lance_branch)
            failpoint(Failpoint.CLEANUP_FENCE_BEFORE)
            publish(target, ManifestChange(), (), self._world.publisher(self._lease))

    def _delete(self, plan: DatasetPlan) -> DatasetPlan:
        if plan.error is not None or not plan.doomed:
            return plan
        started = time.perf_counter()
        gone: list[DeletableFile] = []
        try:
            for batch in _batches(plan.doomed):
                self._delete_batch(plan.path, batch)
                gone += batch
            self._remove_empty_folders(plan)
        except LeaseLostError:
            raise
        except OmnigraphError as error:
            plan = replace(plan, doomed=tuple(gone), error=row_error(error))
        else:
            _log(plan, time.perf_counter() - started)
        return plan

    def _delete_batch(self, path: str, batch: Sequence[DeletableFile]) -> None:
        with self._turn:
            self._lease.hold()
        failpoint(Failpoint.CLEANUP_DELETE_BEFORE)
        delete_files(self._root.child(path), [file.path for file in batch])

    def _remove_empty_folders(self, plan: DatasetPlan) -> None:
        """On disk; only folders of which everything went, so that no writer is about to use them."""
        found = {""} if plan.is_whole else {folder_of(file) for file in plan.doomed}
        for folder in sorted(folder for folder in found if folder is not None):
            ObjectStore(self._root.child(plan.path)).remove_empty_directories(folder)


def _batches(doomed: Sequence[DeletableFile]) -> Iterator[Sequence[DeletableFile]]:
    """In order; the files of one batch may go in any."""
    for _, group in groupby(doomed, key=lambda file: (file.why, file.branch, is_manifest(file))):
        files = list(group)
        for start in range(0, len(files), limits.DELETE_BATCH_FILES):
            yield files[start : start + limits.DELETE_BATCH_FILES]


def _log_failures(plan: GraphPlan) -> None:
    """Log each dataset that could not be planned or cleaned up."""
    for dataset in plan.datasets:
        if dataset.error is not None:
            log_event(
                logger,
                f"{dataset.table_key} was not cleaned up: {dataset.error}",
                level=logging.ERROR,
                in_result=True,
                table=dataset.table_key,
                error=dataset.error,
                files=len(dataset.doomed),
            )


def _log(plan: DatasetPlan, seconds: float) -> None:
    for fork in dict.fromkeys(file.branch for file in plan.doomed if file.why is Reason.FORK):
        log_event(logger, "reclaimed an orphaned branch", table=plan.table_key, lance_branch=str(fork))
    log_event(
        logger,
        f"cleaned up {plan.table_key}",
        table=plan.table_key,
        versions=sum(file.why is Reason.VERSION for file in plan.doomed),
        files=len(plan.doomed),
        bytes=sum(file.size_bytes for file in plan.doomed),
        error=None,
        seconds=round(seconds, 3),
    )


def run_cleanup(
    graph: GraphPlace, options: CleanupPolicyOptions, spark: SparkSettings, report: Report = report_nothing
) -> list[TableCleanupStats]:
    """Return what was deleted, or would be. A master that was named is used for any size.

    A run that deletes first recovers the writes that stopped, on every branch.
    """
    options.policy(0)  # raises for options that are not valid, before anything is written
    if options.confirm:
        recover_every_branch(graph.location)
    is_large = spark.master is not None or is_for_spark(graph.location)
    run: RunTasks | None = on_spark(spark, report) if is_large else None
    return cleanup_all_tables(graph, options, run_tasks=run)


def is_for_spark(root: Location) -> bool:
    """Whether a graph has more manifest versions or more files than this process looks through alone."""
    versions = root.child(MANIFEST).child("_versions")
    return has_more_files(versions, limits.CLEANUP_DRIVER_VERSIONS_MAX) or has_more_files(
        root, limits.CLEANUP_DRIVER_FILES_MAX
    )
