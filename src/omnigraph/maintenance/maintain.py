"""One round of maintenance: recover, optimize what needs it, clean up under a policy, and check the graph.

In: a graph, options and a runner. Out: a `MaintainResult` with what was wrong, what was done and what is left. It never
repairs: a table that an external tool changed is reported. One round per graph runs at a time, under a lease of its
own; writers are not blocked. A crash leaves what a crash of optimize or cleanup leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.base.display import Displayed
from omnigraph.base.errors import FormatError
from omnigraph.base.ids import BranchId
from omnigraph.graph.coordination.lease import hold_lease
from omnigraph.graph.manifest.layout import lock_directory
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.recovery.decide import RecoveryAction
from omnigraph.graph.recovery.run import recover_every_branch
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions, TableCleanupStats
from omnigraph.maintenance.cleanup.run import run_cleanup
from omnigraph.maintenance.doctor.findings import Check, Finding, Health, optimize_branch
from omnigraph.maintenance.doctor.run import check_graph
from omnigraph.maintenance.optimize.options import OptimizeOptions, TableOptimizeStats
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.maintenance.rows import TableStats
from omnigraph.maintenance.target import GraphTarget
from omnigraph.pipeline.spark.auto import AutoRunner
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

MAINTAIN_LOCK: Final = BranchId("maintain")


@dataclass(frozen=True, slots=True)
class MaintainOptions:
    """What a round does."""

    branches: tuple[str, ...] = ()
    """The branches to optimize; empty: every branch that needs it."""
    max_tasks: int | None = None
    """How many tasks optimize runs per branch at most; None: all."""
    cleanup: CleanupPolicyOptions | None = None
    """What cleanup keeps; None: no cleanup."""


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class MaintainResult(Displayed):
    """What a round of maintenance found and did."""

    problems: tuple[Finding, ...]
    """What was wrong before."""
    recovered: tuple[str, ...]
    """The ids of the interrupted writes that were finished or undone; `recoveries` describes them."""
    optimized: Mapping[str, tuple[TableOptimizeStats, ...]]
    """What optimize did, by branch."""
    cleaned: tuple[TableCleanupStats, ...] | None
    """What cleanup deleted, or would delete; None without cleanup."""
    left: tuple[Finding, ...]
    """What is left, each with the call that fixes it."""
    cleanup_error: str | None = None
    """Why cleanup failed, as in a copied graph with branches; None if it succeeded or was skipped."""
    runner: str = "local"
    """Where the tasks ran: `local`, or `spark` and its master."""

    @property
    def needs_repair(self) -> bool:
        """Whether an external tool changed a table, which only `repair` publishes or discards."""
        is_drifted = any(finding.check is Check.DRIFT and finding.health is Health.PROBLEM for finding in self.left)
        return is_drifted or any(row.needs_repair for row in self._failed_rows())

    @property
    def errors(self) -> tuple[str, ...]:
        """The errors of single tables, without those that `repair` fixes, and of cleanup."""
        of_tables = tuple(f"{row.table_key}: {row.error}" for row in self._failed_rows() if not row.needs_repair)
        return of_tables if self.cleanup_error is None else (*of_tables, f"cleanup: {self.cleanup_error}")

    def _failed_rows(self) -> tuple[TableStats, ...]:
        rows = (*(row for rows in self.optimized.values() for row in rows), *(self.cleaned or ()))
        return tuple(row for row in rows if row.reason is not None)

    def _summary(self) -> Mapping[str, object]:
        return {
            "problems": len(self.problems),
            "recovered": len(self.recovered),
            "optimized": ", ".join(self.optimized) or None,
            "cleaned": None if self.cleaned is None else f"{sum(row.files_removed for row in self.cleaned):,} files",
            "left": len(self.left),
        }


def branches_to_optimize(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the branches with small files, deleted rows or rows outside of indexes, in the order of the findings."""
    of_files = [finding for finding in findings if finding.check in (Check.FRAGMENTS, Check.INDEXES)]
    return tuple(
        dict.fromkeys(finding.branch for finding in of_files if finding.fix == optimize_branch(finding.branch))
    )


def maintain(graph: GraphTarget, options: MaintainOptions, runner: AutoRunner) -> MaintainResult:
    """Run one round. Raise `LeaseBusyError` if another process maintains the graph for longer than a writer waits."""
    root = graph.location
    for name in (MAIN, *options.branches):
        read_snapshot(root, name)  # raises before the lease creates its files, if there is no graph or branch
    with hold_lease(ObjectStore(root), MAINTAIN_LOCK, "maintain") as lease, lease.renewing():
        before = _problems(graph)
        writes = recover_every_branch(root)
        recovered = tuple(str(write.intent.op_id) for write in writes if write.action is not RecoveryAction.FINISHED)
        names = options.branches or branches_to_optimize(before)
        optimized = {}
        for name in names:
            lease.hold()
            optimized[name] = _optimize(root, name, options, runner)
        lease.hold()
        cleaned: tuple[TableCleanupStats, ...] | None = None
        cleanup_error: str | None = None
        if options.cleanup is not None:
            try:
                cleaned = tuple(run_cleanup(graph, options.cleanup, runner))
            except FormatError as error:  # Optimize may have committed: the result reports that too.
                cleanup_error = error.message
    return MaintainResult(
        problems=before,
        recovered=recovered,
        optimized=optimized,
        cleaned=cleaned,
        cleanup_error=cleanup_error,
        left=_problems(graph),
        runner=runner.description,
    )


def _problems(graph: GraphTarget) -> tuple[Finding, ...]:
    """Return what doctor finds, without the lock of this round."""
    findings = [finding for finding in check_graph(graph) if finding.health is not Health.OK]
    return tuple(
        finding
        for finding in findings
        if (finding.check, finding.health, finding.where) != (Check.LOCKS, Health.NOTICE, lock_directory(MAINTAIN_LOCK))
    )


@dataclass(frozen=True, slots=True)
class _OptimizedBranch:
    location: Location
    branch: str


def _optimize(
    root: Location, branch: str, options: MaintainOptions, runner: AutoRunner
) -> tuple[TableOptimizeStats, ...]:
    read_snapshot(root, branch)  # an unknown branch is an error, also if another one was optimized before
    return tuple(
        optimize_all_tables(_OptimizedBranch(root, branch), OptimizeOptions(tasks_max=options.max_tasks), runner)
    )
