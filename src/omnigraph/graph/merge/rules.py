"""Whether the merged graph keeps the rules over several rows: ends of edges, uniqueness, cardinality.

In: our snapshot, and what the merge does to its tables. Out: conflicts. The rules are those of `integrity`, the same as
for a load; here only the edges are added that would lose an end because the other side deleted the node.
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
    """A lookup by the names of the merged schema in tables that still have those of ours."""

    def _batches(
        self, type_id: TypeId, columns: list[str], rows: int, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        table, entity = self._table(type_id), self.snapshot.schema.catalog.type_with_id(type_id)
        if table is None or entity is None or table.row_count == 0:
            return
        dataset = self._open(table)
        there = column_names(dataset, entity)
        if not all(name in there for name in columns):
            return  # a new column: every row of ours is looked at itself, unless it has null there
        found = dataset.read_batches([there[name] for name in columns], where)
        for batch in combine_batches(found, rows):
            yield pa.RecordBatch.from_arrays([batch.column(there[name]) for name in columns], columns)


def rule_conflicts(ours: Snapshot, tables: Sequence[TableMerge]) -> tuple[Conflict, ...]:
    """Everything that the merged graph would break."""
    written = [plan for plan in tables if plan.keys.num_rows or len(plan.removed.ids)]
    checking = _Checking(ours, {plan.entity.id: plan for plan in written}, MergedLookup(ours))
    return tuple(dict.fromkeys((*checking.breaches(written), *checking.orphans())))


@dataclass(frozen=True, slots=True)
class _Checking:
    ours: Snapshot
    plans: Mapping[TypeId, TableMerge]
    lookup: SnapshotLookup

    def breaches(self, written: Sequence[TableMerge]) -> Iterator[Conflict]:
        changes = [
            TypeChange(plan.entity, plan.keys, ChangeMode.UPSERT, plan.removed.ids) for plan in written
        ]
        found = check_change(self.ours.schema.catalog, changes, self.lookup)
        for plan, breaches in zip(written, found, strict=True):
            for breach in breaches:
                yield from self._conflicts(plan, breach)

    def orphans(self) -> Iterator[Conflict]:
        """Edges of ours that stay while theirs deletes a node that they end at."""
        for edge in self.ours.schema.catalog.edges:
            for end, node in (("src", edge.source), ("dst", edge.target)):
                plan = self.plans.get(node)
                if plan is not None and len(plan.removed.ids):
                    yield from self._orphans_at(edge, end, plan)

    def _orphans_at(self, edge: EdgeType, end: str, plan: TableMerge) -> Iterator[Conflict]:
        table = self.ours.tables.get(edge.alias)
        if table is None:
            return  # the type comes with theirs
        there = _edges_at(self.ours, table, end, plan.removed.ids)
        ids: Any = there.column("id").combine_chunks()
        own = self.plans.get(edge.id)
        if own is not None:
            gone = pa.concat_arrays([own.taken.ids, own.removed.ids])
            there = there.filter(pc.invert(pc.is_in(ids, value_set=gone)))
        for row in there.to_pylist():
            name = EntityName(edge.alias, row["id"])
            node = EntityName(plan.entity.alias, row[end])
            message = f"the source deleted {node.describe()}, at which this edge of the target ends"
            yield Conflict(ConflictKind.ORPHAN_EDGE, name, message, (), (node,), (name,))

    def _conflicts(self, plan: TableMerge, breach: RuleViolations) -> Iterator[Conflict]:
        ids = plan.keys.column("id").to_pylist()
        given = (
            [""] * len(breach) if breach.values is None else [str(one) for one in values_of(breach.values)]
        )
        taken = {str(name) for name in plan.taken.ids.to_pylist()}
        if breach.rule is Rule.UNIQUE:
            yield from self._not_unique(plan, breach, taken)
            return
        for row, value in zip(breach.rows.tolist(), given, strict=True):
            name = None if row == NO_ROW else EntityName(plan.entity.alias, str(ids[row]))
            if breach.rule is Rule.DANGLING_END and name is not None:
                if name.id in taken:  # one of ours is told as an orphan
                    yield self._dangling(plan, breach, name, row)
            elif breach.rule in (Rule.CARDINALITY_MAX, Rule.CARDINALITY_MIN):
                yield self._wrong_count(plan, breach, value)
            else:
                own = () if name is None else (name,)
                kind = ConflictKind.VALUE_CONSTRAINT_VIOLATION
                yield Conflict(kind, name, f"{breach.message} ({value})", (), own)

    def _dangling(self, plan: TableMerge, breach: RuleViolations, name: EntityName, row: int) -> Conflict:
        edge = plan.entity
        assert isinstance(edge, EdgeType), "only edges have ends"
        catalog = self.ours.schema.catalog
        column, end = (
            ("src", catalog.source_of(edge)) if breach.property == FROM else ("dst", catalog.target_of(edge))
        )
        node = EntityName(end.alias, str(plan.keys.column(column)[row].as_py()))
        message = f"the target has no {node.describe()}, at which this edge of the source ends"
        return Conflict(ConflictKind.ORPHAN_EDGE, name, message, (), (name,), (node,))

    def _not_unique(self, plan: TableMerge, breach: RuleViolations, taken: set[str]) -> Iterator[Conflict]:
        """Two rows with one value. Who chooses ours gives up a row of theirs, and the other way round.

        Of two rows of ours it is the later one; if theirs has it alike, it counts as theirs then, and the other goes.
        """
        names = tuple(str(breach.property).split(", "))
        pairs = self._holders(plan, names, breach.rows.tolist())
        alias = plan.entity.alias
        for own, other in pairs:
            of_ours = [name for name in (own, other) if name not in taken]
            of_theirs = [name for name in (own, other) if name in taken]
            ours, theirs = (
                tuple(EntityName(alias, name) for name in found[:1]) for found in (of_theirs, of_ours)
            )
            side, ruling = ("source", "target") if other in taken else ("target", "source")
            alike = f" too, against a rule of the {ruling}" if (own in taken) is (other in taken) else ""
            message = (
                f"{breach.property} is that of {EntityName(alias, other).describe()} of the {side}{alike}"
            )
            kind = ConflictKind.UNIQUE_VIOLATION
            yield Conflict(kind, EntityName(alias, own), message, names, ours, theirs)

    def _holders(self, plan: TableMerge, names: tuple[str, ...], rows: list[int]) -> list[tuple[str, str]]:
        """The ids of these rows, each with that of the row before it that has its values, or else of one of ours."""
        keys = unique_keys([plan.keys.column(name).combine_chunks() for name in names])
        asked = plan.keys.take(rows).combine_chunks()
        firsts: Any = pc.index_in(keys.take(pa.array(rows)), value_set=keys)
        ids: Any = plan.keys.column("id").combine_chunks()
        batch: Any = asked.select(list(names)).to_batches()[0]
        of_ours = self.lookup.unique_holders(plan.entity.id, names, batch)
        is_first = pc.equal(firsts, pa.array(rows, firsts.type))
        others = pc.if_else(is_first, of_ours, ids.take(firsts))
        return [
            (str(own), str(other))
            for own, other in zip(ids.take(rows).to_pylist(), others.to_pylist(), strict=True)
        ]

    def _wrong_count(self, plan: TableMerge, breach: RuleViolations, source: str) -> Conflict:
        edge = plan.entity
        assert isinstance(edge, EdgeType), "only edges have a cardinality"
        node = EntityName(self.ours.schema.catalog.source_of(edge).alias, source)
        asked = pa.array([source], pa.utf8())
        sides = [
            set(map(str, _edges_at(self.ours, table, "src", asked).column("id").to_pylist()))
            for table in (plan.table, replace(plan.table, pin=plan.theirs))
        ]
        edges = tuple(EntityName(edge.alias, name) for name in sorted(sides[0] | sides[1]))
        low, high = edge.cardinality.low, edge.cardinality.high
        # A side that has a wrong number itself, by a rule of the other, is no way out.
        ours, theirs = (
            edges if low <= len(side) and (high is None or len(side) <= high) else () for side in sides
        )
        message = f"{breach.message.removesuffix(' of this type')} of type {edge.name}, counting both sides"
        return Conflict(ConflictKind.CARDINALITY_VIOLATION, node, message, (), ours, theirs)


def _edges_at(ours: Snapshot, table: TableRecord, end: str, nodes: Texts) -> pa.Table:
    """The `id` and the end of the edges that end at one of the nodes."""
    return open_table(ours.root, table).read_by_text(end, nodes, ["id", end]).select(["id", end])
