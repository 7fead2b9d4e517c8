"""A graph as dictionaries: a literal model of NDJSON input and of mutations."""

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
from omnigraph.schema.values import InvalidValue, value_text
from tests.query.reference import run
from tests.query.reference import value as evaluated

Entity = NodeType | EdgeType
Row = dict[str, Any]


class RulesBrokenError(Exception):
    """A change violates rules; `codes` has the codes of the violations."""

    def __init__(self, codes: Sequence[str]) -> None:
        super().__init__(*codes)
        self.codes = tuple(codes)


class ModelGraph:
    """Tables of rows, by alias."""

    def __init__(self, catalog: Catalog, tables: Mapping[str, Sequence[Row]] | None = None) -> None:
        self.catalog = catalog
        self.tables = {entity.alias: list((tables or {}).get(entity.alias, ())) for entity in catalog.types}
        self._fresh = count(1)  # shared by copies, so that ids are unique

    def copy(self) -> ModelGraph:
        rows = {alias: [dict(row) for row in table] for alias, table in self.tables.items()}
        copied = ModelGraph(self.catalog, rows)
        copied._fresh = self._fresh
        return copied

    def load(self, lines: Sequence[str]) -> None:
        """Append the records of valid NDJSON."""
        for line in lines:
            record = json.loads(line)
            entity = self.catalog.type_named(record.get("type") or record["edge"])
            assert entity is not None, line
            data = record.get("data", {})
            values = {
                prop.name: self._typed(data[prop.name], prop.type)
                for prop in entity.properties
                if data.get(prop.name) is not None
            }
            ends = {"src": record["from"], "dst": record["to"]} if isinstance(entity, EdgeType) else {}
            self._insert(entity, values | ends, data.get("id"))

    def mutate(self, plan: MutationPlan) -> tuple[int, int]:
        """Run the statements in order; return how many distinct nodes and edges they changed.

        A violation discards all changes. Rules on values apply to each value that a statement sets, rules on several
        rows apply to the final state.
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
                    ids = {match[target.id] for match in run(rows, after.tables)}
                    for row in after.tables[entity.alias]:
                        if row["id"] in ids:
                            new = _values(values, {f"{target.name}.{name}": row[name] for name in row})
                            row.update(new)
                            touched.add((entity.alias, row["id"]))
                            broken.extend(_broken_values(entity, new))
                case DeleteRows(target, rows):
                    entity = self._entity(target.table.name)
                    ids = {match[target.id] for match in run(rows, after.tables)}
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
    def _typed(json_value: object, value_type: Any) -> Any:
        value = value_from_json(json_value, value_type)
        assert not isinstance(value, InvalidValue), value
        return value

    def _insert(self, entity: Entity, values: Mapping[str, Any], row_id: str | None = None) -> Row:
        row: Row = {"id": "", **({"src": "", "dst": ""} if isinstance(entity, EdgeType) else {})}
        row |= {prop.name: prop.default for prop in entity.properties} | dict(values)
        row["id"] = self._id(entity, row, row_id)
        table = self.tables[entity.alias]
        table[:] = [other for other in table if other["id"] != row["id"]]
        table.append(row)
        return row

    def _id(self, entity: Entity, row: Row, row_id: str | None) -> str:
        if not entity.key:
            return row_id or f"NEW{next(self._fresh):023}"
        texts = []
        for name in entity.key:
            prop = entity.property_named(name)
            texts.append(row[name] if prop is None else value_text(row[name], prop.type))
        is_array = len(texts) > 1 or isinstance(entity, EdgeType)
        return json.dumps(texts, ensure_ascii=False, separators=(",", ":")) if is_array else texts[0]

    def _delete(self, entity: Entity, ids: set[str]) -> Iterator[tuple[str, Row]]:
        """Delete rows, and the edges of deleted nodes; yield the deleted rows."""
        deletable: list[tuple[str, tuple[str, ...]]] = [(entity.alias, ("id",))]
        if isinstance(entity, NodeType):
            for edge in self.catalog.edges:
                ends = (("src", edge.source), ("dst", edge.target))
                deletable.append((edge.alias, tuple(end for end, node in ends if node == entity.id)))
        for alias, columns in deletable:
            rows = self.tables[alias]
            is_deleted = [any(row[column] in ids for column in columns) for row in rows]
            self.tables[alias] = [row for row, deleted in zip(rows, is_deleted, strict=True) if not deleted]
            yield from ((alias, row) for row, deleted in zip(rows, is_deleted, strict=True) if deleted)

    def broken_rules(self, sources: set[tuple[str, str]]) -> Iterator[str]:
        """Yield the codes of violated rules on several rows; check cardinality only for these sources."""
        for entity in self.catalog.types:
            rows = self.tables[entity.alias]
            for names in entity.rules.uniques:
                keys = [tuple(row[name] for name in names) for row in rows]
                key_counts = Counter(key for key in keys if None not in key)
                yield from ("V402" for number in key_counts.values() for _ in range(number - 1))
            if isinstance(entity, EdgeType):
                yield from self._broken_edges(entity, rows, sources)

    def _broken_edges(self, edge: EdgeType, rows: Sequence[Row], sources: set[tuple[str, str]]) -> Iterator[str]:
        for end, node in (("src", self.catalog.source_of(edge)), ("dst", self.catalog.target_of(edge))):
            existing_ids = {row["id"] for row in self.tables[node.alias]}
            yield from ("V401" for row in rows if row[end] not in existing_ids)
        source_ids = {row["id"] for row in self.tables[self.catalog.source_of(edge).alias]}
        counts = Counter(row["src"] for row in rows)
        for alias, source in sources:
            if alias == edge.alias:
                if edge.cardinality.high is not None and counts[source] > edge.cardinality.high:
                    yield "V403"
                if source in source_ids and counts[source] < edge.cardinality.low:
                    yield "V404"


def _source(entity: Entity, row: Row) -> set[tuple[str, str]]:
    return {(entity.alias, row["src"])} if isinstance(entity, EdgeType) else set()


def _values(values: tuple[ColumnAssignment, ...], row: Row) -> Row:
    return {assigned.column: evaluated(assigned.value, row) for assigned in values}


def _broken_values(entity: Entity, row: Row) -> Iterator[str]:
    for prop in entity.properties:
        if isinstance(prop.type, EnumType) and row.get(prop.name) not in (None, *prop.type.values):
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
