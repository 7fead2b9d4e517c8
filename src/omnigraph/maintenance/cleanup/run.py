"""Cleanup: deletes old versions, the files that only they need, and files that no version references.

In: a graph and a policy. Out: a row per table and branch. Without `confirm` it only plans and changes nothing. With it,
under the lease of the graph: preflight, plan, then exactly the files of that plan, `__manifest` before the tables, so
that no snapshot is left whose tables were deleted. A table that fails has its error in its row, and the others
continue. A crash leaves files that the next run deletes: manifests are deleted before the files that they name, and the
ref of a Lance branch last. This is the only command that deletes data.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.hints import Hint
from omnigraph.base.progress import log_event
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import Lease, LeaseLostError, hold_lease
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.publish import ManifestChange, PublishTarget, publish
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.recovery.run import recover_every_branch
from omnigraph.maintenance.cleanup.deletion_plan import DeletableFile, Reason, emptied_directory, is_manifest
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions, KeptVersions, TableCleanupStats
from omnigraph.maintenance.cleanup.plan import GraphPlan, plan_cleanup
from omnigraph.maintenance.cleanup.preflight import inspect_before_preview, wait_for_writers
from omnigraph.maintenance.cleanup.retention import KeepReason, owner_of
from omnigraph.maintenance.cleanup.tasks import DatasetPlan
from omnigraph.maintenance.rows import row_error
from omnigraph.maintenance.target import GraphTarget
from omnigraph.pipeline.runner import RunTasks, batches_of, in_threads
from omnigraph.pipeline.spark.auto import AutoRunner
from omnigraph.schema.catalog import display_order
from omnigraph.storage.files import has_more_files
from omnigraph.storage.lance.delete import delete_files
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.cleanup")

NOT_TOUCHED: Final = Hint(f"skipped, because {MANIFEST} could not be cleaned up")


def cleanup_all_tables(
    graph: GraphTarget,
    options: CleanupPolicyOptions,
    *,
    run_tasks: RunTasks | None = None,
    environment: WriteEnvironment | None = None,
) -> list[TableCleanupStats]:
    """Delete what the policy does not keep; without `confirm` only report it.

    `run_tasks` runs the tasks; default: threads of this process. Pass one for a graph with many versions.

    Example:
        >>> options = og.maintenance.CleanupPolicyOptions(keep_versions=10)
        >>> sum(row.files_removed for row in og.maintenance.cleanup_all_tables(graph, options))
        0
    """
    environment = environment or WriteEnvironment()
    policy = options.policy(environment.clock.now_us())
    run_tasks = run_tasks or in_threads
    root = graph.location
    if not options.confirm:
        plan = plan_cleanup(inspect_before_preview(root, environment), policy, run_tasks, environment)
        _log_failures(plan)
        return _make_rows(plan)
    read_snapshot(root, storage_format=environment.storage_format)  # raises before the lease creates its files
    with hold_lease(ObjectStore(root), None, "cleanup", environment.terms) as lease, lease.renewing():
        plan = plan_cleanup(wait_for_writers(root, environment), policy, run_tasks, environment)
        deleted = _Deletion(root, lease, environment).run(plan)
        _log_failures(deleted)
        return _make_rows(deleted)


def run_cleanup(graph: GraphTarget, options: CleanupPolicyOptions, runner: AutoRunner) -> list[TableCleanupStats]:
    """Clean up. The tasks run on Spark if the graph has many versions or files.

    A run that deletes first recovers interrupted writes on every branch.
    """
    options.policy(0)  # raises for invalid options before anything is written
    if options.confirm:
        recover_every_branch(graph.location)
    if is_for_spark(graph.location):
        runner.prefer_spark()
    return cleanup_all_tables(graph, options, run_tasks=runner)


def is_for_spark(root: Location) -> bool:
    """Whether a graph has more manifest versions or files than one process inspects."""
    versions = root.child(MANIFEST).child("_versions")
    return has_more_files(versions, limits.CLEANUP_DRIVER_VERSIONS_MAX) or has_more_files(
        root, limits.CLEANUP_DRIVER_FILES_MAX
    )


@dataclass(frozen=True, slots=True)
class _Deletion:
    """One run while it holds the graph's lease. Threads check the lease one after another."""

    root: Location
    lease: Lease
    environment: WriteEnvironment
    turn: threading.Lock = field(default_factory=threading.Lock)

    def run(self, plan: GraphPlan) -> GraphPlan:
        """Delete the files; return the plan with the files that were deleted, and the errors."""
        self._fence(plan.manifest)
        manifest = self._delete(plan.manifest)
        if manifest.error is not None:
            skipped = tuple(replace(table, deletable=(), error=table.error or NOT_TOUCHED) for table in plan.tables)
            return replace(plan, manifest=manifest, tables=skipped, leftovers=())
        tables = tuple(in_threads(self._delete, plan.tables))
        leftovers = tuple(map(self._delete, plan.leftovers))
        return replace(plan, manifest=manifest, tables=tables, leftovers=leftovers)

    def _fence(self, manifest: DatasetPlan) -> None:
        """Publish once, so that a writer that lost the graph's lease cannot publish a branch that is deleted here."""
        if any(file.reason is Reason.FORK for file in manifest.deletable):
            main = read_snapshot(self.root, storage_format=self.environment.storage_format)
            target = PublishTarget(self.root, MAIN, main.branch.id, main.branch.lance_branch)
            failpoint(Failpoint.CLEANUP_FENCE_BEFORE)
            publish(target, ManifestChange(), (), self.environment.publisher(self.lease))

    def _delete(self, plan: DatasetPlan) -> DatasetPlan:
        if plan.error is not None or not plan.deletable:
            return plan
        started = time.perf_counter()
        deleted: list[DeletableFile] = []
        try:
            for batch in _batches(plan.deletable):
                self._delete_batch(plan.path, batch)
                deleted += batch
            self._remove_empty_directories(plan)
        except LeaseLostError:
            raise
        except OmnigraphError as error:
            plan = replace(plan, deletable=tuple(deleted), error=row_error(error))
        else:
            _log(plan, time.perf_counter() - started)
        return plan

    def _delete_batch(self, path: str, batch: Sequence[DeletableFile]) -> None:
        with self.turn:
            self.lease.hold()
        failpoint(Failpoint.CLEANUP_DELETE_BEFORE)
        delete_files(self.root.child(path), [file.path for file in batch])

    def _remove_empty_directories(self, plan: DatasetPlan) -> None:
        """Remove local directories of which every file was deleted, so that no writer is about to use them."""
        directories = {""} if plan.is_whole else {emptied_directory(file) for file in plan.deletable}
        for directory in sorted(directory for directory in directories if directory is not None):
            ObjectStore(self.root.child(plan.path)).remove_empty_directories(directory)


