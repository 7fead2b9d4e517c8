"""Check the rules over several rows in the merged graph: endpoints of edges, uniqueness, cardinality.

In: our snapshot, and what the merge does to its tables. Out: conflicts. The rules are those of `integrity`, as for a
load. Only the edges of ours that would lose an endpoint, because theirs deleted the node, are found here. Nothing
here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.ids import TypeId
from omnigraph.graph.manifest.records import TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot, open_table
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind, EntityName
from omnigraph.graph.merge.table_plan import TableMerge
from omnigraph.graph.rows.entity_rows import column_names
from omnigraph.graph.rows.lookup import SnapshotLookup
from omnigraph.integrity.check import ChangeMode, TypeChange, check_change
from omnigraph.integrity.raw import FROM, values_of
from omnigraph.integrity.rules import NO_ROW, Rule, RuleViolations
from omnigraph.integrity.set_rules import unique_keys
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.lance.dataset import Texts
from omnigraph.storage.lance.read import combine_batches


class MergedLookup(SnapshotLookup):
    """A lookup by the names of the merged schema in tables that still have our names."""

    def _batches(
        self, type_id: TypeId, columns: list[str], rows: int, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        table, entity = self._table(type_id), self.snapshot.schema.catalog.type_with_id(type_id)
        if table is None or entity is None or table.row_count == 0:
            return
        dataset = open_table(self.snapshot.root, table)
        stored_names = column_names(dataset, entity)
        if not all(name in stored_names for name in columns):
            return  # A new column: `plans_to_check` adds every row of ours, unless it is null there.
        batches = dataset.read_batches([stored_names[name] for name in columns], where)
        for batch in combine_batches(batches, rows):
            yield pa.RecordBatch.from_arrays([batch.column(stored_names[name]) for name in columns], columns)


def rule_conflicts(ours: Snapshot, tables: Sequence[TableMerge]) -> tuple[Conflict, ...]:
    """Return every conflict with a rule in the merged graph."""
    written = [plan for plan in tables if plan.keys.num_rows or len(plan.removed.ids)]
    check = _RuleCheck(ours, {plan.entity.id: plan for plan in written}, MergedLookup(ours))
    return tuple(dict.fromkeys((*check.violations(written), *check.orphans())))


@dataclass(frozen=True, slots=True)
class _RuleCheck:
    ours: Snapshot
    plans: Mapping[TypeId, TableMerge]
    lookup: SnapshotLookup

    def violations(self, written: Sequence[TableMerge]) -> Iterator[Conflict]:
        changes = [TypeChange(plan.entity, plan.keys, ChangeMode.UPSERT, plan.removed.ids) for plan in written]
        violations_by_type = check_change(self.ours.schema.catalog, changes, self.lookup)
        for plan, violations in zip(written, violations_by_type, strict=True):
            for violation in violations:
                yield from self._conflicts(plan, violation)

    def orphans(self) -> Iterator[Conflict]:
        """Yield the edges of ours that are kept while theirs deletes one of their endpoints."""
        for edge in self.ours.schema.catalog.edges:
            for end, node in (("src", edge.source), ("dst", edge.target)):
                plan = self.plans.get(node)
                if plan is not None and len(plan.removed.ids):
                    yield from self._orphans_at(edge, end, plan)

    def _orphans_at(self, edge: EdgeType, end: str, plan: TableMerge) -> Iterator[Conflict]:
        table = self.ours.tables.get(edge.alias)
        if table is None:
            return  # Only theirs has the type.
        edges = _edges_at(self.ours, table, end, plan.removed.ids)
        ids: Any = edges.column("id").combine_chunks()
        own = self.plans.get(edge.id)
        if own is not None:
            replaced_ids = pa.concat_arrays([own.taken.ids, own.removed.ids])
            edges = edges.filter(pc.invert(pc.is_in(ids, value_set=replaced_ids)))
        for row in edges.to_pylist():
            name = EntityName(edge.alias, row["id"])
            node = EntityName(plan.entity.alias, row[end])
            message = f"the source deleted {node.describe()}, an endpoint of this edge of the target"
            yield Conflict(kind=ConflictKind.ORPHAN_EDGE, entity=name, message=message, ours=(node,), theirs=(name,))

    def _conflicts(self, plan: TableMerge, violation: RuleViolations) -> Iterator[Conflict]:
        ids = plan.keys.column("id").to_pylist()
        values = (
            [""] * len(violation) if violation.values is None else [str(value) for value in values_of(violation.values)]
        )
        taken = {str(name) for name in plan.taken.ids.to_pylist()}
        if violation.rule is Rule.UNIQUE:
            yield from self._not_unique(plan, violation, taken)
            return
        for row, value in zip(violation.rows.tolist(), values, strict=True):
            name = None if row == NO_ROW else EntityName(plan.entity.alias, str(ids[row]))
            if violation.rule is Rule.DANGLING_END and name is not None:
                if name.id in taken:  # `orphans` reports the edges of ours.
                    yield self._dangling(plan, violation, name, row)
            elif violation.rule in (Rule.CARDINALITY_MAX, Rule.CARDINALITY_MIN):
                yield self._wrong_count(plan, violation, value)
            else:
                own = () if name is None else (name,)
                kind = ConflictKind.VALUE_CONSTRAINT_VIOLATION
                yield Conflict(kind=kind, entity=name, message=f"{violation.message} ({value})", ours=own)

    def _dangling(self, plan: TableMerge, violation: RuleViolations, name: EntityName, row: int) -> Conflict:
        edge = plan.entity
        assert isinstance(edge, EdgeType), "only edges have endpoints"
        catalog = self.ours.schema.catalog
        column, end = (
            ("src", catalog.source_of(edge)) if violation.property == FROM else ("dst", catalog.target_of(edge))
        )
        node = EntityName(end.alias, str(plan.keys.column(column)[row].as_py()))
        message = f"the target has no {node.describe()}, an endpoint of this edge of the source"
        return Conflict(kind=ConflictKind.ORPHAN_EDGE, entity=name, message=message, ours=(name,), theirs=(node,))

    def _not_unique(self, plan: TableMerge, violation: RuleViolations, taken: set[str]) -> Iterator[Conflict]:
        """Yield pairs of rows with equal unique values. Choosing ours drops the row of theirs, and the reverse.

        Of two rows of ours, the later one is dropped. If theirs has that row too, it counts as theirs, and the other is
        dropped.
        """
        names = tuple(str(violation.property).split(", "))
        pairs = self._pairs_with_equal_values(plan, names, violation.rows.tolist())
        alias = plan.entity.alias
        for own, other in pairs:
            of_ours = [name for name in (own, other) if name not in taken]
            of_theirs = [name for name in (own, other) if name in taken]
            ours, theirs = (
                tuple(EntityName(alias, name) for name in names_of_side[:1]) for names_of_side in (of_theirs, of_ours)
            )
            side, ruling = ("source", "target") if other in taken else ("target", "source")
            same_side = f", which breaks a rule of the {ruling}" if (own in taken) is (other in taken) else ""
            other_row = EntityName(alias, other).describe()
            message = f"{violation.property} is equal to that of {other_row} of the {side}{same_side}"
            kind = ConflictKind.UNIQUE_VIOLATION
            yield Conflict(
                kind=kind, entity=EntityName(alias, own), message=message, properties=names, ours=ours, theirs=theirs
            )

    def _pairs_with_equal_values(
        self, plan: TableMerge, names: tuple[str, ...], rows: list[int]
    ) -> list[tuple[str, str]]:
        """Return the ids of these rows, each with the id of an earlier row with its values, or else of one of ours."""
        keys = unique_keys([plan.keys.column(name).combine_chunks() for name in names])
        violating_rows = plan.keys.take(rows).combine_chunks()
        firsts: Any = pc.index_in(keys.take(pa.array(rows)), value_set=keys)
        ids: Any = plan.keys.column("id").combine_chunks()
        batch: Any = violating_rows.select(list(names)).to_batches()[0]
        ids_of_ours = self.lookup.ids_with_values(plan.entity.id, names, batch)
        is_first = pc.equal(firsts, pa.array(rows, firsts.type))
        others = pc.if_else(is_first, ids_of_ours, ids.take(firsts))
        return [
            (str(own), str(other)) for own, other in zip(ids.take(rows).to_pylist(), others.to_pylist(), strict=True)
        ]

    def _wrong_count(self, plan: TableMerge, violation: RuleViolations, source: str) -> Conflict:
        edge = plan.entity
        assert isinstance(edge, EdgeType), "only edges have a cardinality"
        node = EntityName(self.ours.schema.catalog.source_of(edge).alias, source)
        source_ids = pa.array([source], pa.utf8())
        sides = [
            set(map(str, _edges_at(self.ours, table, "src", source_ids).column("id").to_pylist()))
            for table in (plan.table, replace(plan.table, pin=plan.theirs))
        ]
        edges = tuple(EntityName(edge.alias, name) for name in sorted(sides[0] | sides[1]))
        low, high = edge.cardinality.low, edge.cardinality.high
        # Choosing a side does not help if that side breaks a rule of the other itself.
        ours, theirs = (edges if low <= len(side) and (high is None or len(side) <= high) else () for side in sides)
        message = f"{violation.message.removesuffix(' of this type')} of type {edge.name} on both sides together"
        return Conflict(kind=ConflictKind.CARDINALITY_VIOLATION, entity=node, message=message, ours=ours, theirs=theirs)


def _edges_at(ours: Snapshot, table: TableRecord, end: str, nodes: Texts) -> pa.Table:
    """Read `id` and one endpoint of the edges at one of the nodes."""
    return open_table(ours.root, table).read_by_text(end, nodes, ["id", end]).select(["id", end])
