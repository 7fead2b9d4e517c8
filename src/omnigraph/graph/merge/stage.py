"""Stage a merge: columns, names, types and rows.

In: a plan without conflicts. Out: one effect per table, and the manifest rows to publish with them if the schema
changes. A table whose columns and rows change moves by two consecutive transactions. The rows of a type that only
theirs has are copied to the files of main; another branch forks the table. A dropped type gets a tombstone. A crash
leaves only files and forks that nothing references.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from omnigraph.graph.manifest.publish import ManifestChange
from omnigraph.graph.manifest.records import Pin, TombstoneRecord
from omnigraph.graph.manifest.snapshot import open_pin, read_main_id
from omnigraph.graph.merge.plan import MergePlan
from omnigraph.graph.merge.schema_rows import AddedTable, new_table_plan
from omnigraph.graph.merge.table_plan import TableMerge
from omnigraph.graph.rows.entity_rows import RowLocations, column_names, locate, read_rows, row_ranges
from omnigraph.graph.schema_change import SchemaWork, column_plan
from omnigraph.graph.schema_plan import count_nulls
from omnigraph.graph.write.stage import StagingArea, WritableTable
from omnigraph.graph.write.states import SingleTransactionEffect
from omnigraph.schema.catalog import Entity
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.lance.columns import (
    ColumnPlan,
    stage_columns,
    stage_columns_in_process,
    stage_rows_for_new_schema,
)
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.stage import RowReplacement, StagedTransaction, stage_delete_rows, stage_row_changes


def stage_plan(area: StagingArea, plan: MergePlan) -> tuple[SingleTransactionEffect, ...]:
    """Return the effects on every table that gets or loses rows."""
    assert not plan.conflicts, "a plan with conflicts is not staged"
    return tuple(stage_table(area, area.open_for_write(table.entity.alias), table) for table in plan.tables)


def stage_table(
    area: StagingArea, target: WritableTable, plan: TableMerge, columns: StagedTransaction | None = None
) -> SingleTransactionEffect:
    """Return the effect on one table. `columns`: the transaction before it that changes the columns."""
    moved, new = _plan_rows(area, plan)
    removed = plan.removed.addresses.tolist()
    rows = plan.table.row_count + plan.inserted_rows - plan.removed_rows
    if columns is None:
        return area.transaction_effect(target, stage_row_changes(target.dataset, moved, new, removed), rows)
    row_changes = stage_rows_for_new_schema(target.dataset, columns, moved, new, removed)
    return area.transaction_effect(target, row_changes, rows, lead=columns)


def _plan_rows(area: StagingArea, plan: TableMerge) -> tuple[RowReplacement | None, pa.RecordBatchReader | None]:
    """Return the rows that replace ours, and the rows that are new here."""
    is_moved = plan.replaced.present
    moved, new = None, None
    if is_moved.any():
        replaced = plan.replaced.only(is_moved)
        rows = _read_taken(area, plan, plan.taken.only(is_moved))
        moved = RowReplacement(rows, replaced.identities.tolist(), replaced.addresses.tolist())
    if not is_moved.all():
        new = _read_taken(area, plan, plan.taken.only(~is_moved))
    return moved, new


def _read_taken(area: StagingArea, plan: TableMerge, taken: RowLocations) -> pa.RecordBatchReader:
    """Return a reader of rows of theirs. They are read while they are written."""

    def read_batches() -> Iterator[pa.RecordBatch]:
        source = open_pin(area.snapshot.root.child(plan.table.path), plan.theirs)
        for start, rows in row_ranges(plan.entity, len(taken.ids)):
            yield from read_rows(source, plan.entity, taken.slice(start, rows)).to_batches()

    return pa.RecordBatchReader.from_batches(arrow_schema(plan.entity), read_batches())


def stage_schema_merge(
    area: StagingArea, plan: MergePlan
) -> tuple[tuple[SingleTransactionEffect, ...], ManifestChange]:
    """Return everything that the merge does, except tables that our branch only references."""
    assert plan.schema is not None, "the schema changes"
    assert not plan.conflicts, "a plan with conflicts is not staged"
    work = SchemaWork()
    for old in area.snapshot.schema.catalog.types:
        _stage_type(area, old, plan, work)
    for added in plan.added:
        _stage_added(area, added, work)
    extra_changes = ManifestChange(
        tables=tuple(work.tables), tombstones=tuple(work.tombstones), schema=plan.schema.ours.schema
    )
    return tuple(work.effects), extra_changes


def _stage_type(area: StagingArea, old: Entity, plan: MergePlan, work: SchemaWork) -> None:
    assert plan.schema is not None, "the schema changes"
    table, ours = area.table(old.alias), plan.schema.ours
    new = ours.schema.catalog.type_with_id(table.type_id)
    if new is None or all(record.id != table.id for record in ours.tables.values()):
        work.tombstones.append(TombstoneRecord(table.id, table.alias, table.pin.version))
        return
    if any(adopted.id == table.id for adopted in plan.adopted):
        return
    rows: TableMerge | None = next((merge for merge in plan.tables if merge.table.id == table.id), None)
    has_columns = arrow_schema(old).equals(arrow_schema(new), check_metadata=True)
    if has_columns and rows is None:
        work.tables += [replace(table, alias=new.alias)] if new.alias != old.alias else []
        return
    target = area.open_for_write(old.alias)
    columns = None
    if not has_columns:
        remaining = table.row_count - (0 if rows is None else rows.removed_rows + rows.updated_rows)
        nulls = count_nulls(target.dataset, old, new)
        new_columns = column_plan(old, new, table.row_count, nulls=nulls, remaining=remaining)
        columns = stage_columns_in_process(target.dataset, new_columns)
    if rows is not None:
        effect = stage_table(area, target, rows, columns)
    else:
        assert columns is not None, "columns or rows change"
        effect = area.transaction_effect(target, columns, table.row_count)
    work.effects.append(replace(effect, table=table, alias=new.alias if new.alias != old.alias else None))


def _stage_added(area: StagingArea, added: AddedTable, work: SchemaWork) -> None:
    """Stage a type that only theirs has. Main gets copies of the rows. Another branch references or forks the table.

    The files of main are those on the main branch of Lance, which are empty until then. If they are not empty, another
    tool wrote there, and main gets a fork too.
    """
    main = read_main_id(area.snapshot)
    table = added.table
    is_owned_by_main = table.pin.branch is None and table.owner == main
    main_dataset = open_dataset(area.snapshot.root.child(table.path))
    is_main = area.snapshot.branch.id == main
    if is_main and not main_dataset.count_rows() and (is_owned_by_main or table.pin.branch is not None):
        _stage_rows(area, added, main_dataset, work)
    elif is_owned_by_main and not is_main and not len(added.left_out):
        work.tables.append(table)
    else:
        _stage_fork(area, added, work)


def _stage_fork(area: StagingArea, added: AddedTable, work: SchemaWork) -> None:
    """Create a Lance branch for our branch from their version, without the rows for which our side was chosen."""
    target = area.fork(added.table)
    fork = target.dataset
    if not len(added.left_out):
        pin = Pin(fork.branch, fork.version)
        work.tables.append(replace(added.table, pin=pin, owner=area.snapshot.branch.id))
        return
    addresses = locate(fork, None, added.left_out).addresses.tolist()
    effect = area.transaction_effect(target, stage_delete_rows(fork, addresses), added.row_count)
    work.effects.append(replace(effect, is_new=True))


def _stage_rows(area: StagingArea, added: AddedTable, empty: Dataset, work: SchemaWork) -> None:
    """Give the empty table of a type the columns of the type, and copy every row of theirs to it."""
    entity = added.entity
    ours = replace(added.table, pin=Pin(None, empty.version), owner=area.snapshot.branch.id, row_count=0)
    target = WritableTable(ours, empty, None)
    columns = None
    if not empty.schema.equals(arrow_schema(entity), check_metadata=True):
        columns = stage_columns(empty, ColumnPlan(schema=arrow_schema(entity), origins=column_names(empty, entity)))
    if added.row_count:
        rows = new_table_plan(area.snapshot.root, added)
        effect = stage_table(area, target, replace(rows, table=ours), columns)
    elif columns is not None:
        effect = area.transaction_effect(target, columns, 0)
    else:
        work.tables.append(ours)
        return
    work.effects.append(replace(effect, is_new=True))
