"""A whole change of the graph against the rules over sets, in one process.

In: for each type the typed rows that the commit writes and the ids that it removes, and a lookup into the graph. Out:
breaches for each of them, with row numbers of its rows. For mutations, merges and small loads; large loads call the
functions of `set_rules` per hash bucket instead, in the same order. It looks at rows as they will be: whoever removes
nodes also lists the edges that go with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, nulls, rows_where, taken_array, whole_array
from omnigraph.base import limits
from omnigraph.base.ids import TypeId
from omnigraph.integrity.convert.column import convert
from omnigraph.integrity.identity import no_ids, row_ids
from omnigraph.integrity.raw import FROM, ID, TO, RawBatch, RawColumn, null_rows, taken
from omnigraph.integrity.row_rules import required_breaches, value_breaches
from omnigraph.integrity.rules import Rule, RuleViolations
from omnigraph.integrity.set_rules import (
    SourceCounts,
    cardinality_breaches,
    changed_sources,
    dangling_ends,
    duplicate_ids,
    repeated_keys,
    taken_ids,
    taken_keys,
    unique_keys,
)
from omnigraph.schema.catalog import Cardinality, Catalog, EdgeType, Entity, NodeType, Property
from omnigraph.schema.property_types import PropertyType, Scalar, ScalarType
from omnigraph.schema.tables import arrow_schema, arrow_type

_TEXT: Final = ScalarType(Scalar.STRING)
_END_COLUMNS: Final = {FROM: "src", TO: "dst"}


@dataclass(frozen=True, slots=True, eq=False)
class CheckedBatch:
    """The typed rows, and what is wrong with them. Only a batch without breaches may be written.

    `known_ids` are the ids without the new ULIDs, which no other row has: what the rules over sets compare.
    """

    rows: pa.RecordBatch
    breaches: tuple[RuleViolations, ...]
    known_ids: Column


def check_batch(entity: Entity, raw: RawBatch) -> CheckedBatch:
    """The rows with the types of the schema."""
    typing = _Typing(raw)
    columns: dict[str, Column] = {}
    if isinstance(entity, EdgeType):
        for name, column in _END_COLUMNS.items():
            columns[column] = typing.column(name, _TEXT, required=True)
    for found in entity.properties:
        columns[found.name] = typing.property(found)
    given = typing.column(ID, _TEXT, required=False) if ID in raw.columns else no_ids(raw.rows)
    breaches = [*_unknown_properties(entity, raw), *typing.breaches, *value_breaches(entity, columns)]
    found_ids = row_ids(entity, columns, given)
    schema = arrow_schema(entity)
    arrays = [found_ids.ids if name == ID else columns[name] for name in schema.names]
    build: Callable[..., pa.RecordBatch] = pa.RecordBatch.from_arrays
    return CheckedBatch(build(arrays, schema=schema), (*breaches, *found_ids.breaches), found_ids.known)


@dataclass(slots=True)
class _Typing:
    """Converts the columns of one batch and collects what they break."""

    raw: RawBatch
    breaches: list[RuleViolations] = field(default_factory=list)

    def column(self, name: str, target: PropertyType, *, required: bool) -> Column:
        raw = self.raw.columns.get(name)
        if raw is None:
            raw = nulls(self.raw.rows, arrow_type(target))
        assert len(raw) == self.raw.rows, f"the column {name} has {len(raw)} of {self.raw.rows} rows"
        if required:
            self.breaches.extend(required_breaches(name, raw))
        return self._converted(name, raw, target)

    def property(self, found: Property) -> Column:
        """A missing value of a required property is its default when it has one."""
        if found.nullable or found.default is None:
            return self.column(found.name, found.type, required=not found.nullable)
        column = self.column(found.name, found.type, required=False)
        raw = self.raw.columns.get(found.name)
        missing = np.arange(self.raw.rows) if raw is None else null_rows(raw)
        if not len(missing):
            return column
        mask = np.zeros(self.raw.rows, dtype=np.bool_)
        mask[missing] = True
        return _filled(column, mask, found.default)

    def _converted(self, name: str, raw: RawColumn, target: PropertyType) -> Column:
        converted = convert(raw, target)
        self.breaches.extend(
            RuleViolations(mistake.rule, name, mistake.message, mistake.rows, taken(raw, mistake.rows))
            for mistake in converted.mistakes
        )
        return converted.values


def _filled(column: Column, mask: np.ndarray[Any, np.dtype[np.bool_]], value: object) -> Column:
    make: Any = pa.scalar
    filled: Column = pc.if_else(pa.array(mask), make(value, column.type), column)
    return filled


def _unknown_properties(entity: Entity, raw: RawBatch) -> Iterator[RuleViolations]:
    """Values under a name that the type does not have; a null there is the same as nothing."""
    for name in _unknown_names(entity, raw.columns):
        column = raw.columns[name]
        rows = np.setdiff1d(np.arange(raw.rows, dtype=np.int64), null_rows(column), assume_unique=True)
        if len(rows):
            message = f"{entity.name} has no property of this name"
            yield RuleViolations(Rule.UNKNOWN_PROPERTY, name, message, rows, taken(column, rows))


def _unknown_names(entity: Entity, names: Iterable[str]) -> list[str]:
    system = {ID, FROM, TO} if isinstance(entity, EdgeType) else {ID}
    return [name for name in names if name not in system and entity.property_named(name) is None]


class GraphLookup(Protocol):
    """Questions about one type of the graph."""

    def present_ids(self, type_id: TypeId, ids: Column) -> Column:
        """For each id whether a row has it: booleans."""
        ...

    def unique_holders(self, type_id: TypeId, names: tuple[str, ...], rows: pa.RecordBatch) -> Column:
        """For each of the rows, which have the columns `names` and no null, the id of the row with those values.

        Null when no row has them. Equal means equal texts of `unique_keys`.
        """
        ...

    def edge_sources(self, type_id: TypeId, ids: Column) -> Column:
        """For each id of an edge its `src`, or null when there is no such edge."""
        ...

    def edge_counts(self, type_id: TypeId, sources: Column) -> Column:
        """For each id of a node how many edges of the type have it as their `src`: integers."""
        ...


class EmptyGraph:
    """A graph without rows: what a fresh graph is, and a type that is overwritten."""

    def present_ids(self, type_id: TypeId, ids: Column) -> Column:  # noqa: ARG002
        return pa.array(np.zeros(len(ids), dtype=np.bool_))

    def unique_holders(self, type_id: TypeId, names: tuple[str, ...], rows: pa.RecordBatch) -> Column:  # noqa: ARG002
        return pa.nulls(rows.num_rows, pa.utf8())

    def edge_sources(self, type_id: TypeId, ids: Column) -> Column:  # noqa: ARG002
        return pa.nulls(len(ids), pa.utf8())

    def edge_counts(self, type_id: TypeId, sources: Column) -> Column:  # noqa: ARG002
        return pa.array(np.zeros(len(sources), dtype=np.int64))


NO_IDS: Final[Column] = pa.array([], pa.utf8())


class ChangeMode(Enum):
    """What happens to a row of the graph that has the id of a row of the change."""

    INSERT = "insert"  # it is in the way
    UPSERT = "upsert"  # it is replaced
    OVERWRITE = "overwrite"  # it is gone, as every row of the type is


@dataclass(frozen=True, slots=True, eq=False)
class TypeChange:
    """What a commit does to the rows of one type. `removed` are ids of the graph that are not in `rows`."""

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
        """The ids whose rows of the graph are not there any more as they were.

        What an insert finds in its way is a conflict, not a row that goes.
        """
        if self.mode is ChangeMode.INSERT:
            return self.removed
        both: Column = pa.concat_arrays([self.ids, self.removed])
        return both


def check_change(
    catalog: Catalog, changes: Sequence[TypeChange], lookup: GraphLookup
) -> list[tuple[RuleViolations, ...]]:
    """What each change breaks, in the order of the changes; each type has at most one."""
    by_type = {change.entity.id: change for change in changes}
    assert len(by_type) == len(changes), "one change per type"
    checks = [
        (at, check)
        for at, change in enumerate(changes)
        for check in _checks(catalog, change, by_type, lookup)
    ]
    found: list[tuple[RuleViolations, ...]] = [() for _ in changes]
    if sum(change.rows.num_rows for change in changes) < limits.CHECK_THREADS_ROWS_MIN:
        answers = [tuple(check()) for _, check in checks]
    else:
        # Arrow compares columns without holding Python's lock.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = list(pool.map(lambda one: tuple(one[1]()), checks))
    for (at, _), breaches in zip(checks, answers, strict=True):
        found[at] += breaches
    return found


_Check = Callable[[], Iterable[RuleViolations]]


def _checks(
    catalog: Catalog, change: TypeChange, by_type: Mapping[TypeId, TypeChange], lookup: GraphLookup
) -> Iterator[_Check]:
    """The rules that apply to a change, each to be asked on its own."""
    entity = change.entity
    own = EmptyGraph() if change.mode is ChangeMode.OVERWRITE else lookup
    yield lambda: duplicate_ids(change.ids)
    if change.mode is ChangeMode.INSERT and change.ids.null_count < len(change.ids):
        yield lambda: taken_ids(entity.alias, change.ids, own.present_ids(entity.id, change.ids))
    for names in entity.rules.uniques:
        yield partial(_unique_breaches, change, names, own)
    if isinstance(entity, EdgeType):
        yield partial(_end_breaches, change, FROM, catalog.source_of(entity), (by_type, lookup))
        yield partial(_end_breaches, change, TO, catalog.target_of(entity), (by_type, lookup))
        gone = by_type.get(entity.source)
        leaving = NO_IDS if gone is None else gone.removed
        yield partial(_cardinality_breaches, change, entity.cardinality, own, leaving)


def _end_breaches(
    change: TypeChange, end: str, node: NodeType, seen: tuple[Mapping[TypeId, TypeChange], GraphLookup]
) -> tuple[RuleViolations, ...]:
    ends = change.column("src" if end == FROM else "dst")
    return dangling_ends(ends, _known(ends, node, *seen), end, node.name)


def _unique_breaches(
    change: TypeChange, names: tuple[str, ...], own: GraphLookup
) -> Iterator[RuleViolations]:
    columns = [change.column(name) for name in names]
    keys = unique_keys(columns)
    yield from repeated_keys(keys, names)
    rows = rows_where(keys.is_valid())
    if not len(rows):
        return
    asked = pa.RecordBatch.from_arrays([taken_array(column, rows) for column in columns], names=list(names))
    found = own.unique_holders(change.entity.id, names, asked)
    for breach in taken_keys(taken_array(keys, rows), found, change.replaced, names):
        yield RuleViolations(breach.rule, breach.property, breach.message, rows[breach.rows], breach.given)


def _known(ends: Column, node: NodeType, by_type: Mapping[TypeId, TypeChange], lookup: GraphLookup) -> Column:
    """Which ends are nodes after the commit: in the input, or in the graph and not removed."""
    change = by_type.get(node.id)
    known = pc.is_in(ends, value_set=NO_IDS if change is None else change.ids, skip_nulls=True)
    strangers: Column = pc.unique(ends.filter(pc.and_not(ends.is_valid(), known)))
    if change is not None:
        strangers = strangers.filter(pc.invert(pc.is_in(strangers, value_set=change.removed)))
        lookup = EmptyGraph() if change.mode is ChangeMode.OVERWRITE else lookup
    if not len(strangers):
        return known  # type: ignore[no-any-return]
    there = strangers.filter(lookup.present_ids(node.id, strangers))
    return pc.or_(known, pc.is_in(ends, value_set=there, skip_nulls=True))  # type: ignore[no-any-return]


def _cardinality_breaches(
    change: TypeChange, cardinality: Cardinality, own: GraphLookup, gone: Column
) -> Iterator[RuleViolations]:
    if cardinality == Cardinality():
        return
    added = change.column("src")
    leaving: Column = pc.unique(change.replaced.drop_null())
    removed = own.edge_sources(change.entity.id, leaving).drop_null() if len(leaving) else NO_IDS
    sources = changed_sources(added, removed)
    sources = sources.filter(pc.invert(pc.is_in(sources, value_set=gone)))
    if len(sources):
        before = own.edge_counts(change.entity.id, sources)
        yield from cardinality_breaches(cardinality, added, removed, SourceCounts(sources, before))
