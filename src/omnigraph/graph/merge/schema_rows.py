"""What another schema makes a merge look at beside the rows that theirs changed.

In: the sides of a merge across schemas. Out: rows of theirs whose value in a new column is not the one that ours gets
there; rows of ours that a rule of theirs has never seen; and every row of a type that comes with theirs, to be checked
with the others. All of it costs by what changed, but for the new columns, which are read once. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.changes import compare_pins, union
from omnigraph.graph.equality import same_values
from omnigraph.graph.images import Entity, column_names, filled_column, locate, pieces, read_rows
from omnigraph.graph.merge.bases import Base, base_commits
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind, EntityName
from omnigraph.graph.merge.schemas import MergedSchema
from omnigraph.graph.merge.table_plan import TablePlan, key_columns
from omnigraph.graph.records import Pin, TableRecord
from omnigraph.integrity.row_rules import row_breaches
from omnigraph.schema import arrow_schema
from omnigraph.storage.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.row_reads import NO_TEXTS, Texts, every_id


def filled_otherwise(location: Location, entity: Entity, names: tuple[str, ...], theirs: Pin) -> Texts:
    """The ids of their rows that have in a new column another value than our rows get."""
    dataset = open_dataset(location, branch=theirs.branch, version=theirs.version)
    there = column_names(dataset, entity)
    found: list[Texts] = []
    for name in names:
        field = arrow_schema(entity).field(name)
        for batch in dataset.read_batches(["id", there[name]]):
            column: Any = batch.column(there[name])
            filled = filled_column(entity, field, len(column))
            if filled.null_count == len(column):
                differs: Any = column.is_valid()
            else:
                differs = pa.array(~same_values(column.cast(field.type), filled))
            found.append(batch.column("id").filter(differs))
    return union(*found)


def plans_to_check(
    schema: MergedSchema, plans: Sequence[TablePlan], base: Base
) -> tuple[list[TablePlan], list[Conflict]]:
    """What the rules over several rows have to look at, and what of ours breaks a rule on single values.

    Beside the rows that are taken these are rows of ours under rules of theirs, and every row of a type of theirs.
    """
    by_type = {plan.entity.id: plan for plan in plans}
    conflicts: list[Conflict] = []
    root, catalog = schema.ours.root, schema.ours.schema.catalog
    for entity in catalog.types:
        table = schema.ours.tables.get(entity.alias)
        if table is None or not schema.new_rules(entity):
            continue
        rows = our_rows(root.child(table.path), entity, table, base)
        plan = by_type.get(entity.id) or _nothing_taken(entity, table)
        kept = rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=_touched(plan))))
        conflicts += value_conflicts(entity, kept)
        keys = pa.concat_tables([plan.keys, kept.select(plan.keys.schema.names)])
        by_type[entity.id] = replace(plan, keys=keys.combine_chunks())
    for table in schema.added:
        added = catalog.type_with_id(table.type_id)
        assert added is not None, "its table comes with it"
        by_type[added.id] = new_table_plan(root.child(table.path), added, table)
    return list(by_type.values()), conflicts


def _touched(plan: TablePlan) -> Texts:
    return union(plan.taken.ids, plan.removed.ids)


def _nothing_taken(entity: Entity, table: TableRecord) -> TablePlan:
    none = locate(None, entity, NO_TEXTS)
    keys = arrow_schema(entity).empty_table().select(key_columns(entity))
    return TablePlan(entity, table, table.pin, none, none, none, keys, ())


def new_table_plan(location: Location, entity: Entity, table: TableRecord) -> TablePlan:
    """Every row of a type that our side does not have yet, as if it were taken."""
    dataset = open_dataset(location, branch=table.pin.branch, version=table.pin.version)
    there = column_names(dataset, entity)
    names = key_columns(entity)
    keys = dataset.read([there[name] for name in names]).select([there[name] for name in names])
    ids: Texts = every_id(dataset)
    located = locate(dataset, entity, ids)
    nowhere = locate(None, entity, ids)
    none = nowhere.only(nowhere.present)
    return TablePlan(entity, table, table.pin, located, nowhere, none, keys.rename_columns(names), ())


def our_rows(location: Location, entity: Entity, table: TableRecord, base: Base) -> pa.Table:
    """The rows that our side wrote since the base, in the columns of the type."""
    dataset = open_dataset(location, branch=table.pin.branch, version=table.pin.version)
    found: list[Texts] = [NO_TEXTS]
    for one in base_commits(base):
        pin = one.pins.get(table.id)
        if pin is None:
            found.append(every_id(dataset))
        elif pin != table.pin:
            found.append(compare_pins(location, pin, table.pin).ids())
    located = locate(dataset, entity, union(*found))
    there = located.only(located.present)
    parts = [read_rows(dataset, entity, there.slice(*piece)) for piece in pieces(entity, len(there.ids))]
    return pa.concat_tables(parts) if parts else arrow_schema(entity).empty_table()


def value_conflicts(entity: Entity, rows: pa.Table) -> Iterator[Conflict]:
    """Rows of ours that break a rule on single values which they have not known."""
    columns: dict[str, Any] = {name: rows.column(name).combine_chunks() for name in rows.schema.names}
    ids = rows.column("id").to_pylist()
    for breach in row_breaches(entity, columns) if rows.num_rows else ():
        for row, value in zip(breach.rows.tolist(), breach.shown_values(), strict=True):
            name = EntityName(entity.alias, str(ids[row]))
            message = f"{breach.property}: {breach.message} ({value}), by a rule of the source"
            properties = (breach.property,) if breach.property else ()
            kind = ConflictKind.VALUE_CONSTRAINT_VIOLATION
            yield Conflict(kind, name, message, properties, (), (name,))
