"""Merge the schemas of two branches, before any row is compared.

In: our snapshot, theirs, and their base. Out: a `MergedSchema`, or the conflict `schema_diverged` with the changes of
each side. If only one side changed the schema, its schema is used. Changes of both sides that commute are combined
(`schema/evolution/merge.py`). It is a conflict if one side dropped a type and the other wrote rows to it, or if one
side dropped a property and the other wrote values to it. Nothing here writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np
from msgspec.structs import replace as replace_struct

from omnigraph.base.display import format_count
from omnigraph.base.ids import TypeId
from omnigraph.graph.manifest.records import SchemaRecord, TableId, TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.graph.merge.bases import Base, CommitBase, JoinedBase, base_commits
from omnigraph.graph.merge.candidates import TableSides, find_candidates
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind
from omnigraph.graph.rows.entity_rows import row_ranges, same_states, same_values
from omnigraph.schema.catalog import Catalog, EdgeType, Entity, Property
from omnigraph.schema.catalog_json import catalog_to_json, schema_hash
from omnigraph.schema.evolution.diff import find_steps_by_id
from omnigraph.schema.evolution.merge import Diverged, merge_catalogs
from omnigraph.schema.evolution.steps import AddConstraint, AddProperty, CardRule, Constraint, EvolutionStep
from omnigraph.schema.printer import print_schema, schema_from_catalog
from omnigraph.schema.tables import arrow_schema


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MergedSchema:
    """The schema of a merge. `ours` is our snapshot with the merged schema: its names, and the current pins.

    `steps` are the steps that our side still needs. `added` are tables of theirs that our side gets, `dropped` are
    tables that it loses. `row_counts` are the current rows of each type of ours.
    """

    ours: Snapshot
    theirs: Catalog
    steps: tuple[EvolutionStep, ...] = ()
    added: tuple[TableRecord, ...] = ()
    dropped: frozenset[TableId] = frozenset()
    row_counts: Mapping[TypeId, int] = field(default_factory=dict)

    @property
    def is_changed(self) -> bool:
        """Whether our side gets another schema."""
        return bool(self.steps)

    def has_columns_of(self, entity: Entity) -> bool:
        """Return whether their table of a type has exactly the columns of the merged type."""
        theirs = self.theirs.type_with_id(entity.id)
        return theirs is not None and arrow_schema(theirs).equals(arrow_schema(entity), check_metadata=True)

    def new_properties(self, entity: Entity) -> list[Property]:
        """Return the properties of a type that their side has and ours gets."""
        added = (step for step in self.steps if isinstance(step, AddProperty))
        return [step.property for step in added if step.type_id == entity.id]

    def has_new_rules(self, entity: Entity) -> bool:
        """Return whether our rows may break a rule of a type that is new to our side."""
        is_required = (not new.nullable and new.value_of_older_rows is None for new in self.new_properties(entity))
        return bool(self._new_constraints(entity)) or any(is_required)

    def has_new_minimum(self, edge: EdgeType) -> bool:
        """Return whether nodes need edges of a type that they did not need before."""
        has_rule = any(isinstance(rule, CardRule) for rule in self._new_constraints(edge))
        return edge.cardinality.low > 0 and has_rule

    def _new_constraints(self, entity: Entity) -> list[Constraint]:
        added = (step for step in self.steps if isinstance(step, AddConstraint) and not step.implied)
        return [step.constraint for step in added if step.type_id == entity.id]


def merge_schemas(ours: Snapshot, theirs: Snapshot, base: Base) -> MergedSchema | Conflict:
    """Return the schema of a merge of theirs into ours."""
    ours_catalog, theirs_catalog = ours.schema.catalog, theirs.schema.catalog
    if ours.schema.hash == theirs.schema.hash:
        return MergedSchema(ours=ours, theirs=theirs_catalog)
    common = _base_catalog(base)
    if common is None:
        return schema_conflict("the schema that both sides come from is not known")
    merged = merge_catalogs(common, ours_catalog, theirs_catalog)
    plans = (find_steps_by_id(common, ours_catalog), find_steps_by_id(common, theirs_catalog))
    if isinstance(merged, Diverged):
        return schema_conflict(merged.reason, *plans)
    for side, other in ((ours, theirs), (theirs, ours)):
        written_type = _find_lost_writes(merged, side, other, base)
        if written_type is not None:
            return schema_conflict(f"one side dropped {written_type} and the other wrote to it", *plans)
    return _apply_merged(ours, theirs, merged)


def keep_schema(ours: Snapshot, undone: Snapshot, before: Snapshot, base: Base) -> MergedSchema | Conflict:
    """Return the schema of a revert, which is ours: the rows before the reverted commit must fit it."""
    catalog = ours.schema.catalog
    since = find_steps_by_id(undone.schema.catalog, catalog)
    undoing = find_steps_by_id(undone.schema.catalog, before.schema.catalog)
    if undoing:
        return schema_conflict("the commit changed the schema, and a revert does not restore it", since, undoing)
    written_type = _find_lost_writes(catalog, before, ours, base)
    if written_type is not None:
        return schema_conflict(f"the commit wrote to {written_type}, which was dropped since", since)
    return MergedSchema(ours=ours, theirs=before.schema.catalog)


def _base_catalog(base: Base) -> Catalog | None:
    """Return the catalog that both sides come from: the merge of several if histories criss-cross."""
    match base:
        case CommitBase(schema=schema):
            return None if schema is None else schema.catalog
        case JoinedBase(common, left, right):
            catalogs = tuple(_base_catalog(part) for part in (common, left, right))
            if None in catalogs:
                return None
            merged = merge_catalogs(*(part for part in catalogs if part is not None))
            return None if isinstance(merged, Diverged) else merged
        case _:
            assert_never(base)


def schema_conflict(
    reason: str, ours: tuple[EvolutionStep, ...] = (), theirs: tuple[EvolutionStep, ...] = ()
) -> Conflict:
    """Return the conflict about the whole schema, with the changes of both sides."""
    plans = (tuple(step.describe() for step in ours), tuple(step.describe() for step in theirs))
    return Conflict(kind=ConflictKind.SCHEMA_DIVERGED, entity=None, message=reason, plans=plans)


def _find_lost_writes(merged: Catalog, side: Snapshot, other: Snapshot, base: Base) -> str | None:
    """Return what this side wrote since the base and the merged schema lacks: a type, or else properties."""
    other_tables = {table.id for table in other.tables.values()}
    for entity in side.schema.catalog.types:
        table = side.tables[entity.alias]
        is_dropped = merged.same_type(entity) is None and table.id not in other_tables
        if is_dropped and _is_written(side, entity, table, base):
            return entity.alias
    return _find_writes_to_dropped_properties(merged, side, base)


def _find_writes_to_dropped_properties(merged: Catalog, side: Snapshot, base: Base) -> str | None:
    """Return the properties that the merged schema lacks and this side wrote, as `node:P.age (2 rows)`."""
    parts: list[str] = []
    for entity in side.schema.catalog.types:
        merged_entity = merged.same_type(entity)
        if merged_entity is None:
            continue  # The whole type is dropped.
        dropped = tuple(
            property_ for property_ in entity.properties if merged_entity.property_with_id(property_.id) is None
        )
        counts = (
            _count_written_rows(replace_struct(entity, properties=dropped), entity.alias, side, base) if dropped else {}
        )
        parts += [f"{entity.alias}.{name} ({format_count(count, 'row')})" for name, count in counts.items() if count]
    return ", ".join(parts) or None


def _count_written_rows(entity: Entity, alias: str, side: Snapshot, base: Base) -> Counter[str]:
    """Count for each property the rows whose value differs from the base; a new row counts if it has a value."""
    table = side.tables[alias]
    candidates = find_candidates(TableSides(root=side.root, entity=entity, table=table, theirs=table.pin, base=base))
    counts: Counter[str] = Counter()
    for start, rows in row_ranges(entity, len(candidates.ids)):
        before, after = candidates.base_rows(start, rows), candidates.rows_at(table.pin, start, rows)
        for property_ in entity.properties:
            old, new = (side_rows.rows.column(property_.name).combine_chunks() for side_rows in (before, after))
            differs = after.present & (before.undecided | ~same_values(old, new))
            counts[property_.name] += int(np.count_nonzero(differs))
    return counts


def _is_written(side: Snapshot, entity: Entity, table: TableRecord, base: Base) -> bool:
    if all(commit.pins.get(table.id) == table.pin for commit in base_commits(base)):
        return False
    candidates = find_candidates(TableSides(root=side.root, entity=entity, table=table, theirs=table.pin, base=base))
    return any(
        not same_states(candidates.base_rows(start, rows), candidates.rows_at(table.pin, start, rows)).all()
        for start, rows in row_ranges(entity, len(candidates.ids))
    )


def _apply_merged(ours: Snapshot, theirs: Snapshot, merged: Catalog) -> MergedSchema:
    tables: dict[str, TableRecord] = {}
    for entity in ours.schema.catalog.types:
        after = merged.same_type(entity)
        if after is not None:
            tables[after.alias] = replace(ours.tables[entity.alias], alias=after.alias)
    present = {table.type_id for table in tables.values()}
    added = tuple(
        replace(table, alias=entity.alias)
        for entity in merged.types
        if entity.id not in present
        for table in theirs.tables.values()
        if (table.type_id, table.incarnation) == (entity.id, entity.incarnation)
    )
    record = SchemaRecord(_text(merged, ours, theirs), catalog_to_json(merged), schema_hash(merged))
    steps = find_steps_by_id(ours.schema.catalog, merged)
    dropped = {table.id for table in ours.tables.values()} - {table.id for table in tables.values()}
    ours_merged = replace(ours, schema=record, tables=tables)
    rows = {TypeId(table.type_id): table.row_count for table in ours.tables.values()}
    return MergedSchema(
        ours=ours_merged,
        theirs=theirs.schema.catalog,
        steps=steps,
        added=added,
        dropped=frozenset(dropped),
        row_counts=rows,
    )


def _text(merged: Catalog, ours: Snapshot, theirs: Snapshot) -> str:
    """Return the schema text of the side that has this schema; print a schema that neither side wrote."""
    for side in (ours, theirs):
        if side.schema.catalog == merged:
            return side.schema.source
    return print_schema(schema_from_catalog(merged))
