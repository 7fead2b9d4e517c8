"""Turns the result of a maintenance run, or the plan of a dry run, into one `TableOptimizeStats` per table.

In: a `MaintenanceResult`, or a snapshot to plan for. Out: rows in display order, with the versions that are published
now. Reads only the tables of a dry run; writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.maintenance.drift import TableInspection
from omnigraph.maintenance.optimize.commit import MaintenanceResult, TableResult
from omnigraph.maintenance.optimize.index_plan import IndexStatus, TableIndexes, plan_indexes
from omnigraph.maintenance.optimize.options import OptimizeOptions, PendingIndex, SkipReason, TableOptimizeStats
from omnigraph.maintenance.optimize.plan import TableMaintenancePlan, plan_run
from omnigraph.maintenance.optimize.rewrite import indexes_after, split_segments
from omnigraph.maintenance.optimize.table_work import fragments_after
from omnigraph.maintenance.optimize.tables import TableView, read_views
from omnigraph.maintenance.rows import row_error
from omnigraph.schema.catalog import display_order
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.indexes import NO_VECTORS, has_vectors


def make_rows(
    result: MaintenanceResult, after: Snapshot, drift: Mapping[str, TableInspection], unwritten: frozenset[str]
) -> list[TableOptimizeStats]:
    """Return the rows of a run, with the versions that are published now.

    `unwritten` are tables that the branch reads from another branch.
    """
    rows = [_make_row(after.branch.name, table) for table in result.tables.values()]
    shown = [_with_versions(row, after, drift, unwritten) for row in rows]
    return sorted(shown, key=lambda row: display_order(row.table_key))


def find_unwritten(snapshot: Snapshot, requested: frozenset[str] | None) -> frozenset[str]:
    """Return the tables that the branch reads from another branch: optimize would have to copy them.

    Requested tables are not among them. After the first commit to a table the branch has its own.
    """
    if requested is not None:
        return frozenset()
    return frozenset(alias for alias, table in snapshot.tables.items() if table.owner != snapshot.branch.id)


def plan_stats(
    snapshot: Snapshot, drift: Mapping[str, TableInspection], options: OptimizeOptions
) -> list[TableOptimizeStats]:
    """Return the rows of a dry run. Reads only; the sizes after the run are estimates."""
    errors: dict[str, OmnigraphError] = {}
    views = {view.alias: view for view in read_views(snapshot, options.tables, errors.__setitem__)}
    request = options.request()
    unwritten = find_unwritten(snapshot, options.tables)
    healthy = [view for alias, view in views.items() if alias not in drift and alias not in unwritten]
    plans = {plan.alias: plan for plan in plan_run(healthy, {}, request)}
    rows = []
    for entity in snapshot.schema.catalog.select_types(options.tables):
        alias = entity.alias
        row = TableOptimizeStats(table_key=alias, branch=snapshot.branch.name)
        if alias in errors:
            row = replace(row, reason=row_error(errors[alias]))
        elif alias in plans and request.rewrite is not None:
            row = _plan_row(row, views[alias], plans[alias], request.rewrite.rows)
        rows.append(_with_versions(row, snapshot, drift, unwritten))
    return sorted(rows, key=lambda row: display_order(row.table_key))


def _make_row(branch: str, table: TableResult) -> TableOptimizeStats:
    published, view = table.published, table.view
    groups = [group for done in published for group in done.work.groups]
    folded: list[str] = []
    built: list[str] = []
    for done in published:
        existing_names = {index.name for index in done.view.present}
        for spec in done.work.built:
            (folded if spec.name in existing_names else built).append(spec.column)
    row = TableOptimizeStats(
        table_key=table.alias,
        branch=branch,
        fragments_removed=sum(len(group.old) for group in groups),
        fragments_added=sum(len(group.new) for group in groups),
        bytes_before=published[0].view.size_bytes if published else 0,
        committed=bool(published),
        seconds=table.seconds,
        indexes_folded=tuple(dict.fromkeys(folded)),
        indexes_built=tuple(dict.fromkeys(built)),
        stripped=any(done.work.strip for done in published),
        commit=str(published[-1].commit.id) if published else None,
    )
    if table.error is not None:
        return replace(row, reason=row_error(table.error))
    assert view is not None, "a table without an error was read"
    newest = published[-1].work.groups if published and published[-1].view is view else ()
    head = None if table.drift is None else table.drift.facts.get("lance_head_version")
    return replace(
        row,
        bytes_before=(published[0].view if published else view).size_bytes,
        bytes_after=sum(fragment.size_bytes for fragment in fragments_after(view.fragments, newest).values()),
        skipped=_skip_reason(table),
        lance_head_version=head if isinstance(head, int) and not table.has_conflict else 0,
        pending_indexes=tuple(
            PendingIndex(index.property, index.reason)
            for index in table.indexes.values()
            if index.status is IndexStatus.SKIPPED
        ),
    )


def _skip_reason(table: TableResult) -> SkipReason | None:
    if table.has_conflict:
        return SkipReason.CONFLICTING_WRITES
    if table.drift is not None:
        return SkipReason.DRIFT_NEEDS_REPAIR
    if table.plan is not None and table.plan.has_unsupported_blobs:
        return SkipReason.BLOB_COLUMNS_UNSUPPORTED_BY_LANCE
    return None


def _with_versions(
    row: TableOptimizeStats, snapshot: Snapshot, drift: Mapping[str, TableInspection], unwritten: frozenset[str]
) -> TableOptimizeStats:
    """Return the row with the versions of the snapshot, and with the reason why the run skipped the table."""
    inspection = drift.get(row.table_key)
    if inspection is not None:
        published, head = inspection.table.pin.version, inspection.head_version or 0
        row = replace(row, skipped=SkipReason.DRIFT_NEEDS_REPAIR, pending_indexes=())
    else:
        table = snapshot.tables.get(row.table_key)
        published = 0 if table is None else table.pin.version
        head = max(published, row.lance_head_version)
    row = replace(row, manifest_version=published, lance_head_version=head)
    if row.table_key in unwritten:
        return replace(row, skipped=SkipReason.NOT_WRITTEN_ON_BRANCH, pending_indexes=())
    return row


def _plan_row(
    row: TableOptimizeStats, view: TableView, plan: TableMaintenancePlan, rows_per_fragment: int
) -> TableOptimizeStats:
    """Return the row of a dry run. The live rows of a group fill its new fragments evenly."""
    rows = dict(view.rows)
    replaced: dict[tuple[int, ...], range] = {}
    size = view.size_bytes
    last_id = max(view.fragments, default=0)
    for group in plan.groups:
        old = [view.fragments[number] for number in group]
        size -= sum(
            fragment.size_bytes * fragment.deleted_rows // max(1, fragment.rows + fragment.deleted_rows)
            for fragment in old
        )
        live = sum(rows.pop(number) for number in group)
        count = max(min(live, 1), live // rows_per_fragment)
        new_ids = range(last_id + 1, last_id + 1 + count)
        last_id += count
        rows.update((new, live // count + (new - new_ids[0] < live % count)) for new in new_ids)
        replaced[group] = new_ids
    present = indexes_after(view.present, replaced, split_segments(view.present, plan.groups))
    indexes = plan_indexes(TableIndexes(rows, view.declared, present), limits.INDEX_ROWS_PER_TASK)
    reasons = {index.spec: index.reason for index in indexes if index.reason}
    planned = [index.spec for index in indexes if index.fragment_ids] if plan.builds_indexes else []
    for spec in planned:  # as `plan_index` reports in a run
        if spec.kind is IndexKind.VECTOR and not has_vectors(view.dataset, spec.column):
            reasons[spec] = NO_VECTORS
    buildable = [spec for spec in planned if spec not in reasons]
    existing_names = {index.name for index in view.present}
    return replace(
        row,
        fragments_removed=sum(len(group) for group in plan.groups),
        fragments_added=sum(len(new_ids) for new_ids in replaced.values()),
        bytes_before=view.size_bytes,
        bytes_after=size,
        skipped=SkipReason.BLOB_COLUMNS_UNSUPPORTED_BY_LANCE if plan.has_unsupported_blobs else None,
        pending_indexes=tuple(
            PendingIndex(index.spec.column, reasons[index.spec]) for index in indexes if index.spec in reasons
        ),
        indexes_folded=tuple(dict.fromkeys(spec.column for spec in buildable if spec.name in existing_names)),
        indexes_built=tuple(dict.fromkeys(spec.column for spec in buildable if spec.name not in existing_names)),
        stripped=plan.strip,
    )
