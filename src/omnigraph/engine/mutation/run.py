"""Runs the statements of a mutation over a snapshot: each sees what the ones before it did. Nothing is written.

Comes in: a snapshot, and a mutation whose plan is rewritten and bound. Goes out: the `MutationChange` it makes:
overlays by type, and everything that breaks a rule. A statement touches rows of the pinned table and rows of the
overlay; validation is of the whole change, as it will be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.arrow.columns import nulls
from omnigraph.base.ids import TypeId
from omnigraph.engine.columns.domain import Array
from omnigraph.engine.columns.expressions import evaluate
from omnigraph.engine.columns.frame import Frame
from omnigraph.engine.limits import Budget
from omnigraph.engine.mutation.overlay import NO_IDS, Overlay, conditions_of, held_columns, type_of
from omnigraph.engine.options import NO_LIMITS, QueryLimits
from omnigraph.engine.run import run_rows
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.graph.rows.lookup import SnapshotLookup
from omnigraph.integrity.check import ChangeMode, TypeChange, check_batch, check_change
from omnigraph.integrity.convert.column import convert
from omnigraph.integrity.raw import MixedColumn, RawBatch, RawColumn, taken
from omnigraph.integrity.report import ValidationError, ViolationReport, merge_reports
from omnigraph.integrity.row_rules import required_breaches, value_breaches
from omnigraph.integrity.rules import RowOrigins, RuleViolations
from omnigraph.query.plan.expressions import Expr, ListOf, Literal, LiteralValue
from omnigraph.query.plan.operators import Scan
from omnigraph.query.plan.statements import Assigned, DeleteRows, InsertRow, MutationPlan, UpdateRows
from omnigraph.schema.catalog import Catalog, EdgeType, Entity, NodeType
from omnigraph.schema.tables import arrow_schema, arrow_type

_ENDS = {"src": "from", "dst": "to"}


@dataclass(frozen=True, slots=True)
class BoundMutation:
    """A mutation that can be run: its plan, the line of each statement, and what messages call the text."""

    plan: MutationPlan
    lines: tuple[int, ...]
    source: str

    @property
    def is_insert_only(self) -> bool:
        return all(isinstance(statement, InsertRow) for statement in self.plan.statements)


class MutationRejectedError(ValidationError):
    """A mutation breaks rules of the schema; nothing was written."""

    def __init__(self, name: str, report: ViolationReport) -> None:
        first = report.first[0]
        more = f" (and {report.total - 1:,} more)" if report.total > 1 else ""
        count = "a mistake" if report.total == 1 else f"{report.total:,} mistakes"
        super().__init__(
            f"query {name}: {first.describe()}{more}",
            report,
            head=f"the change has {count}",
            code="mutation_rejected",
            hint="nothing was written; the schema says what rows must be like",
        )


@dataclass(slots=True)
class MutationChange:
    """What a mutation does: its overlays, and the types that it is validated against."""

    overlays: dict[TypeId, Overlay] = field(default_factory=dict)
    reports: list[ViolationReport] = field(default_factory=list)
    read: set[TypeId] = field(default_factory=set)

    @property
    def written(self) -> list[Overlay]:
        return [overlay for overlay in self.overlays.values() if not overlay.is_empty]


def run_mutation(
    snapshot: Snapshot, mutation: BoundMutation, limits: QueryLimits = NO_LIMITS
) -> MutationChange:
    """The change that the statements make, in order; it is not validated against the graph yet."""
    budget = Budget(limits.engine_options())
    running = _MutationRun(snapshot, mutation, snapshot.schema.catalog, budget)
    for statement, lines in running.groups():
        match statement:
            case [InsertRow(), *_]:
                running.insert([found for found in statement if isinstance(found, InsertRow)], lines)
            case [UpdateRows() as update]:
                running.update(update, lines[0])
            case [DeleteRows() as delete]:
                running.delete(delete)
            case _:
                raise AssertionError("a group has one statement, or inserts of one type")
    return running.change


def refuse_broken_rules(snapshot: Snapshot, mutation: BoundMutation, change: MutationChange) -> None:
    """Raise `MutationRejectedError` with everything that the change breaks in this snapshot."""
    changes = [_type_change(overlay) for overlay in change.written]
    found = check_change(snapshot.schema.catalog, changes, SnapshotLookup(snapshot))
    reports = [
        ViolationReport.of_breaches(breaches, overlay.places(mutation.source))
        for overlay, breaches in zip(change.written, found, strict=True)
        if breaches
    ]
    report = merge_reports([*change.reports, *reports])
    if report.total:
        raise MutationRejectedError(mutation.plan.name, report)


def _type_change(overlay: Overlay) -> TypeChange:
    return TypeChange(overlay.entity, overlay.rows, ChangeMode.UPSERT, overlay.removed)


@dataclass(slots=True)
class _MutationRun:
    """A mutation under way."""

    snapshot: Snapshot
    mutation: BoundMutation
    catalog: Catalog
    budget: Budget
    change: MutationChange = field(default_factory=MutationChange)

    def groups(self) -> Iterator[tuple[list[Any], list[int]]]:
        """The statements in order, inserts of one type that follow each other together."""
        pairs = zip(self.mutation.plan.statements, self.mutation.lines, strict=True)

        def key(pair: tuple[int, tuple[Any, int]]) -> tuple[object, ...]:
            number, (statement, _) = pair
            return (type_of(statement),) if isinstance(statement, InsertRow) else (number,)

        for _, group in groupby(enumerate(pairs), key):
            found = [pair for _, pair in group]
            yield [statement for statement, _ in found], [line for _, line in found]

    def insert(self, statements: list[InsertRow], lines: list[int]) -> None:
        overlay = self._overlay(statements[0].table.type_id)
        records = [_record(overlay.entity, statement.values) for statement in statements]
        checked = check_batch(overlay.entity, RawBatch.from_records(records))
        at = np.array(lines, dtype=np.int64)
        self._report(checked.breaches, at)
        # Also with mistakes, so that one attempt shows those of the rows together as well; it is never written.
        overlay.insert(pa.Table.from_batches([checked.rows]), at)
        self._note_read(overlay.entity)

    def update(self, statement: UpdateRows, line: int) -> None:
        overlay = self._overlay(statement.entity.table.type_id)
        conditions = conditions_of(statement)
        found = overlay.matching(statement.entity, conditions)
        old = self._old_rows(statement, overlay)
        fresh = overlay.add_old(old, line)
        which = np.concatenate([found, np.zeros(old.num_rows, np.bool_)]) | fresh
        self.change.read.add(overlay.entity.id)
        if which.any():
            rows = overlay.frame(statement.entity).keep(which)
            overlay.update(which, self._values(overlay.entity, statement.values, rows, line), line)

    def delete(self, statement: DeleteRows) -> None:
        overlay = self._overlay(statement.entity.table.type_id)
        gone = overlay.remove(_column(self._old_rows(statement, overlay), "id"))
        self.change.read.add(overlay.entity.id)
        if isinstance(overlay.entity, NodeType):
            self._delete_edges(overlay.entity, gone)

    def _delete_edges(self, node: NodeType, gone: Array) -> None:
        """The edges of deleted nodes go with them."""
        lookup = SnapshotLookup(self.snapshot)
        for edge in self.catalog.edges:
            ends = [end for end, found in (("src", edge.source), ("dst", edge.target)) if found == node.id]
            if ends:
                self.change.read.add(edge.id)
            for end in ends if len(gone) else ():
                removed = self._overlay(edge.id).remove(lookup.edges_at(edge.id, end, gone))
                self.budget.hold(removed.nbytes)

    def _old_rows(self, statement: UpdateRows | DeleteRows, overlay: Overlay) -> pa.Table:
        """The rows of the pinned table that match and that no earlier statement has touched."""
        scan, name = statement.rows, statement.entity.name
        assert isinstance(scan, Scan), "the rows of a statement are one scan"
        wanted = overlay.columns if isinstance(statement, UpdateRows) else ("id",)
        schema = pa.schema([arrow_schema(overlay.entity).field(column) for column in wanted])
        needed = frozenset(f"{name}.{column}" for column in wanted)
        tables = [schema.empty_table()]
        for frame in run_rows(self.snapshot, replace(scan, columns=wanted), needed, self.budget):
            fresh = frame.keep(overlay.unseen(frame.array(f"{name}.id")))
            arrays = [_stored(fresh.array(f"{name}.{found.name}"), found.type) for found in schema]
            tables.append(pa.Table.from_arrays(arrays, schema=schema))
            # What a statement touches stays until the commit.
            self.budget.hold(tables[-1].nbytes)
        return pa.concat_tables(tables)

    def _values(
        self, entity: Entity, values: tuple[Assigned, ...], rows: Frame, line: int
    ) -> dict[str, Array]:
        """The new values: arrays of one, or computed for each row; what breaks a rule is reported and null."""
        lines = np.full(rows.length, line, dtype=np.int64)
        columns = {found.name: nulls(1, arrow_type(found.type)) for found in entity.properties}
        made: dict[str, Array] = {}
        for assigned in values:
            found = entity.property_named(assigned.column)
            assert found is not None, "an update sets properties"
            is_literal = isinstance(assigned.value, Literal)
            raw = MixedColumn([_cell(assigned)]) if is_literal else _raw(assigned.value, rows)
            converted = convert(raw, found.type)
            made[found.name] = columns[found.name] = converted.values
            mistakes = (
                RuleViolations(
                    mistake.rule, found.name, mistake.message, mistake.rows, taken(raw, mistake.rows)
                )
                for mistake in converted.mistakes
            )
            self._report(tuple(mistakes), lines)
            if not (is_literal or found.nullable):
                self._report(tuple(required_breaches(found.name, raw)), lines)
        self._report(tuple(value_breaches(entity, columns)), lines)
        return made

    def _overlay(self, type_id: TypeId) -> Overlay:
        found = self.change.overlays.get(type_id)
        if found is None:
            entity = self.catalog.type_with_id(type_id)
            assert entity is not None, "the plan is of this catalog"
            found = self.change.overlays[type_id] = Overlay(entity, held_columns(entity, self.mutation.plan))
        return found

    def _note_read(self, entity: Entity) -> None:
        """What an insert is validated against: the ends of an edge."""
        self.change.read.add(entity.id)
        if isinstance(entity, EdgeType):
            self.change.read.update((entity.source, entity.target))

    def _report(
        self, breaches: tuple[RuleViolations, ...], lines: np.ndarray[Any, np.dtype[np.int64]]
    ) -> None:
        if breaches:
            places = RowOrigins.in_file(self.mutation.source, lines)
            self.change.reports.append(ViolationReport.of_breaches(breaches, places))


def _record(entity: Entity, values: tuple[Assigned, ...]) -> dict[str, object]:
    """The values under the names that data has: the ends of an edge are `from` and `to`."""
    ends = _ENDS if isinstance(entity, EdgeType) else {}
    return {ends.get(found.column, found.column): _cell(found) for found in values}


def _cell(assigned: Assigned) -> object:
    """The value of an expression that reads no row."""
    if not isinstance(assigned.value, Literal):
        raw = _raw(assigned.value, Frame(1, {}))
        return raw.values[0] if isinstance(raw, MixedColumn) else raw.to_pylist()[0]
    value: LiteralValue = assigned.value.value
    return list(value) if isinstance(value, tuple) else value


def _raw(value: Expr, rows: Frame) -> RawColumn:
    """The computed values, one per row, not yet of the property's type."""
    if not isinstance(value, ListOf):
        return evaluate(value, rows)
    columns = [evaluate(item, rows).to_pylist() for item in value.items]
    return MixedColumn([list(items) for items in zip(*columns, strict=True)])


def _column(table: pa.Table, name: str) -> Array:
    return table.column(name).combine_chunks() if table.num_rows else NO_IDS


def _stored(array: Array, wanted: pa.DataType) -> Array:
    """A column in its stored type; of a Blob only whether it is there."""
    if array.type == wanted or not pa.types.is_struct(wanted):
        return array if array.type == wanted else array.cast(wanted)
    there: Any = array.is_valid()
    empty: list[Any] = [None if not found else {"data": b""} for found in there.to_pylist()]
    return pa.array(empty, wanted)
