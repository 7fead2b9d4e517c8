"""A merge that changes the schema of our side, through the Stage of the write path: columns, names, types and rows.

In: a plan without conflicts whose schema changes. Out: one effect per table, and what is published beside. A table
whose columns and rows change moves by two transactions that follow each other. A type of theirs comes as a fork of its
table, owned by our branch; one that goes gets a tombstone. A crash leaves only files and forks that nothing references.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.graph.merge.plan import MergePlan
from omnigraph.graph.merge.schemas import MergedSchema
from omnigraph.graph.merge.stage import stage_table
from omnigraph.graph.merge.table_plan import TablePlan
from omnigraph.graph.publish import Change
from omnigraph.graph.records import Pin, TableRecord, TombstoneRecord
from omnigraph.graph.schema_change import SchemaWork, column_plan
from omnigraph.graph.stage import Stage, discard_fork
from omnigraph.graph.staged import ExactEffect
from omnigraph.schema import EdgeType, NodeType, arrow_schema
from omnigraph.storage.columns import stage_columns_here

Entity = NodeType | EdgeType


def stage_schema_merge(at: Stage, plan: MergePlan) -> tuple[tuple[ExactEffect, ...], Change]:
    """Everything that the merge does, but for the tables that our branch only points at."""
    assert plan.schema is not None, "the schema changes"
    assert not plan.conflicts, "a plan with conflicts is not staged"
    work = SchemaWork()
    done = False
    try:
        for old in at.snapshot.schema.catalog.types:
            _stage_type(at, old, plan, work)
        for table in plan.schema.added:
            work.tables.append(_forked(at, table, work))
        done = True
    finally:
        if not done:
            for target in work.targets:
                discard_fork(target)
    beside = Change(
        tables=tuple(work.tables), tombstones=tuple(work.tombstones), schema=plan.schema.ours.schema
    )
    return tuple(work.effects), beside


def _stage_type(at: Stage, old: Entity, plan: MergePlan, work: SchemaWork) -> None:
    assert plan.schema is not None
    table = at.table(old.alias)
    new = _after(plan.schema, table)
    if new is None:
        work.tombstones.append(TombstoneRecord(table.id, table.alias, table.pin.version))
        return
    if any(adopted.id == table.id for adopted in plan.adopted):
        return
    rows: TablePlan | None = next((one for one in plan.tables if one.table.id == table.id), None)
    has_columns = arrow_schema(old).equals(arrow_schema(new), check_metadata=True)
    if has_columns and rows is None:
        work.tables += [replace(table, alias=new.alias)] if new.alias != old.alias else []
        return
    target = at.writable(old.alias)
    work.targets.append(target)
    columns = None
    if not has_columns:
        staying = table.row_count - (0 if rows is None else rows.removed_rows + rows.updated_rows)
        wanted = column_plan(old, new, table.row_count, staying=staying)
        columns = stage_columns_here(target.dataset, wanted)
    if rows is not None:
        effect = stage_table(at, target, rows, columns)
    else:
        assert columns is not None, "something changes"
        effect = at.exact(target, columns, table.row_count)
    work.effects.append(replace(effect, table=table, alias=new.alias if new.alias != old.alias else None))


def _after(schema: MergedSchema, table: TableRecord) -> Entity | None:
    alias = next((one.alias for one in schema.ours.tables.values() if one.id == table.id), None)
    return None if alias is None else schema.ours.schema.catalog.type_with_id(table.type_id)


def _forked(at: Stage, table: TableRecord, work: SchemaWork) -> TableRecord:
    """A type of theirs: our branch gets a Lance branch of its own, from their version."""
    target = at.forked(table)
    work.targets.append(target)
    pin = Pin(target.dataset.branch, target.dataset.version)
    return replace(table, pin=pin, owner=at.snapshot.branch.id)
