"""Turns a plan into the rows that cleanup reports: one per table and graph branch. Pure."""

from __future__ import annotations

from omnigraph.graph.snapshot import MAIN
from omnigraph.maintenance.cleanup_options import KeptVersions, TableCleanupStats
from omnigraph.maintenance.cleanup_plan import GraphPlan
from omnigraph.maintenance.cleanup_tasks import DatasetPlan
from omnigraph.maintenance.doomed_files import DoomedFile, Why
from omnigraph.maintenance.retention import KeepReason, owner_of
from omnigraph.schema.catalog import told_order


def make_stats(plan: GraphPlan) -> list[TableCleanupStats]:
    """A row for main of every dataset that a snapshot has, and for whatever else has something to tell.

    Tables come first, as everywhere, though the manifest's versions go before theirs.
    """
    rows = []
    tables = sorted(plan.tables, key=lambda dataset: told_order(dataset.table_key))
    for dataset in (*tables, plan.manifest, *plan.leftovers):
        by_branch: dict[str, list[DoomedFile]] = {MAIN: []} if _is_always_told(dataset) else {}
        for file in dataset.doomed:
            by_branch.setdefault(_branch_name(plan, dataset, file), []).append(file)
        rows += [_row(dataset, branch, files) for branch, files in by_branch.items()]
    return rows


def _is_always_told(dataset: DatasetPlan) -> bool:
    return dataset.retained is not None or dataset.error is not None


def _branch_name(plan: GraphPlan, dataset: DatasetPlan, file: DoomedFile) -> str:
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


def _row(dataset: DatasetPlan, branch: str, files: list[DoomedFile]) -> TableCleanupStats:
    return TableCleanupStats(
        table_key=dataset.table_key,
        branch=branch,
        old_versions_removed=sum(file.why is Why.VERSION for file in files),
        files_removed=len(files),
        bytes_removed=sum(file.size_bytes for file in files),
        orphan_files_removed=sum(file.why in (Why.ORPHAN, Why.LEFTOVER) for file in files),
        orphan_branches_removed=len({file.branch for file in files if file.why is Why.FORK}),
        error=dataset.error if branch == MAIN else None,
        files=tuple(f"{dataset.path}/{file.path}" for file in files),
        kept=_kept(dataset) if branch == MAIN else (),
    )