def _batches(files: Sequence[DeletableFile]) -> Iterator[Sequence[DeletableFile]]:
    """Yield batches in order; the files of one batch may be deleted in any order."""
    for _, group in groupby(files, key=lambda file: (file.reason, file.branch, is_manifest(file))):
        yield from batches_of(list(group), limits.DELETE_BATCH_FILES)


def _make_rows(plan: GraphPlan) -> list[TableCleanupStats]:
    """Return a row for main of every dataset of a snapshot, and a row for everything else with deletable files.

    Tables are first, as in every command, although cleanup deletes versions of the manifest before theirs.
    """
    rows = []
    tables = sorted(plan.tables, key=lambda dataset: display_order(dataset.table_key))
    for dataset in (*tables, plan.manifest, *plan.leftovers):
        has_row = dataset.retained is not None or dataset.error is not None
        by_branch: dict[str, list[DeletableFile]] = {MAIN: []} if has_row else {}
        for file in dataset.deletable:
            by_branch.setdefault(_branch_name(plan, dataset, file), []).append(file)
        rows += [_make_row(dataset, branch, files) for branch, files in by_branch.items()]
    return rows


def _branch_name(plan: GraphPlan, dataset: DatasetPlan, file: DeletableFile) -> str:
    """Return the graph branch that a file belongs to; main for a file that belongs to none.

    If one write created the graph branch and the fork, the name of the fork has the id of the base, so the tables of
    live branches are searched first.
    """
    if file.branch is None:
        return MAIN
    if (dataset.path, file.branch) in plan.fork_owners:
        return plan.fork_owners[dataset.path, file.branch]
    owner = owner_of(file.branch)
    return MAIN if owner is None else plan.owners.get(owner, MAIN)


def _make_row(dataset: DatasetPlan, branch: str, files: list[DeletableFile]) -> TableCleanupStats:
    counts = dataset.keep_reasons if branch == MAIN else {}
    return TableCleanupStats(
        table_key=dataset.table_key,
        branch=branch,
        old_versions_removed=sum(file.reason is Reason.VERSION for file in files),
        files_removed=len(files),
        bytes_removed=sum(file.size_bytes for file in files),
        orphan_files_removed=sum(file.reason in (Reason.ORPHAN, Reason.LEFTOVER) for file in files),
        orphan_branches_removed=len({file.branch for file in files if file.reason is Reason.FORK}),
        reason=dataset.error if branch == MAIN else None,
        files=tuple(f"{dataset.path}/{file.path}" for file in files),
        retained=tuple(KeptVersions(reason, counts[reason]) for reason in KeepReason if counts.get(reason)),
    )


def _log_failures(plan: GraphPlan) -> None:
    """Log each dataset that could not be planned or cleaned up."""
    for dataset in plan.datasets:
        if dataset.error is not None:
            log_event(
                logger,
                f"cannot clean up {dataset.table_key}: {dataset.error}",
                level=logging.ERROR,
                in_result=True,
                table=dataset.table_key,
                error=str(dataset.error),
                files=len(dataset.deletable),
            )


def _log(plan: DatasetPlan, seconds: float) -> None:
    for fork in dict.fromkeys(file.branch for file in plan.deletable if file.reason is Reason.FORK):
        log_event(logger, "deleted a Lance branch of no live branch", table=plan.table_key, lance_branch=str(fork))
    log_event(
        logger,
        f"cleaned up {plan.table_key}",
        table=plan.table_key,
        versions=sum(file.reason is Reason.VERSION for file in plan.deletable),
        files=len(plan.deletable),
        bytes=sum(file.size_bytes for file in plan.deletable),
        error=None,
        seconds=round(seconds, 3),
    )
