"""Find the rows that a merge across schemas must check in addition to the rows that theirs changed.

In: the sides of a merge across schemas. Out: rows of theirs whose value in a new column differs from the value that
ours gets there; unchanged rows of ours under new rules of theirs; nodes whose last edges ours deleted under such a
rule; and every row of a type that only theirs has. New columns, and the columns of types with new rules, are read
once. The rest of the cost grows with what changed. Nothing here writes.
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
from omnigraph.graph.merge.table_plan import TableMerge, value_conflicts
from omnigraph.graph.rows import entity_rows
from omnigraph.graph.rows.changed_rows import compare_pins, distinct_texts
from omnigraph.graph.schema_plan import UnsupportedSchemaChangeError, refusal_to_json
from omnigraph.integrity.set_rules import key_columns
from omnigraph.schema.catalog import EdgeType, Entity, Property
from omnigraph.schema.evolution import steps as evolution
from omnigraph.schema.evolution.codes import EvolutionCode
from omnigraph.schema.property_types import EnumType
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.lance.dataset import Texts
from omnigraph.storage.lance.read import NO_TEXTS, read_all_ids
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True, eq=False)
class AddedTable:
    """A table of a type that only theirs has. `left_out` are rows for which our side, which lacks them, was chosen."""

    entity: Entity
    table: TableRecord
    left_out: Texts

    @property
    def row_count(self) -> int:
        return self.table.row_count - len(self.left_out)


def added_tables(schema: MergedSchema, chosen: Mapping[str, Mapping[str, Side]]) -> tuple[AddedTable, ...]:
    """Return the tables of theirs that our side lacks. `chosen` are the sides of single rows, by table and id."""
    added: list[AddedTable] = []
    for table in schema.added:
        entity = schema.ours.schema.catalog.type_with_id(table.type_id)
        assert entity is not None, "the merged schema has the type of each added table"
        named = [name for name, side in chosen.get(table.alias, {}).items() if side is Side.OURS]
        left_out: Texts = pa.array(sorted(named), pa.utf8())
        if named:
            located = entity_rows.locate(open_table(schema.ours.root, table), None, left_out)
            left_out = located.only(located.present).ids
        added.append(AddedTable(entity, table, left_out))
    return tuple(added)


def find_differing_ids(location: Location, entity: Entity, new: Sequence[Property], theirs: Pin) -> Texts:
    """Return the ids of their rows whose value in a new column differs from the value that our rows get."""
    dataset = open_pin(location, theirs)
    stored_names = entity_rows.column_names(dataset, entity)
    ids_per_batch: list[Texts] = []
    for name in (property_.name for property_ in new):
        field = arrow_schema(entity).field(name)
        for batch in dataset.read_batches(["id", stored_names[name]]):
            column: Any = batch.column(stored_names[name])
            fill = entity_rows.filled_column(entity, field, len(column))
            if fill.null_count == len(column):
                differs: Any = column.is_valid()
            else:
                differs = pa.array(~entity_rows.same_values(column.cast(field.type), fill))
            ids_per_batch.append(batch.column("id").filter(differs))
    return distinct_texts(*ids_per_batch)


def reject_blob_next_to_fill(schema: MergedSchema, entity: Entity) -> None:
    """Raise if a blob property changes while another property of the type is filled, as a schema plan does.

    Values are filled by copying the other changed columns, and blobs are not copied.
    """
    steps = [step for step in schema.steps if isinstance(step, evolution.TypeStep) and step.type_id == entity.id]
    fills = [step.property.name for step in steps if isinstance(step, evolution.AddProperty)]
    fills = [
        name
        for name in fills
        if (property_ := entity.property_named(name)) and property_.value_of_older_rows is not None
    ]
    changed = [step.property for step in steps if isinstance(step, evolution.RelaxNullability)]
    rules = (step.constraint for step in steps if isinstance(step, evolution.AddConstraint))
    required = [rule for rule in rules if isinstance(rule, evolution.RequiredRule)]
    changed += [rule.property for rule in required]
    fills += [rule.property for rule in required if rule.fill is not None]
    changed_blobs = [name for name in changed if name in entity_rows.blob_names(entity)]
    if fills and changed_blobs:
        code = EvolutionCode.BLOB_WITH_DEFAULT
        detail = f"its nullability changes, and {fills[0]} is filled with its default"
        change = evolution.Unsupported(code, entity.alias, changed_blobs[0], detail)
        raise UnsupportedSchemaChangeError(
            change.describe(),
            code=code.code,
            hint=f"Nothing was written. {code.advice}: merge the commit of the first change, then the branch.",
            facts={"unsupported": [refusal_to_json(change)]},
        )


def plans_to_check(
    schema: MergedSchema,
    plans: Sequence[TableMerge],
    added: Sequence[AddedTable],
    theirs: Mapping[TableId, TableRecord],
    base: Base,
) -> tuple[list[TableMerge], list[Conflict]]:
    """Return the plans that the rules over several rows check, and the conflicts of our rows with value rules.

    In addition to the taken rows, these are rows of ours under new rules of theirs, and every row of a type of theirs.
    """
    by_type = {plan.entity.id: plan for plan in plans}
    conflicts: list[Conflict] = []
    root, catalog = schema.ours.root, schema.ours.schema.catalog
    for entity in catalog.types:
        table = schema.ours.tables.get(entity.alias)
        if table is None or not schema.has_new_rules(entity):
            continue
        plan = by_type.get(entity.id) or _empty_plan(entity, table, theirs[table.id].pin)
        unchanged, broken = _read_unchanged_rows(root.child(table.path), plan)
        conflicts += broken
        keys = pa.concat_tables([plan.keys, unchanged])
        by_type[entity.id] = replace(plan, keys=keys.combine_chunks())
    conflicts += [
        conflict
        for plan in by_type.values()
        if isinstance(plan.entity, EdgeType) and schema.has_new_minimum(plan.entity)
        for conflict in _find_nodes_without_edges(schema.ours, plan, by_type.get(plan.entity.source), base)
    ]
    by_type |= {table_added.entity.id: new_table_plan(root, table_added) for table_added in added}
    return list(by_type.values()), conflicts


def _empty_plan(entity: Entity, table: TableRecord, theirs: Pin) -> TableMerge:
    empty = entity_rows.RowLocations.absent(NO_TEXTS)
    keys = arrow_schema(entity).empty_table().select(key_columns(entity))
    return TableMerge(
        entity=entity, table=table, theirs=theirs, taken=empty, replaced=empty, removed=empty, keys=keys, conflicts=()
    )


def new_table_plan(root: Location, added: AddedTable) -> TableMerge:
    """Return the rows of a type that our side lacks, as if they were taken."""
    entity, table = added.entity, added.table
    dataset = open_table(root, table)
    stored_names = entity_rows.column_names(dataset, entity)
    names = key_columns(entity)
    keys = dataset.read([stored_names[name] for name in names]).select([stored_names[name] for name in names])
    ids: Texts = read_all_ids(dataset)
    if len(added.left_out):
        keys = keys.filter(pc.invert(pc.is_in(keys.column("id"), value_set=added.left_out)))
        ids = ids.filter(pc.invert(pc.is_in(ids, value_set=added.left_out)))
    located = entity_rows.locate(dataset, entity, ids)
    absent = entity_rows.RowLocations.absent(ids)
    empty = absent.only(absent.present)
    return TableMerge(
        entity=entity,
        table=table,
        theirs=table.pin,
        taken=located,
        replaced=absent,
        removed=empty,
        keys=keys.rename_columns(names),
        conflicts=(),
    )


def _read_unchanged_rows(location: Location, plan: TableMerge) -> tuple[pa.Table, list[Conflict]]:
    """Read the key columns of all rows of ours that the merge keeps, and their conflicts with rules on values."""
    entity = plan.entity
    dataset = open_pin(location, plan.table.pin)
    stored_names = entity_rows.column_names(dataset, entity)
    fields = [arrow_schema(entity).field(name) for name in _ruled_columns(entity)]
    names = key_columns(entity)
    schema = pa.schema([arrow_schema(entity).field(name) for name in names])
    keys: list[pa.Table] = [schema.empty_table()]
    conflicts: list[Conflict] = []
    changed_ids, blobs = distinct_texts(plan.taken.ids, plan.removed.ids), entity_rows.blob_names(entity)
    for batch in dataset.read_batches([stored_names[field.name] for field in fields if field.name in stored_names]):
        rows = batch.filter(pc.invert(pc.is_in(batch.column("id"), value_set=changed_ids)))
        columns: dict[str, Any] = {}
        for field in fields:
            if field.name not in stored_names:
                columns[field.name] = entity_rows.filled_column(entity, field, rows.num_rows)
            else:
                column: Any = rows.column(stored_names[field.name])
                fill = entity_rows.null_replacement(entity, field.name, dataset.schema.field(stored_names[field.name]))
                columns[field.name] = (
                    column if field.name in blobs else entity_rows.replace_nulls(column.cast(field.type), fill)
                )
        conflicts += value_conflicts(entity, columns, Side.OURS)
        keys.append(pa.Table.from_arrays([columns[name] for name in names], schema=schema))
    return pa.concat_tables(keys), conflicts


def _ruled_columns(entity: Entity) -> list[str]:
    names = [
        property_.name
        for property_ in entity.properties
        if not property_.nullable or isinstance(property_.type, EnumType)
    ]
    names += [rule.property for rule in entity.rules.ranges]
    names += [rule.property for rule in entity.rules.checks]
    return list(dict.fromkeys([*key_columns(entity), *names]))


def _find_nodes_without_edges(
    ours: Snapshot, plan: TableMerge, nodes: TableMerge | None, base: Base
) -> Iterator[Conflict]:
    """Yield nodes that need edges by a rule of the source, and whose last edge ours deleted since the base."""
    edge, table = plan.entity, plan.table
    assert isinstance(edge, EdgeType), "only edges have a cardinality"
    removed_edges: dict[str, set[str]] = {}
    for commit in base_commits(base):
        pin = commit.pins.get(table.id)
        if pin is None or pin == table.pin:
            continue
        compared = compare_pins(ours.root.child(table.path), pin, table.pin)
        before = compared.left.read_by_text("id", compared.ids(), ["id", "src"])
        has_edges: Any = pc.is_in(before.column("src"), value_set=plan.keys.column("src").combine_chunks())
        for row in before.filter(pc.invert(has_edges)).to_pylist():
            removed_edges.setdefault(row["src"], set()).add(row["id"])
    node_ids = pa.array(sorted(removed_edges), pa.utf8())
    exists: Any = MergedLookup(ours).present_ids(edge.source, node_ids)
    if nodes is not None:
        exists = pc.or_(exists, pc.is_in(node_ids, value_set=nodes.taken.ids))
        exists = pc.and_not(exists, pc.is_in(node_ids, value_set=nodes.removed.ids))
    for source in node_ids.filter(exists).to_pylist():
        node = EntityName(ours.schema.catalog.source_of(edge).alias, str(source))
        edges = tuple(EntityName(edge.alias, name) for name in sorted(removed_edges[str(source)]))
        message = (
            f"has fewer than {edge.cardinality.low} edges of type {edge.name}, which a rule of the source "
            "requires: the target deleted them"
        )
        yield Conflict(kind=ConflictKind.CARDINALITY_VIOLATION, entity=node, message=message, ours=(), theirs=edges)
