"""Stage a schema change: what a plan does to the tables of a branch.

In: a staging area, a plan that has no unsupported change and whose rules the rows obey, and a function that writes
the values of filled columns. Out: a `StagedWrite`. Each table whose columns change moves by one transaction. New
types get their own tables, which nothing references until the publish. A dropped type gets a tombstone, and a renamed
type another alias. The schema row is published with them. A failure leaves only unreferenced files.
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
from omnigraph.graph.schema_plan import SchemaPlan
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import SingleTransactionEffect, StagedWrite
from omnigraph.schema.catalog import Entity
from omnigraph.schema.catalog_json import catalog_to_json, schema_hash
from omnigraph.schema.evolution.steps import AddType, DropProperty, DropType, TypeStep
from omnigraph.schema.evolution.type_diff import find_null_replacements
from omnigraph.schema.tables import arrow_schema, system_columns
from omnigraph.storage.lance.columns import ColumnPlan, WrittenColumns, stage_columns
from omnigraph.storage.lance.dataset import Dataset, create_dataset

HARD_DROPS: Final = "hard_drops"
"""The count of permanent drops in a commit: cleanup deletes the states before such a commit."""

WriteColumns = Callable[[Dataset, ColumnPlan], Sequence[WrittenColumns]]
"""Writes the values of filled columns for every fragment of a dataset."""


@dataclass(slots=True)
class SchemaWork:
    """What was staged so far."""

    effects: list[SingleTransactionEffect] = field(default_factory=list)
    tables: list[TableRecord] = field(default_factory=list)
    tombstones: list[TombstoneRecord] = field(default_factory=list)


def stage_schema(area: StagingArea, plan: SchemaPlan, write: WriteColumns) -> StagedWrite:
    """Stage everything that the plan does, as one write."""
    work = SchemaWork()
    for old in area.snapshot.schema.catalog.types:
        _stage_type(area, old, plan, write, work)
    main = read_main_id(area.snapshot)
    for planned in plan.steps:
        if isinstance(planned.step, AddType):
            work.tables.append(_create_table(area, planned.step.entity, main))
    schema = SchemaRecord(plan.source, catalog_to_json(plan.catalog), schema_hash(plan.catalog))
    extra_changes = ManifestChange(tables=tuple(work.tables), tombstones=tuple(work.tombstones), schema=schema)
    type_ids = _changed_types(plan)
    reads = frozenset(table.id for table in area.snapshot.tables.values() if table.type_id in type_ids)
    hard_drops = _hard_drops(plan)
    counts = {"steps": len(plan.steps)} | ({HARD_DROPS: len(hard_drops)} if hard_drops else {})
    staged = area.finish(tuple(work.effects), reads, counts, extra_changes)
    return replace(staged, counter_catalog=plan.counter_catalog)


def column_plan(
    old: Entity, new: Entity, rows: int, *, nulls: Mapping[str, int], remaining: int | None = None
) -> ColumnPlan:
    """Return the columns of a type after a change. A new column with a default is filled if there are rows.

    `nulls` has the number of nulls for each property that `find_null_replacements` returns: if it is 0, the column is
    only renamed. `remaining` is the number of rows that the same write does not replace or remove; default: all rows.
    """
    system = system_columns(old)
    origins = {name: name for name in system}
    fills: dict[str, object] = {}
    null_fills = {name: value for name, (_, value) in find_null_replacements(old, new).items() if nulls[name]}
    for property_ in new.properties:
        before = old.property_with_id(property_.id)
        if before is not None:
            origins[property_.name] = before.name
        elif rows and property_.value_of_older_rows is not None:
            fills[property_.name] = property_.value_of_older_rows
        elif not property_.nullable and (rows if remaining is None else remaining):
            raise InvariantError(
                f"{new.alias}.{property_.name} is required, but existing rows have no value for it",
                code="required_without_fill",
                hint="Nothing was written. Give the property a default, or make it nullable.",
                facts={"type": new.alias, "property": property_.name},
            )
    return ColumnPlan(schema=arrow_schema(new), origins=origins, fills=fills, null_fills=null_fills)


def _stage_type(area: StagingArea, old: Entity, plan: SchemaPlan, write: WriteColumns, work: SchemaWork) -> None:
    table = area.table(old.alias)
    new = plan.catalog.type_with_id(old.id)
    if new is None:
        work.tombstones.append(TombstoneRecord(table.id, table.alias, table.pin.version))
    elif not arrow_schema(old).equals(arrow_schema(new), check_metadata=True):
        target = area.open_for_write(old.alias)
        nulls = plan.null_counts.get(old.id, {})
        columns = column_plan(old, new, table.row_count, nulls=nulls)
        drops_permanently = any(isinstance(step, DropProperty) and step.type_id == old.id for step in _hard_drops(plan))
        columns = replace(columns, erases_dropped=table.row_count > 0 and drops_permanently)
        written = write(target.dataset, columns) if columns.writes_values else ()
        transaction = stage_columns(target.dataset, columns, written)
        effect = area.transaction_effect(target, transaction, table.row_count)
        work.effects.append(replace(effect, alias=new.alias if new.alias != old.alias else None))
    elif new.alias != old.alias:
        work.tables.append(replace(table, alias=new.alias))


def _create_table(area: StagingArea, entity: Entity, main: BranchId) -> TableRecord:
    """Create the empty table of a new type. Its path was never used before, so no other process writes there.

    The main branch of Lance belongs to main, even while main has no row for the table: another branch forks it before
    its first write.
    """
    path = table_path(entity)
    location = area.snapshot.root.child(path)
    failpoint(Failpoint.SCHEMA_TABLE_BEFORE)
    dataset = create_dataset(location, arrow_schema(entity).empty_table(), area.properties)
    pin = Pin(None, dataset.version)
    return TableRecord(
        type_id=entity.id,
        incarnation=entity.incarnation,
        alias=entity.alias,
        path=path,
        pin=pin,
        owner=main,
        row_count=0,
    )


def _hard_drops(plan: SchemaPlan) -> list[DropProperty | DropType]:
    """Return the steps that drop values permanently."""
    steps = (planned.step for planned in plan.steps)
    return [step for step in steps if isinstance(step, DropProperty | DropType) and step.hard]


def _changed_types(plan: SchemaPlan) -> frozenset[TypeId]:
    """Return the types that a step names: their rows must still be those that the plan was made for."""
    steps = (planned.step for planned in plan.steps)
    return frozenset(step.type_id for step in steps if isinstance(step, TypeStep))
