"""A merge that changes the schema of our side, through the Stage of the write path: columns, names, types and rows.

In: a plan without conflicts whose schema changes. Out: one effect per table, and what is published with them. A table
whose columns and rows change moves by two transactions that follow each other. The rows of a type of theirs are copied
to main's own files of its table; another branch forks it. A type that goes gets a tombstone. A crash leaves only files
and forks that nothing references.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from omnigraph.graph.manifest.publish import ManifestChange
from omnigraph.graph.manifest.records import Pin, TableRecord, TombstoneRecord
from omnigraph.graph.manifest.snapshot import open_pin, read_main_id
from omnigraph.graph.merge.plan import MergePlan
from omnigraph.graph.merge.schema_rows import AddedTable, new_table_plan
from omnigraph.graph.merge.schemas import MergedSchema
from omnigraph.graph.merge.table_plan import TableMerge
from omnigraph.graph.rows.entity_rows import Located, column_names, locate, pieces, read_rows
from omnigraph.graph.schema_change import SchemaWork, column_plan
from omnigraph.graph.schema_plan import count_nulls
from omnigraph.graph.write.stage import StagingArea, WritableTable
from omnigraph.graph.write.states import SingleTransactionEffect
from omnigraph.schema.catalog import Entity
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.lance.columns import (
    ColumnPlan,
    stage_columns,
    stage_rows_for_new_schema,
    write_and_stage_columns,
)
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.stage import (
    RowReplacement,
    StagedTransaction,
    stage_delete_rows,
    stage_row_changes,
)


def stage_plan(at: StagingArea, plan: MergePlan) -> tuple[SingleTransactionEffect, ...]:
    """The effects on every table that gets rows or loses some."""
    assert not plan.conflicts, "a plan with conflicts is not staged"
    return tuple(stage_table(at, at.writable(table.entity.alias), table) for table in plan.tables)


def stage_table(
    at: StagingArea, target: WritableTable, plan: TableMerge, columns: StagedTransaction | None = None
) -> SingleTransactionEffect:
    """The effect on one table. `columns`: it gets other columns first, and the rows have those."""
    moved, new = _rows(at, plan)
    removed = plan.removed.addresses.tolist()
    rows = plan.table.row_count + plan.inserted_rows - plan.removed_rows
    if columns is None:
        return at.transaction_effect(target, stage_row_changes(target.dataset, moved, new, removed), rows)
    later = stage_rows_for_new_schema(target.dataset, columns, moved, new, removed)
    return at.transaction_effect(target, later, rows, lead=columns)


def _rows(at: StagingArea, plan: TableMerge) -> tuple[RowReplacement | None, pa.RecordBatchReader | None]:
    """The rows that replace ours, and those that are new here."""
    is_moved = plan.replaced.present
    moved, new = None, None
    if is_moved.any():
        there = plan.replaced.only(is_moved)
        rows = _reader(at, plan, plan.taken.only(is_moved))
        moved = RowReplacement(rows, there.identities.tolist(), there.addresses.tolist())
    if not is_moved.all():
        new = _reader(at, plan, plan.taken.only(~is_moved))
    return moved, new


def _reader(at: StagingArea, plan: TableMerge, wanted: Located) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(arrow_schema(plan.entity), _batches(at, plan, wanted))


def _batches(at: StagingArea, plan: TableMerge, wanted: Located) -> Iterator[pa.RecordBatch]:
    """Their rows, as they are written."""
    source = open_pin(at.snapshot.root.child(plan.table.path), plan.theirs)
    for start, rows in pieces(plan.entity, len(wanted.ids)):
        yield from read_rows(source, plan.entity, wanted.slice(start, rows)).to_batches()


def stage_schema_merge(
    at: StagingArea, plan: MergePlan
) -> tuple[tuple[SingleTransactionEffect, ...], ManifestChange]:
    """Everything that the merge does, but for the tables that our branch only points at."""
    assert plan.schema is not None, "the schema changes"
    assert not plan.conflicts, "a plan with conflicts is not staged"
    work = SchemaWork()
    for old in at.snapshot.schema.catalog.types:
        _stage_type(at, old, plan, work)
    for added in plan.added:
        _stage_added(at, added, work)
    extra_changes = ManifestChange(
        tables=tuple(work.tables), tombstones=tuple(work.tombstones), schema=plan.schema.ours.schema
    )
    return tuple(work.effects), extra_changes


def _stage_type(at: StagingArea, old: Entity, plan: MergePlan, work: SchemaWork) -> None:
    assert plan.schema is not None
    table = at.table(old.alias)
    new = _after(plan.schema, table)
    if new is None:
        work.tombstones.append(TombstoneRecord(table.id, table.alias, table.pin.version))
        return
    if any(adopted.id == table.id for adopted in plan.adopted):
        return
    rows: TableMerge | None = next((one for one in plan.tables if one.table.id == table.id), None)
    has_columns = arrow_schema(old).equals(arrow_schema(new), check_metadata=True)
    if has_columns and rows is None:
        work.tables += [replace(table, alias=new.alias)] if new.alias != old.alias else []
        return
    target = at.writable(old.alias)
    columns = None
    if not has_columns:
        staying = table.row_count - (0 if rows is None else rows.removed_rows + rows.updated_rows)
        nulls = count_nulls(target.dataset, old, new)
        wanted = column_plan(old, new, table.row_count, nulls=nulls, staying=staying)
        columns = write_and_stage_columns(target.dataset, wanted)
    if rows is not None:
        effect = stage_table(at, target, rows, columns)
    else:
        assert columns is not None, "something changes"
        effect = at.transaction_effect(target, columns, table.row_count)
    work.effects.append(replace(effect, table=table, alias=new.alias if new.alias != old.alias else None))


def _after(schema: MergedSchema, table: TableRecord) -> Entity | None:
    alias = next((one.alias for one in schema.ours.tables.values() if one.id == table.id), None)
    return None if alias is None else schema.ours.schema.catalog.type_with_id(table.type_id)


def _stage_added(at: StagingArea, added: AddedTable, work: SchemaWork) -> None:
    """A type of theirs. A branch points at it where it is main's, and else forks it; main gets the rows themselves.

    Main's own files of the table are those on Lance's main, which are empty until then. If they are not, something else
    wrote there: then main has to take a fork too.
    """
    main = read_main_id(at.snapshot)
    table = added.table
    is_mains = table.pin.branch is None and table.owner == main
    free = open_dataset(at.snapshot.root.child(table.path))
    is_main = at.snapshot.branch.id == main
    if is_main and not free.count_rows() and (is_mains or table.pin.branch is not None):
        _stage_rows(at, added, free, work)
    elif is_mains and not is_main and not len(added.left_out):
        work.tables.append(table)
    else:
        _stage_fork(at, added, work)


def _stage_fork(at: StagingArea, added: AddedTable, work: SchemaWork) -> None:
    """Our branch gets a Lance branch of its own, from their version, and loses there what was decided against."""
    target = at.forked(added.table)
    fork = target.dataset
    if not len(added.left_out):
        pin = Pin(fork.branch, fork.version)
        work.tables.append(replace(added.table, pin=pin, owner=at.snapshot.branch.id))
        return
    gone = locate(fork, None, added.left_out).addresses.tolist()
    effect = at.transaction_effect(target, stage_delete_rows(fork, gone), added.row_count)
    work.effects.append(replace(effect, is_new=True))


def _stage_rows(at: StagingArea, added: AddedTable, empty: Dataset, work: SchemaWork) -> None:
    """Bring the empty table of a type to the columns of the type, and copy every row of theirs to it."""
    entity = added.entity
    ours = replace(added.table, pin=Pin(None, empty.version), owner=at.snapshot.branch.id, row_count=0)
    target = WritableTable(ours, empty, None)
    columns = None
    if not empty.schema.equals(arrow_schema(entity), check_metadata=True):
        columns = stage_columns(empty, ColumnPlan(arrow_schema(entity), column_names(empty, entity)))
    if added.row_count:
        rows = new_table_plan(at.snapshot.root, added)
        effect = stage_table(at, target, replace(rows, table=ours), columns)
    elif columns is not None:
        effect = at.transaction_effect(target, columns, 0)
    else:
        work.tables.append(ours)
        return
    work.effects.append(replace(effect, is_new=True))
