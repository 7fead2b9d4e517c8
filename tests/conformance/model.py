"""A graph as dictionaries: what NDJSON means, and what mutations do to it, in the most literal way."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from omnigraph.query.plan.statements import ColumnAssignment, DeleteRows, InsertRow, MutationPlan, UpdateRows
from omnigraph.query.values import value_from_json
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.schema.property_types import EnumType
from omnigraph.schema.values import ValueMistake, value_text
from tests.query.reference import run
from tests.query.reference import value as evaluated

Entity = NodeType | EdgeType
Row = dict[str, Any]


class RulesBrokenError(Exception):
    """A change that the rules refuse; the codes of what it breaks."""

    def __init__(self, codes: Sequence[str]) -> None:
        super().__init__(*codes)
        self.codes = tuple(codes)


class ModelGraph:
    """Tables of rows, by alias."""

    def __init__(self, catalog: Catalog, tables: Mapping[str, Sequence[Row]] | None = None) -> None:
        self.catalog = catalog
        self.tables = {found.alias: list((tables or {}).get(found.alias, ())) for found in catalog.types}
        self._fresh = count(1)  # shared by copies, so that no id is ever made twice

    def copy(self) -> ModelGraph:
        rows = {alias: [dict(row) for row in found] for alias, found in self.tables.items()}
        copied = ModelGraph(self.catalog, rows)
        copied._fresh = self._fresh
        return copied

    def load(self, lines: Sequence[str]) -> None:
        """Append the records of NDJSON, which is sound."""
        for line in lines:
            record = json.loads(line)
            entity = self.catalog.type_named(record.get("type") or record["edge"])
            assert entity is not None, line
            given = record.get("data", {})
            values = {
                found.name: self._typed(given[found.name], found.type)
                for found in entity.properties
                if given.get(found.name) is not None
            }
            ends = {"src": record["from"], "dst": record["to"]} if isinstance(entity, EdgeType) else {}
            self._insert(entity, values | ends, given.get("id"))

    def mutate(self, plan: MutationPlan) -> tuple[int, int]:
        """Run the statements in order; how many nodes and edges they touched, each once.

        Nothing is kept if a rule breaks. The rules on values hold for every value that a statement gives, those on
        several rows for the end.
        """
        after = self.copy()
        touched: set[tuple[str, str]] = set()
        sources: set[tuple[str, str]] = set()
        broken: list[str] = []
        for statement in plan.statements:
            match statement:
                case InsertRow(table, values):
                    entity = self._entity(table.name)
                    row = after._insert(entity, _values(values, {}))
                    touched.add((entity.alias, row["id"]))
                    sources.update(_source(entity, row))
                    broken.extend(_broken_values(entity, row))
                case UpdateRows(target, values, rows):
                    entity = self._entity(target.table.name)
                    ids = {found[target.id] for found in run(rows, after.tables)}
                    for row in after.tables[entity.alias]:
                        if row["id"] in ids:
                            new = _values(values, {f"{target.name}.{name}": row[name] for name in row})
                            row.update(new)
                            touched.add((entity.alias, row["id"]))
                            broken.extend(_broken_values(entity, new))
                case DeleteRows(target, rows):
                    entity = self._entity(target.table.name)
                    ids = {found[target.id] for found in run(rows, after.tables)}
                    for alias, row in after._delete(entity, ids):
                        touched.add((alias, row["id"]))
                        if alias.startswith("edge:"):
                            sources.add((alias, row["src"]))
        if broken := sorted((*broken, *after.broken_rules(sources))):
            raise RulesBrokenError(broken)
        self.tables = after.tables
        counts = Counter(alias.partition(":")[0] for alias, _ in touched)
        return counts["node"], counts["edge"]

    def _entity(self, name: str) -> Entity:
        entity = self.catalog.type_named(name)
        assert entity is not None
        return entity

    @staticmethod
    def _typed(given: object, wanted: Any) -> Any:
        value = value_from_json(given, wanted)
        assert not isinstance(value, ValueMistake), value
        return value

    def _insert(self, entity: Entity, values: Mapping[str, Any], given: str | None = None) -> Row:
        row: Row = {"id": "", **({"src": "", "dst": ""} if isinstance(entity, EdgeType) else {})}
        row |= {found.name: found.default for found in entity.properties} | dict(values)
        row["id"] = self._id(entity, row, given)
        table = self.tables[entity.alias]
        table[:] = [found for found in table if found["id"] != row["id"]]
        table.append(row)
        return row

    def _id(self, entity: Entity, row: Row, given: str | None) -> str:
        if not entity.key:
            return given or f"NEW{next(self._fresh):023}"
        texts = []
        for name in entity.key:
            found = entity.property_named(name)
            texts.append(row[name] if found is None else value_text(row[name], found.type))
        is_array = len(texts) > 1 or isinstance(entity, EdgeType)
        return json.dumps(texts, ensure_ascii=False, separators=(",", ":")) if is_array else texts[0]

    def _delete(self, entity: Entity, ids: set[str]) -> Iterator[tuple[str, Row]]:
        """Take rows out, and the edges of nodes with them; what is gone."""
        doomed: list[tuple[str, tuple[str, ...]]] = [(entity.alias, ("id",))]
        if isinstance(entity, NodeType):
            for edge in self.catalog.edges:
                ends = (("src", edge.source), ("dst", edge.target))
                doomed.append((edge.alias, tuple(end for end, node in ends if node == entity.id)))
        for alias, columns in doomed:
            rows = self.tables[alias]
            goes = [any(row[column] in ids for column in columns) for row in rows]
            self.tables[alias] = [row for row, gone in zip(rows, goes, strict=True) if not gone]
            yield from ((alias, row) for row, gone in zip(rows, goes, strict=True) if gone)

    def broken_rules(self, sources: set[tuple[str, str]]) -> Iterator[str]:
        """The codes of the rules on several rows that the graph as it is breaks; counts only for the sources given."""
        for entity in self.catalog.types:
            rows = self.tables[entity.alias]
            for names in entity.rules.uniques:
                keys = [tuple(row[name] for name in names) for row in rows]
                taken = Counter(key for key in keys if None not in key)
                yield from ("V402" for found in taken.values() for _ in range(found - 1))
            if isinstance(entity, EdgeType):
                yield from self._broken_edges(entity, rows, sources)

    def _broken_edges(
        self, edge: EdgeType, rows: Sequence[Row], sources: set[tuple[str, str]]
    ) -> Iterator[str]:
        for end, node in (("src", self.catalog.source_of(edge)), ("dst", self.catalog.target_of(edge))):
            known = {row["id"] for row in self.tables[node.alias]}
            yield from ("V401" for row in rows if row[end] not in known)
        known = {row["id"] for row in self.tables[self.catalog.source_of(edge).alias]}
        counts = Counter(row["src"] for row in rows)
        for alias, source in sources:
            if alias == edge.alias:
                if edge.cardinality.high is not None and counts[source] > edge.cardinality.high:
                    yield "V403"
                if source in known and counts[source] < edge.cardinality.low:
                    yield "V404"


def _source(entity: Entity, row: Row) -> set[tuple[str, str]]:
    return {(entity.alias, row["src"])} if isinstance(entity, EdgeType) else set()


def _values(values: tuple[ColumnAssignment, ...], row: Row) -> Row:
    return {assigned.column: evaluated(assigned.value, row) for assigned in values}


def _broken_values(entity: Entity, row: Row) -> Iterator[str]:
    for found in entity.properties:
        if isinstance(found.type, EnumType) and row.get(found.name) not in (None, *found.type.values):
            yield "V201"
    for bounded in entity.rules.ranges:
        value, bounds = row.get(bounded.property), bounded.bounds
        below = value is not None and bounds.low is not None and value < bounds.low
        above = value is not None and bounds.high is not None and value > bounds.high
        if below or above:
            yield "V202"
    for checked in entity.rules.checks:
        value = row.get(checked.property)
        if value is not None and not re.fullmatch(checked.pattern, value):
            yield "V203"
