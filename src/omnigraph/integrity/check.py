"""Checks rows: `check_batch` gives them the types of the schema, `check_change` checks the rules over sets of rows.

In: raw batches; or, for each type, the typed rows that a commit writes and the ids that it removes, and a lookup into
the graph. Out: typed rows, and violations with the row numbers of their batch. `check_change` is for mutations, merges
and small loads; large loads call the functions of `set_rules` per hash bucket, in the same order. It checks the rows
after the change: a caller that removes nodes also lists the edges that it removes with them. Nothing here writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Mask, bool_array, integer_array, nulls, rows_where, take_rows, whole_array
from omnigraph.base import limits
from omnigraph.base.display import did_you_mean
from omnigraph.base.ids import TypeId
from omnigraph.integrity import set_rules
from omnigraph.integrity.convert.column import convert
from omnigraph.integrity.identity import derived_ids, row_ids
from omnigraph.integrity.raw import FROM, ID, TO, RawBatch, null_rows
from omnigraph.integrity.row_rules import check_property_values, check_required
from omnigraph.integrity.rules import Rule, RuleViolations, violations_in
from omnigraph.schema.catalog import Cardinality, Catalog, EdgeType, Entity, NodeType, Property
from omnigraph.schema.property_types import PropertyType, Scalar, ScalarType
from omnigraph.schema.tables import arrow_schema, arrow_type

_TEXT: Final = ScalarType(Scalar.STRING)
_ENDPOINT_COLUMNS: Final = {FROM: "src", TO: "dst"}
_COMPARED_MAX: Final = 60
# Each suggestion compares a name with all properties: too slow for dicts with thousands of names.
_SUGGESTED_COLUMNS_MAX: Final = 500


@dataclass(frozen=True, slots=True, eq=False)
class CheckedBatch:
    """The typed rows, and their violations. Only a batch without violations may be written.

    `comparable_ids` are the ids that the rules over sets compare: without new ULIDs, which no other row can have.
    """

    rows: pa.RecordBatch
    violations: tuple[RuleViolations, ...]
    comparable_ids: Column


@dataclass(frozen=True, slots=True, eq=False)
class ExistingRows:
    """The rows of the graph that a patch completes, aligned with the rows of a batch.

    `retained` has for each column of the table which rows of the batch get the value of the existing row.
    """

    rows: pa.Table
    retained: Mapping[str, Mask]


def check_batch(entity: Entity, raw: RawBatch, existing: ExistingRows | None = None) -> CheckedBatch:
    """Convert rows to the types of the schema, complete those of a patch, and check the rules about one row."""
    converter = _BatchConverter(raw, existing)
    columns: dict[str, Column] = {}
    if isinstance(entity, EdgeType):
        for name, column in _ENDPOINT_COLUMNS.items():
            columns[column] = converter.column(name, _TEXT, required=True)
    for definition in entity.properties:
        columns[definition.name] = converter.property(definition)
    explicit = converter.column(ID, _TEXT, required=False) if ID in raw.columns else nulls(raw.rows, pa.utf8())
    ids = row_ids(entity, columns, explicit)
    violations = (
        *_check_unknown_properties(entity, raw),
        *converter.violations,
        *check_property_values(entity, columns),
        *ids.violations,
    )
    schema = arrow_schema(entity)
    arrays = [ids.ids if name == ID else columns[name] for name in schema.names]
    build: Callable[..., pa.RecordBatch] = pa.RecordBatch.from_arrays
    return CheckedBatch(build(arrays, schema=schema), violations, ids.comparable)


def patched_ids(entity: Entity, raw: RawBatch) -> Column:
    """Return the ids of the rows of a patch: the explicit id or that of the key, or null for a new row."""
    converter = _BatchConverter(raw, None)
    explicit = converter.column(ID, _TEXT, required=False)
    if not entity.key:
        return explicit
    columns: dict[str, Column] = {}
    if isinstance(entity, EdgeType):
        columns = {column: converter.column(name, _TEXT, required=False) for name, column in _ENDPOINT_COLUMNS.items()}
    for definition in entity.properties:
        if definition.name in entity.key:
            columns[definition.name] = converter.property(definition)
    ids: Column = pc.coalesce(explicit, derived_ids(entity, columns))
    return ids


@dataclass(frozen=True, slots=True)
class _BatchConverter:
    """Converts the columns of one batch and collects their violations."""

    raw: RawBatch
    existing: ExistingRows | None
    violations: list[RuleViolations] = field(default_factory=list)

    def column(self, name: str, target: PropertyType, *, required: bool) -> Column:
        raw = self.raw.columns.get(name)
        reason = ", but the input has no column of this name" if raw is None and self.raw.is_table else ""
        if raw is None:
            raw = nulls(self.raw.rows, arrow_type(target))
        assert len(raw) == self.raw.rows, f"the column {name} has {len(raw)} of {self.raw.rows} rows"
        stored_name = _ENDPOINT_COLUMNS.get(name, name)
        retained = None if self.existing is None else self.existing.retained.get(stored_name)
        if required:
            self.violations.extend(_outside(check_required(name, raw, reason), retained))
        converted = convert(raw, target)
        for entry in converted.invalid:
            self.violations.extend(violations_in(entry.rule, name, entry.message, entry.rows, raw))
        if self.existing is None or retained is None or not retained.any():
            return converted.values
        stored = whole_array(self.existing.rows.column(stored_name))
        candidates = pa.concat_arrays([converted.values, stored])
        positions = np.arange(self.raw.rows, dtype=np.int64)
        return take_rows(candidates, np.where(retained, positions + self.raw.rows, positions))

    def property(self, definition: Property) -> Column:
        """Convert a property; a missing value of a required property is its default, if it has one."""
        if definition.nullable or definition.default is None:
            return self.column(definition.name, definition.type, required=not definition.nullable)
        column = self.column(definition.name, definition.type, required=False)
        raw = self.raw.columns.get(definition.name)
        missing = np.arange(self.raw.rows) if raw is None else null_rows(raw)
        if not len(missing):
            return column
        mask = np.zeros(self.raw.rows, dtype=np.bool_)
        mask[missing] = True
        if self.existing is not None:
            mask &= ~self.existing.retained[definition.name]
        make: Any = pa.scalar
        filled: Column = pc.if_else(bool_array(mask), make(definition.default, column.type), column)
        return filled


def _outside(violations: Iterable[RuleViolations], retained: Mask | None) -> Iterator[RuleViolations]:
    """Yield the violations of rows that do not get their value from an existing row."""
    for group in violations:
        yield group if retained is None else group.only(np.flatnonzero(~retained[group.rows]))


def _check_unknown_properties(entity: Entity, raw: RawBatch) -> Iterator[RuleViolations]:
    """Check that no value has a name that the type does not have; a null counts as no value."""
    system = {ID, FROM, TO} if isinstance(entity, EdgeType) else {ID}
    names = [property_.name for property_ in entity.properties] + sorted(system)
    for name, column in raw.columns.items():
        if name not in system and entity.property_named(name) is None:
            rows = np.setdiff1d(np.arange(raw.rows, dtype=np.int64), null_rows(column), assume_unique=True)
            if not len(rows):
                continue
            suggestion = _suggestion(name, names, entity) if len(raw.columns) <= _SUGGESTED_COLUMNS_MAX else ""
            message = f"{entity.name} has no property of this name{suggestion}"
            yield from violations_in(Rule.UNKNOWN_PROPERTY, name, message, rows, column)


def _suggestion(name: str, names: Sequence[str], entity: Entity) -> str:
    if isinstance(entity, EdgeType):
        for endpoint, column in _ENDPOINT_COLUMNS.items():
            if name.lower() == column:
                return f": use '{endpoint}'"
    return did_you_mean(name[:_COMPARED_MAX], names)


class GraphLookup(Protocol):
    """Lookups into one type of the graph."""

    def present_ids(self, type_id: TypeId, ids: Column) -> Column:
        """Return for each id whether a row has it: booleans."""
        ...

    def ids_with_values(self, type_id: TypeId, names: tuple[str, ...], rows: pa.RecordBatch) -> Column:
        """Return for each row, with the columns `names` and no null, the id of the row of the graph with its values.

        Null if no row has them. Values are equal if their `unique_keys` are.
        """
        ...

    def edge_sources(self, type_id: TypeId, ids: Column) -> Column:
        """Return for each id of an edge its `src`, or null if the edge does not exist."""
        ...

    def edge_counts(self, type_id: TypeId, sources: Column) -> Column:
        """Return for each id of a node how many edges of the type have it as their `src`: integers."""
        ...


class EmptyGraph:
    """A graph without rows: a new graph, or a type that is overwritten."""

    def present_ids(self, type_id: TypeId, ids: Column) -> Column:  # noqa: ARG002
        return bool_array(np.zeros(len(ids), dtype=np.bool_))

    def ids_with_values(self, type_id: TypeId, names: tuple[str, ...], rows: pa.RecordBatch) -> Column:  # noqa: ARG002
        return pa.nulls(rows.num_rows, pa.utf8())

    def edge_sources(self, type_id: TypeId, ids: Column) -> Column:  # noqa: ARG002
        return pa.nulls(len(ids), pa.utf8())

    def edge_counts(self, type_id: TypeId, sources: Column) -> Column:  # noqa: ARG002
        return integer_array(np.zeros(len(sources), dtype=np.int64))


NO_IDS: Final[Column] = pa.array([], pa.utf8())


class ChangeMode(Enum):
    """What happens to a row of the graph that has the id of a row of the change."""

    INSERT = "insert"  # it is a conflict
    UPSERT = "upsert"  # it is replaced
    OVERWRITE = "overwrite"  # it is deleted, like every row of the type


@dataclass(frozen=True, slots=True, eq=False)
class TypeChange:
    """The change of a commit to the rows of one type. `removed` are ids of the graph that are not in `rows`."""

    entity: Entity
    rows: pa.RecordBatch | pa.Table
    mode: ChangeMode
    removed: Column = field(default_factory=lambda: NO_IDS)

    def column(self, name: str) -> Column:
        return whole_array(self.rows.column(name))

    @property
    def ids(self) -> Column:
        return self.column("id")

    @property
    def replaced(self) -> Column:
        """The ids of the rows of the graph that the change replaces or removes.

        A row of the graph with the id of an insert is a conflict and is not replaced.
        """
        if self.mode is ChangeMode.INSERT:
            return self.removed
        return pa.concat_arrays([self.ids, self.removed])


def check_change(
    catalog: Catalog, changes: Sequence[TypeChange], lookup: GraphLookup
) -> list[tuple[RuleViolations, ...]]:
    """Return the violations of each change, in the order of the changes; each type has at most one change."""
    by_type = {change.entity.id: change for change in changes}
    assert len(by_type) == len(changes), "one change per type"
    checks = [
        (index, check)
        for index, change in enumerate(changes)
        for check in _plan_checks(catalog, change, by_type, lookup)
    ]
    violations: list[tuple[RuleViolations, ...]] = [() for _ in changes]
    if sum(change.rows.num_rows for change in changes) < limits.CHECK_THREADS_ROWS_MIN:
        results = [tuple(check()) for _, check in checks]
    else:
        # Arrow compares columns without holding Python's lock.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda indexed_check: tuple(indexed_check[1]()), checks))
    for (index, _), result in zip(checks, results, strict=True):
        violations[index] += result
    return violations


_Check = Callable[[], Iterable[RuleViolations]]


def _plan_checks(
    catalog: Catalog, change: TypeChange, by_type: Mapping[TypeId, TypeChange], lookup: GraphLookup
) -> Iterator[_Check]:
    """Yield the checks of a change, which are independent of each other."""
    entity = change.entity
    own_lookup = EmptyGraph() if change.mode is ChangeMode.OVERWRITE else lookup
    yield lambda: set_rules.check_duplicate_ids(change.ids)
    if change.mode is ChangeMode.INSERT and change.ids.null_count < len(change.ids):
        yield lambda: set_rules.check_new_ids(entity.alias, change.ids, own_lookup.present_ids(entity.id, change.ids))
    for names in entity.rules.uniques:
        yield partial(_check_unique, change, names, own_lookup)
    if isinstance(entity, EdgeType):
        for name, node in ((FROM, catalog.source_of(entity)), (TO, catalog.target_of(entity))):
            endpoints = change.column(_ENDPOINT_COLUMNS[name])
            yield partial(_check_endpoint, endpoints, name, node, by_type.get(node.id), lookup)
        sources = by_type.get(entity.source)
        removed_sources = NO_IDS if sources is None else sources.removed
        yield partial(_check_edge_counts, change, entity.cardinality, own_lookup, removed_sources)


def _check_endpoint(
    endpoints: Column, name: str, node: NodeType, change: TypeChange | None, lookup: GraphLookup
) -> tuple[RuleViolations, ...]:
    """Check that endpoints are nodes after the commit: in the input, or in the graph and not removed."""
    exists: Column = pc.is_in(endpoints, value_set=NO_IDS if change is None else change.ids, skip_nulls=True)
    others: Column = pc.unique(endpoints.filter(pc.and_not(endpoints.is_valid(), exists)))
    if change is not None:
        others = others.filter(pc.invert(pc.is_in(others, value_set=change.removed)))
        lookup = EmptyGraph() if change.mode is ChangeMode.OVERWRITE else lookup
    if len(others):
        in_graph = others.filter(lookup.present_ids(node.id, others))
        exists = pc.or_(exists, pc.is_in(endpoints, value_set=in_graph, skip_nulls=True))
    return set_rules.check_endpoints(endpoints, exists, name, node.name)


def _check_unique(change: TypeChange, names: tuple[str, ...], lookup: GraphLookup) -> Iterator[RuleViolations]:
    columns = [change.column(name) for name in names]
    keys = set_rules.unique_keys(columns)
    yield from set_rules.check_repeated_keys(keys, names)
    rows = rows_where(keys.is_valid())
    if not len(rows):
        return
    batch = pa.RecordBatch.from_arrays([take_rows(column, rows) for column in columns], names=list(names))
    existing_ids = lookup.ids_with_values(change.entity.id, names, batch)
    for group in set_rules.check_existing_keys(take_rows(keys, rows), existing_ids, change.replaced, names):
        yield replace(group, rows=rows[group.rows])


def _check_edge_counts(
    change: TypeChange, cardinality: Cardinality, lookup: GraphLookup, removed_sources: Column
) -> Iterator[RuleViolations]:
    if cardinality == Cardinality():
        return
    added = change.column("src")
    replaced_edges: Column = pc.unique(change.replaced.drop_null())
    removed = NO_IDS
    if len(replaced_edges):
        removed = lookup.edge_sources(change.entity.id, replaced_edges).drop_null()
    sources = set_rules.changed_sources(added, removed)
    sources = sources.filter(pc.invert(pc.is_in(sources, value_set=removed_sources)))
    if len(sources):
        before = lookup.edge_counts(change.entity.id, sources)
        yield from set_rules.check_cardinality(cardinality, added, removed, set_rules.SourceCounts(sources, before))
