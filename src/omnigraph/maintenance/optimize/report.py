"""Turns what upkeep did, or would do, into one row per table. Pure but for reading the tables of a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import FormatError, OmnigraphError
from omnigraph.base.ids import CommitId, OperationId, new_ulid
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.graph.write.stage import StagingArea
from omnigraph.maintenance.drift import TableInspection
from omnigraph.maintenance.optimize.commit import MaintenanceResult, TableResult, fragments_after
from omnigraph.maintenance.optimize.index_plan import (
    IndexStatus,
    IndexWork,
    NoWork,
    TableIndexes,
    plan_indexes,
)
from omnigraph.maintenance.optimize.options import IndexRow, PendingIndex, SkipReason, TableOptimizeStats
from omnigraph.maintenance.optimize.plan import RunBounds, TableMaintenancePlan, plan_run
from omnigraph.maintenance.optimize.rewrite import Replaced, indexes_after, split_segments
from omnigraph.maintenance.optimize.tables import TableView, chosen_types, read_views
from omnigraph.schema.catalog import display_order
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.indexes import NO_VECTORS, IndexSpec, has_vectors

if TYPE_CHECKING:
    from omnigraph.maintenance.optimize.options import OptimizeOptions


@dataclass(slots=True)
class StatsSum:
    """The rows of a run of one or more commits. `finished` are tables that further commits leave alone."""

    branch: str
    drift: Mapping[str, TableInspection]
    unwritten: frozenset[str] = frozenset()
    has_more: bool = False
    _rows: dict[str, TableOptimizeStats] = field(default_factory=dict)
    _finished: set[str] = field(default_factory=set)

    @property
    def finished(self) -> frozenset[str]:
        return frozenset((*self.drift, *self.unwritten, *self._finished))

    def add(self, done: MaintenanceResult) -> None:
        """What one commit did."""
        self.has_more = False
        for alias, table in done.tables.items():
            if alias in self._finished:
                continue
            row = replace(_row(self.branch, alias, table, done), seconds=table.seconds)
            before = self._rows.get(alias)
            self._rows[alias] = row if before is None else _summed(before, row)
            if table.error is not None or table.has_conflict or alias in done.drifted:
                self._finished.add(alias)
            elif table.plan is not None and table.plan.more:
                self.has_more = True

    def tasks_of(self, done: MaintenanceResult) -> int:
        """How many tasks a commit took on."""
        plans = [table.plan for table in done.tables.values() if table.plan is not None]
        return sum(len(plan.groups) or plan.indexes for plan in plans)

    def rows(self, after: Snapshot) -> list[TableOptimizeStats]:
        """The rows with the versions that are published now."""
        told = sorted(self._rows.values(), key=lambda row: display_order(row.table_key))
        rows = [_with_versions(row, after, self.drift) for row in told]
        return [_left_to_others(row) if row.table_key in self.unwritten else row for row in rows]


def find_unwritten(snapshot: Snapshot, named: frozenset[str] | None) -> frozenset[str]:
    """The tables that the branch reads from another one: to compact them it would have to copy them.

    A table that is named is meant. Once a commit gave the branch a table of its own, it is the branch's.
    """
    if named is not None:
        return frozenset()
    return frozenset(alias for alias, table in snapshot.tables.items() if table.owner != snapshot.branch.id)


def plan_stats(
    snapshot: Snapshot, drift: Mapping[str, TableInspection], how: OptimizeOptions
) -> list[TableOptimizeStats]:
    """What a run would do now. Reads only; sizes after it are estimates."""
    errors: dict[str, OmnigraphError] = {}
    stage = StagingArea(
        snapshot, WriterKind.OPTIMIZE, "", OperationId(new_ulid()), CommitId(new_ulid()), SYSTEM_CLOCK
    )
    views = {view.alias: view for view in read_views(stage, how.tables, errors.__setitem__)}
    bounds = RunBounds(how.bounds, limits.INDEX_ROWS_PER_TASK, how.tasks_max, blobs_compact=how.blobs_compact)
    unwritten = find_unwritten(snapshot, how.tables)
    healthy = [view for alias, view in views.items() if alias not in drift and alias not in unwritten]
    plans = {plan.alias: plan for plan in plan_run(healthy, {}, bounds)}
    rows = []
    for entity in chosen_types(snapshot, how.tables):
        alias = entity.alias
        row = TableOptimizeStats(alias, snapshot.branch.name, 0, 0)
        if alias in errors:
            row = replace(row, error=row_error(errors[alias]))
        elif alias in plans:
            row = _planned(row, views[alias], plans[alias], how.bounds.rows)
        row = _with_versions(row, snapshot, drift)
        rows.append(_left_to_others(row) if alias in unwritten else row)
    return sorted(rows, key=lambda row: display_order(row.table_key))


def row_error(error: OmnigraphError) -> str:
    """Return the error of a table for its row, which has no hint: a damaged table names the command to run."""
    is_damaged = isinstance(error, FormatError) and error.code == "dataset_unreadable"
    return f"{error.message}, run `omnigraph doctor --deep`" if is_damaged else error.message


def _left_to_others(row: TableOptimizeStats) -> TableOptimizeStats:
    return replace(row, skipped=SkipReason.NOT_WRITTEN_ON_BRANCH, pending_indexes=())


def _row(branch: str, alias: str, table: TableResult, done: MaintenanceResult) -> TableOptimizeStats:
    row = TableOptimizeStats(alias, branch, 0, 0)
    if table.error is not None or table.before is None:
        return replace(row, error=row_error(table.error) if table.error else "it was not read")
    before, work = table.before, table.work
    row = replace(row, bytes_before=before.size_bytes, bytes_after=before.size_bytes)
    indexes = [found for found in done.indexes if found.table_key == alias]
    if table.has_conflict:
        row = replace(row, skipped=SkipReason.CONFLICTING_WRITES)
    elif alias in done.drifted:
        head = done.drifted[alias].facts.get("lance_head_version")
        row = replace(
            row,
            skipped=SkipReason.DRIFT_NEEDS_REPAIR,
            lance_head_version=head if isinstance(head, int) else 0,
        )
    elif table.plan is not None and table.plan.gated:
        row = replace(row, skipped=SkipReason.BLOB_COLUMNS_UNSUPPORTED_BY_LANCE)
    row = replace(row, pending_indexes=_pending(indexes))
    if work is None or done.commit is None:
        return row
    there = {index.name for index in before.present}
    after = fragments_after(before.fragments, work.groups)
    return replace(
        row,
        fragments_removed=sum(len(group.old) for group in work.groups),
        fragments_added=sum(len(group.new) for group in work.groups),
        bytes_after=sum(fragment.size_bytes for fragment in after.values()),
        committed=True,
        indexes_folded=tuple(spec.column for spec in work.built if spec.name in there),
        indexes_built=tuple(spec.column for spec in work.built if spec.name not in there),
        stripped=work.strip,
        commit=str(done.commit.id),
    )


def _pending(indexes: list[IndexRow]) -> tuple[PendingIndex, ...]:
    return tuple(
        PendingIndex(found.property, found.reason) for found in indexes if found.status is IndexStatus.SKIPPED
    )


def _summed(before: TableOptimizeStats, row: TableOptimizeStats) -> TableOptimizeStats:
    return replace(
        row,
        fragments_removed=before.fragments_removed + row.fragments_removed,
        fragments_added=before.fragments_added + row.fragments_added,
        bytes_before=before.bytes_before,
        committed=before.committed or row.committed,
        seconds=before.seconds + row.seconds,
        indexes_folded=tuple(dict.fromkeys((*before.indexes_folded, *row.indexes_folded))),
        indexes_built=tuple(dict.fromkeys((*before.indexes_built, *row.indexes_built))),
        stripped=before.stripped or row.stripped,
        commit=row.commit or before.commit,
    )


def _with_versions(
    row: TableOptimizeStats, snapshot: Snapshot, drift: Mapping[str, TableInspection]
) -> TableOptimizeStats:
    look = drift.get(row.table_key)
    if look is not None:
        pin, head = look.table.pin.version, look.head_version or 0
        skipped = SkipReason.DRIFT_NEEDS_REPAIR
        return replace(
            row, manifest_version=pin, lance_head_version=head, skipped=skipped, pending_indexes=()
        )
    table = snapshot.tables.get(row.table_key)
    version = 0 if table is None else table.pin.version
    return replace(row, manifest_version=version, lance_head_version=max(version, row.lance_head_version))


def _planned(
    row: TableOptimizeStats, view: TableView, plan: TableMaintenancePlan, rows_per_fragment: int
) -> TableOptimizeStats:
    """The row of a dry run: a group becomes as many fragments as its live rows fill, which share them evenly."""
    rows = {number: found.rows for number, found in view.fragments.items()}
    replaced: list[Replaced] = []
    size = view.size_bytes
    number = max(view.fragments, default=0)
    for group in plan.groups:
        olds = [view.fragments[one] for one in group]
        size -= sum(old.size_bytes * old.deleted_rows // max(1, old.rows + old.deleted_rows) for old in olds)
        live = sum(rows.pop(one) for one in group)
        count = max(min(live, 1), live // rows_per_fragment)
        new_ids = range(number + 1, number + 1 + count)
        number += count
        rows.update((new, live // count + (new - new_ids[0] < live % count)) for new in new_ids)
        replaced.append(Replaced(group, tuple(new_ids)))
    present = indexes_after(view.present, replaced, split_segments(view.present, plan.groups))
    indexes = plan_indexes(TableIndexes(view.alias, rows, view.declared, present), limits.INDEX_ROWS_PER_TASK)
    pending = {found.spec: found.reason for found in indexes if isinstance(found, NoWork) and found.reason}
    works = [found.spec for found in indexes if isinstance(found, IndexWork)] if plan.indexes else []
    unbuildable = [spec for spec in works if _lacks_vectors(view, spec)]
    pending |= dict.fromkeys(unbuildable, NO_VECTORS)
    works = [spec for spec in works if spec not in pending]
    there = {index.name for index in view.present}
    return replace(
        row,
        fragments_removed=sum(len(group) for group in plan.groups),
        fragments_added=sum(len(group.new_ids) for group in replaced),
        bytes_before=view.size_bytes,
        bytes_after=size,
        skipped=SkipReason.BLOB_COLUMNS_UNSUPPORTED_BY_LANCE if plan.gated else None,
        pending_indexes=tuple(
            PendingIndex(found.spec.column, pending[found.spec]) for found in indexes if found.spec in pending
        ),
        indexes_folded=tuple(spec.column for spec in works if spec.name in there),
        indexes_built=tuple(spec.column for spec in works if spec.name not in there),
        stripped=plan.strip,
    )


def _lacks_vectors(view: TableView, spec: IndexSpec) -> bool:
    """Whether a run will find that the index cannot be built, as `plan_index` does."""
    return spec.kind is IndexKind.VECTOR and not has_vectors(view.dataset, spec.column)
