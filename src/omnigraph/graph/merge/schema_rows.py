"""What another schema makes a merge look at beside the rows that theirs changed.

In: the sides of a merge across schemas. Out: rows of theirs whose value in a new column is not the one that ours gets
there; every row of ours that stays under a new rule of theirs, and the nodes whose edges of such a type ours took away;
and every row of a type that comes with theirs, to be checked with the others. New columns and the columns of types with
new rules are read once; the rest costs by what changed. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.manifest.records import Pin, TableId, TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot, open_pin, open_table
from omnigraph.graph.merge.bases import Base, base_commits
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind, EntityName, Side
from omnigraph.graph.merge.rules import MergedLookup
from omnigraph.graph.merge.schemas import MergedSchema
from omnigraph.graph.merge.table_plan import TableMerge
from omnigraph.graph.rows.changed_rows import compare_pins, union
from omnigraph.graph.rows.entity_rows import (
    blob_names,
    column_names,
    filled_column,
    locate,
    null_fill,
    same_values,
    with_null_fill,
)
from omnigraph.graph.schema_plan import UnsupportedSchemaChangeError, refusal_text, refusal_to_json
from omnigraph.integrity.row_rules import row_breaches
from omnigraph.integrity.set_rules import key_columns
from omnigraph.schema.catalog import EdgeType, Entity
from omnigraph.schema.evolution.codes import EvolutionCode
from omnigraph.schema.evolution.steps import (
    AddConstraint,
    AddProperty,
    RelaxNullability,
    RequiredRule,
    Unsupported,
    UpdateInterfaces,
    UpdateText,
)
from omnigraph.schema.property_types import EnumType
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.lance.dataset import Texts
from omnigraph.storage.lance.read import NO_TEXTS, every_id
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True, eq=False)
class AddedTable:
    """A table that comes with its type. `left_out` are the rows for which somebody chose our side, which has none."""

    entity: Entity
    table: TableRecord
    left_out: Texts

    @property
    def row_count(self) -> int:
        return self.table.row_count - len(self.left_out)


def added_tables(schema: MergedSchema, chosen: Mapping[str, Mapping[str, Side]]) -> tuple[AddedTable, ...]:
    """The tables of theirs that our side does not have. `chosen` are the sides of single rows, by table and id."""
    found: list[AddedTable] = []
    for table in schema.added:
        entity = schema.ours.schema.catalog.type_with_id(table.type_id)
        assert entity is not None, "its table comes with it"
        named = [name for name, side in chosen.get(table.alias, {}).items() if side is Side.OURS]
        left_out: Texts = pa.array(sorted(named), pa.utf8())
        if named:
            there = locate(open_table(schema.ours.root, table), None, left_out)
            left_out = there.only(there.present).ids
        found.append(AddedTable(entity, table, left_out))
    return tuple(found)


def filled_otherwise(location: Location, entity: Entity, names: tuple[str, ...], theirs: Pin) -> Texts:
    """The ids of their rows that have in a new column another value than our rows get."""
    dataset = open_pin(location, theirs)
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


def refuse_blob_beside_fill(schema: MergedSchema, entity: Entity) -> None:
    """Raise as a plan of the schema does: values are filled in by copying what else changes, and no blob is copied."""
    steps = [step for step in schema.steps if not isinstance(step, UpdateInterfaces | UpdateText)]
    steps = [step for step in steps if step.type_id == entity.id]
    fills = [step.property.name for step in steps if isinstance(step, AddProperty)]
    fills = [name for name in fills if (found := entity.property_named(name)) and found.fill is not None]
    changed = [step.property for step in steps if isinstance(step, RelaxNullability)]
    rules = (step.constraint for step in steps if isinstance(step, AddConstraint))
    required = [rule for rule in rules if isinstance(rule, RequiredRule)]
    changed += [rule.property for rule in required]
    fills += [rule.property for rule in required if rule.fill is not None]
    mixed = [name for name in changed if name in blob_names(entity)]
    if fills and mixed:
        code = EvolutionCode.BLOB_BESIDE_DEFAULT
        detail = f"its nullability changes, and {fills[0]} is filled with its default"
        refused = Unsupported(code, entity.alias, mixed[0], detail)
        raise UnsupportedSchemaChangeError(
            refusal_text(refused),
            code=code.code,
            hint=f"{code.advice}: merge the commit of the first of them, and then the branch",
            facts={"unsupported": [refusal_to_json(refused)]},
        )


def plans_to_check(
    schema: MergedSchema,
    plans: Sequence[TableMerge],
    added: Sequence[AddedTable],
    theirs: Mapping[TableId, TableRecord],
    base: Base,
) -> tuple[list[TableMerge], list[Conflict]]:
    """What the rules over several rows have to look at, and what of ours breaks a rule on single values.

    Beside the rows that are taken these are rows of ours under new rules of theirs, and every row of a type of theirs.
    """
    by_type = {plan.entity.id: plan for plan in plans}
    conflicts: list[Conflict] = []
    root, catalog = schema.ours.root, schema.ours.schema.catalog
    for entity in catalog.types:
        table = schema.ours.tables.get(entity.alias)
        if table is None or not schema.new_rules(entity):
            continue
        plan = by_type.get(entity.id) or _nothing_taken(entity, table, theirs[table.id].pin)
        staying, broken = _staying_rows(root.child(table.path), plan)
        conflicts += broken
        keys = pa.concat_tables([plan.keys, staying])
        by_type[entity.id] = replace(plan, keys=keys.combine_chunks())
    conflicts += [
        conflict
        for plan in by_type.values()
        if isinstance(plan.entity, EdgeType) and schema.new_minimum(plan.entity)
        for conflict in _bereft_nodes(schema.ours, plan, by_type.get(plan.entity.source), base)
    ]
    by_type |= {one.entity.id: new_table_plan(root, one) for one in added}
    return list(by_type.values()), conflicts


def _touched(plan: TableMerge) -> Texts:
    return union(plan.taken.ids, plan.removed.ids)


def _nothing_taken(entity: Entity, table: TableRecord, theirs: Pin) -> TableMerge:
    none = locate(None, entity, NO_TEXTS)
    keys = arrow_schema(entity).empty_table().select(key_columns(entity))
    return TableMerge(entity, table, theirs, none, none, none, keys, ())


def new_table_plan(root: Location, added: AddedTable) -> TableMerge:
    """The rows of a type that our side does not have yet, as if they were taken."""
    entity, table = added.entity, added.table
    dataset = open_table(root, table)
    there = column_names(dataset, entity)
    names = key_columns(entity)
    keys = dataset.read([there[name] for name in names]).select([there[name] for name in names])
    ids: Texts = every_id(dataset)
    if len(added.left_out):
        keys = keys.filter(pc.invert(pc.is_in(keys.column("id"), value_set=added.left_out)))
        ids = ids.filter(pc.invert(pc.is_in(ids, value_set=added.left_out)))
    located = locate(dataset, entity, ids)
    nowhere = locate(None, entity, ids)
    none = nowhere.only(nowhere.present)
    return TableMerge(entity, table, table.pin, located, nowhere, none, keys.rename_columns(names), ())


def _staying_rows(location: Location, plan: TableMerge) -> tuple[pa.Table, list[Conflict]]:
    """The key columns of all rows of ours that the merge leaves as they are, and what of them breaks a rule."""
    entity = plan.entity
    dataset = open_pin(location, plan.table.pin)
    there = column_names(dataset, entity)
    fields = [arrow_schema(entity).field(name) for name in _ruled_columns(entity)]
    names = key_columns(entity)
    schema = pa.schema([arrow_schema(entity).field(name) for name in names])
    keys: list[pa.Table] = [schema.empty_table()]
    conflicts: list[Conflict] = []
    touched, blobs = _touched(plan), blob_names(entity)
    for batch in dataset.read_batches([there[one.name] for one in fields if one.name in there]):
        rows = batch.filter(pc.invert(pc.is_in(batch.column("id"), value_set=touched)))
        columns: dict[str, Any] = {}
        for one in fields:
            if one.name not in there:
                columns[one.name] = filled_column(entity, one, rows.num_rows)
            else:
                found: Any = rows.column(there[one.name])
                fill = null_fill(entity, one.name, dataset.schema.field(there[one.name]))
                columns[one.name] = found if one.name in blobs else with_null_fill(found.cast(one.type), fill)
        conflicts += value_conflicts(entity, columns)
        keys.append(pa.Table.from_arrays([columns[name] for name in names], schema=schema))
    return pa.concat_tables(keys), conflicts


def _ruled_columns(entity: Entity) -> list[str]:
    """The columns that any rule looks at."""
    alone = [one.name for one in entity.properties if not one.nullable or isinstance(one.type, EnumType)]
    alone += [rule.property for rule in entity.rules.ranges]
    alone += [rule.property for rule in entity.rules.checks]
    return list(dict.fromkeys([*key_columns(entity), *alone]))


def _bereft_nodes(
    ours: Snapshot, plan: TableMerge, nodes: TableMerge | None, base: Base
) -> Iterator[Conflict]:
    """Nodes that need edges by a rule of the source, and of which our side took away the last one since the base."""
    edge, table = plan.entity, plan.table
    assert isinstance(edge, EdgeType), "only edges have a cardinality"
    gone: dict[str, set[str]] = {}
    for one in base_commits(base):
        pin = one.pins.get(table.id)
        if pin is None or pin == table.pin:
            continue
        compared = compare_pins(ours.root.child(table.path), pin, table.pin)
        before = compared.left.read_by_text("id", compared.ids(), ["id", "src"])
        left: Any = pc.is_in(before.column("src"), value_set=plan.keys.column("src").combine_chunks())
        for row in before.filter(pc.invert(left)).to_pylist():
            gone.setdefault(row["src"], set()).add(row["id"])
    asked = pa.array(sorted(gone), pa.utf8())
    known: Any = MergedLookup(ours).present_ids(edge.source, asked)
    if nodes is not None:
        known = pc.or_(known, pc.is_in(asked, value_set=nodes.taken.ids))
        known = pc.and_not(known, pc.is_in(asked, value_set=nodes.removed.ids))
    for source in asked.filter(known).to_pylist():
        node = EntityName(ours.schema.catalog.source_of(edge).alias, str(source))
        edges = tuple(EntityName(edge.alias, name) for name in sorted(gone[str(source)]))
        message = (
            f"has fewer than {edge.cardinality.low} edges of type {edge.name}, which a rule of the source "
            "asks for: the target deleted them"
        )
        yield Conflict(ConflictKind.CARDINALITY_VIOLATION, node, message, (), (), edges)


def value_conflicts(entity: Entity, columns: Mapping[str, Any]) -> Iterator[Conflict]:
    """Rows of ours that break a rule on single values which they have not known."""
    ids = columns["id"].to_pylist()
    for breach in row_breaches(entity, columns) if ids else ():
        for row, value in zip(breach.rows.tolist(), breach.shown_values(), strict=True):
            name = EntityName(entity.alias, str(ids[row]))
            message = f"{breach.property}: {breach.message} ({value}), by a rule of the source"
            properties = (breach.property,) if breach.property else ()
            kind = ConflictKind.VALUE_CONSTRAINT_VIOLATION
            yield Conflict(kind, name, message, properties, (), (name,))
