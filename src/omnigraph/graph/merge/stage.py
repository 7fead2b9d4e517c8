"""A merge through the Stage of the write path: their rows are written into our own datasets.

In: a plan without conflicts. Out: one staged transaction per table, and what the commit says beside. No merge adopts a
fork: rows are written into the dataset of the target; a row that replaces one of ours keeps its identity. Rows are read
and written a piece at a time. A crash leaves only files that nothing references.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.graph.images import Located, pieces, read_rows
from omnigraph.graph.merge.plan import MergePlan
from omnigraph.graph.merge.table_plan import TablePlan
from omnigraph.graph.stage import Stage, WritableTable
from omnigraph.graph.staged import ExactEffect
from omnigraph.graph.tables import open_pin
from omnigraph.schema import arrow_schema
from omnigraph.storage.later_rows import stage_later_rows
from omnigraph.storage.staging import RowReplacement, StagedTransaction, stage_row_changes


def stage_plan(at: Stage, plan: MergePlan) -> tuple[ExactEffect, ...]:
    """The effects on every table that gets rows or loses some."""
    assert not plan.conflicts, "a plan with conflicts is not staged"
    return tuple(stage_table(at, at.writable(table.entity.alias), table) for table in plan.tables)


def stage_table(
    at: Stage, target: WritableTable, plan: TablePlan, columns: StagedTransaction | None = None
) -> ExactEffect:
    """The effect on one table. `columns`: it gets other columns first, and the rows have those."""
    moved, new = _rows(at, plan)
    removed = plan.removed.addresses.tolist()
    rows = plan.table.row_count + plan.inserted_rows - plan.removed_rows
    if columns is None:
        return at.exact(target, stage_row_changes(target.dataset, moved, new, removed), rows)
    later = stage_later_rows(target.dataset, columns, moved, new, removed)
    return at.exact(target, later, rows, lead=columns)


def _rows(at: Stage, plan: TablePlan) -> tuple[RowReplacement | None, pa.RecordBatchReader | None]:
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


def _reader(at: Stage, plan: TablePlan, wanted: Located) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(arrow_schema(plan.entity), _batches(at, plan, wanted))


def _batches(at: Stage, plan: TablePlan, wanted: Located) -> Iterator[pa.RecordBatch]:
    """Their rows, as they are written."""
    source = open_pin(at.snapshot.root.child(plan.table.path), plan.theirs)
    for start, rows in pieces(plan.entity, len(wanted.ids)):
        yield from read_rows(source, plan.entity, wanted.slice(start, rows)).to_batches()
