"""The Stage of a schema change: what a plan does to the tables of a branch, ready for the lease.

In: a stage, a plan without anything unsupported whose rules the rows obey, and whoever writes the values of filled
columns. Out: `StagedWrite`. Each table whose columns change moves by one exact transaction; new types get tables of
their own, which nothing names until the publish; a dropped type gets a tombstone; a renamed one another alias; the
schema row is published with them. A failure leaves only unreferenced files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from omnigraph.base.errors import InvariantError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import BranchId, TypeId
from omnigraph.graph.manifest.layout import table_path
from omnigraph.graph.manifest.publish import ManifestChange
from omnigraph.graph.manifest.records import Pin, SchemaRecord, TableRecord, TombstoneRecord
from omnigraph.graph.manifest.snapshot import read_main_id
from omnigraph.graph.recovery.history import operation_properties
from omnigraph.graph.schema_plan import SchemaPlan
from omnigraph.graph.write.stage import Outcome, StagingArea
from omnigraph.graph.write.states import SingleTransactionEffect, StagedWrite
from omnigraph.schema.catalog import Entity
from omnigraph.schema.catalog_json import catalog_to_json, schema_hash
from omnigraph.schema.evolution.steps import AddType, DropProperty, DropType, UpdateInterfaces, UpdateText
from omnigraph.schema.evolution.type_diff import null_filled
from omnigraph.schema.tables import arrow_schema, system_columns
from omnigraph.storage.lance.columns import ColumnPlan, WrittenColumns, stage_columns, stage_written_columns
from omnigraph.storage.lance.dataset import Dataset, create_dataset

HARD_DROPS: Final = "hard_drops"
"""The count by which a commit says that something was dropped for good: cleanup lets go of what was before it."""

WriteColumns = Callable[[Dataset, ColumnPlan], Sequence[WrittenColumns]]
"""Writes the values of filled columns for every fragment of a dataset."""


@dataclass(slots=True)
class SchemaWork:
    """What has been staged so far."""

    effects: list[SingleTransactionEffect] = field(default_factory=list)
    tables: list[TableRecord] = field(default_factory=list)
    tombstones: list[TombstoneRecord] = field(default_factory=list)


def stage_schema(at: StagingArea, plan: SchemaPlan, write: WriteColumns) -> StagedWrite:
    """Everything that the plan does, as one write."""
    work = SchemaWork()
    for old in at.snapshot.schema.catalog.types:
        _stage_type(at, old, plan, write, work)
    main = read_main_id(at.snapshot)
    for planned in plan.steps:
        if isinstance(planned.step, AddType):
            work.tables.append(_create_table(at, planned.step.entity, main))
    schema = SchemaRecord(plan.source, catalog_to_json(plan.catalog), schema_hash(plan.catalog))
    extra_changes = ManifestChange(
        tables=tuple(work.tables), tombstones=tuple(work.tombstones), schema=schema
    )
    concerned = _concerned(plan)
    reads = frozenset(table.id for table in at.snapshot.tables.values() if table.type_id in concerned)
    counts = {"steps": len(plan.steps)} | ({HARD_DROPS: hard} if (hard := _hard_drops(plan)) else {})
    return at.finish(tuple(work.effects), reads, Outcome(counts, extra_changes, counted=plan.counted))


def column_plan(
    old: Entity,
    new: Entity,
    rows: int,
    *,
    nulls: Mapping[str, int],
    staying: int | None = None,
) -> ColumnPlan:
    """The columns of a type after a change; a column that came with a default is filled where there are rows.

    `nulls` has the number of nulls for each property that `null_filled` returns: if there are none, the column is only
    renamed. `staying` are the rows that the same write does not replace or remove (default: all of them).
    """
    system = system_columns(old)
    origins = {name: name for name in system}
    fills: dict[str, object] = {}
    null_fills = {name: fill for name, (_, fill) in null_filled(old, new).items() if nulls[name]}
    for found in new.properties:
        before = old.property_with_id(found.id)
        if before is not None:
            origins[found.name] = before.name
        elif rows and found.fill is not None:
            fills[found.name] = found.fill
        elif not found.nullable and (rows if staying is None else staying):
            raise InvariantError(
                f"{new.alias}.{found.name} needs a value and there is none for the rows that stay",
                code="required_without_fill",
                hint="nothing was written; give the property a default, or make it nullable",
                facts={"type": new.alias, "property": found.name},
            )
    return ColumnPlan(arrow_schema(new), origins, fills, null_fills)


def _stage_type(
    at: StagingArea, old: Entity, plan: SchemaPlan, write: WriteColumns, work: SchemaWork
) -> None:
    table = at.table(old.alias)
    new = plan.catalog.type_with_id(old.id)
    if new is None:
        work.tombstones.append(TombstoneRecord(table.id, table.alias, table.pin.version))
    elif not arrow_schema(old).equals(arrow_schema(new), check_metadata=True):
        target = at.writable(old.alias)
        nulls = plan.null_counts.get(old.id, {})
        columns = column_plan(old, new, table.row_count, nulls=nulls)
        columns = replace(columns, erases_dropped=table.row_count > 0 and _forgets(plan, old))
        if columns.writes:
            written = write(target.dataset, columns)
            transaction = stage_written_columns(target.dataset, columns, written)
        else:
            transaction = stage_columns(target.dataset, columns)
        effect = at.transaction_effect(target, transaction, table.row_count)
        work.effects.append(replace(effect, alias=new.alias if new.alias != old.alias else None))
    elif new.alias != old.alias:
        work.tables.append(replace(table, alias=new.alias))


def _create_table(at: StagingArea, entity: Entity, main: BranchId) -> TableRecord:
    """The empty table of a new type. Its path has never been used, so nobody else can be there.

    Lance's main of a table is main's, also while main knows nothing of it: a branch forks it before its first write.
    """
    path = table_path(entity)
    properties = operation_properties(at.operation, at.commit, at.kind)
    place = at.snapshot.root.child(path)
    failpoint(Failpoint.SCHEMA_TABLE_BEFORE)
    made = create_dataset(place, arrow_schema(entity).empty_table(), properties)
    pin = Pin(None, made.version)
    return TableRecord(entity.id, entity.incarnation, entity.alias, path, pin, main, 0)


def _forgets(plan: SchemaPlan, entity: Entity) -> bool:
    """Whether a column of the type is dropped for good."""
    steps = (planned.step for planned in plan.steps)
    return any(isinstance(step, DropProperty) and step.hard and step.type_id == entity.id for step in steps)


def _hard_drops(plan: SchemaPlan) -> int:
    steps = (planned.step for planned in plan.steps)
    return sum(isinstance(step, DropProperty | DropType) and step.hard for step in steps)


def _concerned(plan: SchemaPlan) -> frozenset[TypeId]:
    """The types that a step names: their rows must still be those that the plan was made for."""
    steps = (planned.step for planned in plan.steps)
    return frozenset(step.type_id for step in steps if not isinstance(step, UpdateInterfaces | UpdateText))
