"""Runs the statements of a mutation over a snapshot; each statement sees the changes of those before it.

In: a snapshot, and a mutation whose plan is rewritten and bound. Out: a `MutationChange`: an overlay per type, and all
violations of rules. A statement changes rows of the pinned table and rows of the overlay; `require_valid` checks the
change as a whole. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from omnigraph.arrow.columns import nulls
from omnigraph.base import limits as base_limits
from omnigraph.base.display import format_count
from omnigraph.base.ids import TypeId
from omnigraph.engine.columns.dictionary import Array, Codes
from omnigraph.engine.columns.expressions import condition_mask, evaluate
from omnigraph.engine.columns.frame import Frame
from omnigraph.engine.limits import Budget
from omnigraph.engine.mutation.overlay import NO_IDS, Overlay, conditions_of, held_columns
from omnigraph.engine.options import NO_LIMITS, QueryLimits
from omnigraph.engine.run import run_rows
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.graph.rows.lookup import SnapshotLookup
from omnigraph.integrity.check import ChangeMode, TypeChange, check_batch, check_change
from omnigraph.integrity.convert.column import convert
from omnigraph.integrity.raw import MixedColumn, RawBatch, RawColumn, take_values
from omnigraph.integrity.report import ValidationError, ViolationReport, count_others, merge_reports
from omnigraph.integrity.row_rules import check_property_values, check_required
from omnigraph.integrity.rules import RowOrigins, RuleViolations
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import ScanFilter
from omnigraph.query.plan.statements import (
    ColumnAssignment,
    DeleteRows,
    InsertRow,
    MutationPlan,
    StatementPlan,
    UpdateRows,
)
from omnigraph.query.plan.types import STRING
from omnigraph.query.shapes import tables_of
from omnigraph.schema.catalog import EdgeType, Entity, NodeType
from omnigraph.schema.tables import arrow_schema, arrow_type

_ENDPOINT_NAMES = {"src": "from", "dst": "to"}


@dataclass(frozen=True, slots=True)
class BoundMutation:
    """A mutation that can run: its plan, the line of each statement, and the name of its source in messages."""

    plan: MutationPlan
    lines: tuple[int, ...]
    source: str

    @property
    def is_insert_only(self) -> bool:
        return all(isinstance(statement, InsertRow) for statement in self.plan.statements)


class MutationRejectedError(ValidationError):
    """A mutation violates rules of the schema; nothing was written."""

    def __init__(self, name: str, report: ViolationReport) -> None:
        first = report.first[0]
        super().__init__(
            f"query {name}: {first.describe()}{count_others(report)}",
            report,
            head=f"the change has {format_count(report.total, 'error')}",
            code="mutation_rejected",
            hint="Nothing was written. Change the values so that they satisfy the rules of the schema.",
        )


@dataclass(frozen=True, slots=True)
class MutationChange:
    """The overlays of a mutation, its violations so far, and the types that its validity depends on."""

    overlays: dict[TypeId, Overlay] = field(default_factory=dict)
    reports: list[ViolationReport] = field(default_factory=list)
    read: set[TypeId] = field(default_factory=set)

    @property
    def written(self) -> list[Overlay]:
        return [overlay for overlay in self.overlays.values() if not overlay.is_empty]


def run_mutation(snapshot: Snapshot, mutation: BoundMutation, limits: QueryLimits = NO_LIMITS) -> MutationChange:
    """Run the statements in order; return their change, which is not yet validated against the graph."""
    running = _MutationRun(snapshot, mutation, Budget(limits.engine_options()))
    statements = zip(mutation.plan.statements, mutation.lines, strict=True)
    # Consecutive inserts of one type are inserted together.
    for inserted_type, group in groupby(statements, lambda pair: _inserted_type(pair[0])):
        if inserted_type is not None:
            running.insert(inserted_type, list(group))
            continue
        for statement, line in group:
            match statement:
                case UpdateRows():
                    running.update(statement, line)
                case DeleteRows():
                    running.delete(statement)
    return running.change


def require_valid(snapshot: Snapshot, mutation: BoundMutation, change: MutationChange) -> None:
    """Raise `MutationRejectedError` with all violations of the change in this snapshot."""
    changes = [
        TypeChange(overlay.entity, overlay.rows, ChangeMode.UPSERT, overlay.removed) for overlay in change.written
    ]
    violations = check_change(snapshot.schema.catalog, changes, SnapshotLookup(snapshot))
    reports = [
        ViolationReport.of_batch(type_violations, RowOrigins.in_file(mutation.source, overlay.lines))
        for overlay, type_violations in zip(change.written, violations, strict=True)
        if type_violations
    ]
    report = merge_reports([*change.reports, *reports])
    if report.total:
        raise MutationRejectedError(mutation.plan.name, report)


@dataclass(frozen=True, slots=True)
class _MutationRun:
    """A mutation in progress."""

    snapshot: Snapshot
    mutation: BoundMutation
    budget: Budget
    change: MutationChange = field(default_factory=MutationChange)

    def insert(self, type_id: TypeId, statements: list[tuple[StatementPlan, int]]) -> None:
        overlay = self._overlay(type_id)
        entity = overlay.entity
        names = _ENDPOINT_NAMES if isinstance(entity, EdgeType) else {}
        records = [
            {names.get(assigned.column, assigned.column): _assigned_value(assigned) for assigned in statement.values}
            for statement, _ in statements
            if isinstance(statement, InsertRow)
        ]
        checked = check_batch(entity, RawBatch.from_records(records))
        lines = np.array([line for _, line in statements], dtype=np.int64)
        self._report(checked.violations, lines)
        # Insert invalid rows too, so that one run also reports the violations between rows; they are never written.
        overlay.insert(pa.Table.from_batches([checked.rows]), lines)
        # The validity of an edge also depends on the types of its endpoints.
        self.change.read.update(
            (entity.id, entity.source, entity.target) if isinstance(entity, EdgeType) else (entity.id,)
        )

    def update(self, statement: UpdateRows, line: int) -> None:
        overlay = self._overlay(statement.entity.table.type_id)
        for resolved in self._resolve(statement):
            self._update(resolved, overlay, line)

    def _update(self, statement: UpdateRows, overlay: Overlay, line: int) -> None:
        overlay_mask = condition_mask(conditions_of(statement), overlay.frame(statement.entity))
        stored = self._matching_rows(statement, overlay)
        stored_mask = overlay.add_existing(stored, line)
        mask = np.concatenate([overlay_mask, np.zeros(stored.num_rows, np.bool_)]) | stored_mask
        self.change.read.add(overlay.entity.id)
        if mask.any():
            rows = overlay.frame(statement.entity).filter(mask)
            overlay.update(mask, self._values(overlay.entity, statement.values, rows, line), line)

    def delete(self, statement: DeleteRows) -> None:
        overlay = self._overlay(statement.entity.table.type_id)
        if isinstance(statement.rows, op.Scan):
            rows = self._matching_rows(statement, overlay)
            ids: Array = rows.column("id").combine_chunks() if rows.num_rows else NO_IDS
        else:
            ids = self._matched_ids(statement)
        deleted = overlay.remove(ids)
        self.change.read.add(overlay.entity.id)
        if isinstance(overlay.entity, NodeType):
            self._delete_edges(overlay.entity, deleted)

    def _delete_edges(self, node: NodeType, deleted: Array) -> None:
        """Delete the edges of deleted nodes."""
        lookup = SnapshotLookup(self.snapshot)
        for edge in self.snapshot.schema.catalog.edges:
            ends = [end for end, type_id in (("src", edge.source), ("dst", edge.target)) if type_id == node.id]
            if ends:
                self.change.read.add(edge.id)
            for end in ends if len(deleted) else ():
                removed = self._overlay(edge.id).remove(lookup.edges_at(edge.id, end, deleted))
                self.budget.reserve(removed.nbytes)

    def _resolve(self, statement: UpdateRows) -> Iterator[UpdateRows]:
        """Yield updates of rows by their ids for an update by a `match`, which is the only statement of its query."""
        if isinstance(statement.rows, op.Scan):
            yield statement
            return
        ids, entity = self._matched_ids(statement).to_pylist(), statement.entity
        column = ex.ColumnRef(entity.name, "id", STRING)
        for start in range(0, len(ids), base_limits.LOOKUP_FILTER_VALUES_MAX):
            part = ids[start : start + base_limits.LOOKUP_FILTER_VALUES_MAX]
            is_listed = ex.InList(column, tuple(ex.Literal(row_id, STRING) for row_id in part))
            yield replace(statement, rows=op.Scan(entity, ("id",), ScanFilter((is_listed,))))

    def _matched_ids(self, statement: UpdateRows | DeleteRows) -> Array:
        """Return the distinct ids of the rows that a `match` finds in the snapshot."""
        self.change.read.update(table.type_id for table in tables_of(statement.rows))
        name = statement.entity.id
        parts = [NO_IDS]
        for frame in run_rows(self.snapshot, statement.rows, frozenset({name}), self.budget):
            part: Any = frame.array(name).drop_null().unique()
            self.budget.reserve(part.nbytes)
            parts.append(part)
        joined: Any = pa.concat_arrays(parts)
        ids: Array = joined.unique()
        return ids

    def _matching_rows(self, statement: UpdateRows | DeleteRows, overlay: Overlay) -> pa.Table:
        """Read the rows of the pinned table that match and that no earlier statement changed."""
        scan, name = statement.rows, statement.entity.name
        assert isinstance(scan, op.Scan), "the rows of a statement are one scan"
        columns = overlay.columns if isinstance(statement, UpdateRows) else ("id",)
        schema = pa.schema([arrow_schema(overlay.entity).field(column) for column in columns])
        needed = frozenset(f"{name}.{column}" for column in columns)
        tables = [schema.empty_table()]
        for frame in run_rows(self.snapshot, replace(scan, columns=columns), needed, self.budget):
            rows = frame.filter(overlay.untouched_mask(frame.array(f"{name}.id")))
            arrays = [_as_stored(rows.array(f"{name}.{column.name}"), column.type) for column in schema]
            tables.append(pa.Table.from_arrays(arrays, schema=schema))
            # The rows are held until the commit.
            self.budget.reserve(tables[-1].nbytes)
        return pa.concat_tables(tables)

    def _values(self, entity: Entity, values: tuple[ColumnAssignment, ...], rows: Frame, line: int) -> dict[str, Array]:
        """Return new values, as arrays of one value or of one per row; report invalid values, which become null."""
        lines = np.full(rows.length, line, dtype=np.int64)
        columns = {prop.name: nulls(1, arrow_type(prop.type)) for prop in entity.properties}
        new_values: dict[str, Array] = {}
        for assigned in values:
            prop = entity.property_named(assigned.column)
            assert prop is not None, "an update sets properties"
            is_literal = isinstance(assigned.value, ex.Literal)
            raw = MixedColumn([_assigned_value(assigned)]) if is_literal else _evaluate(assigned.value, rows)
            converted = convert(raw, prop.type)
            new_values[prop.name] = columns[prop.name] = converted.values
            violations = [
                RuleViolations(
                    rule=error.rule,
                    property=prop.name,
                    message=error.message,
                    rows=error.rows,
                    values=take_values(raw, error.rows),
                )
                for error in converted.invalid
            ]
            self._report(violations, lines)
            if not (is_literal or prop.nullable):
                self._report(check_required(prop.name, raw), lines)
        self._report(check_property_values(entity, columns), lines)
        return new_values

    def _overlay(self, type_id: TypeId) -> Overlay:
        overlay = self.change.overlays.get(type_id)
        if overlay is None:
            entity = self.snapshot.schema.catalog.type_with_id(type_id)
            assert entity is not None, "the plan belongs to this catalog"
            overlay = Overlay(entity=entity, columns=held_columns(entity, self.mutation.plan))
            self.change.overlays[type_id] = overlay
        return overlay

    def _report(self, violations: Iterable[RuleViolations], lines: Codes) -> None:
        reported = tuple(violations)
        if reported:
            origins = RowOrigins.in_file(self.mutation.source, lines)
            self.change.reports.append(ViolationReport.of_batch(reported, origins))


def _inserted_type(statement: StatementPlan) -> TypeId | None:
    return statement.table.type_id if isinstance(statement, InsertRow) else None


def _assigned_value(assigned: ColumnAssignment) -> object:
    """Return the value of an expression that reads no row."""
    if not isinstance(assigned.value, ex.Literal):
        raw = _evaluate(assigned.value, Frame(1, {}))
        return raw.values[0] if isinstance(raw, MixedColumn) else raw.to_pylist()[0]
    value: ex.LiteralValue = assigned.value.value
    return list(value) if isinstance(value, tuple) else value


def _evaluate(value: ex.Expr, rows: Frame) -> RawColumn:
    """Evaluate an expression, one value per row, before the conversion to the type of the property."""
    if not isinstance(value, ex.ListOf):
        return evaluate(value, rows)
    columns = [evaluate(item, rows).to_pylist() for item in value.items]
    return MixedColumn([list(items) for items in zip(*columns, strict=True)])


def _as_stored(array: Array, stored_type: pa.DataType) -> Array:
    """Return a column in its stored type; a Blob becomes empty, or null."""
    if array.type == stored_type:
        return array
    if not pa.types.is_struct(stored_type):
        return array.cast(stored_type)
    is_valid: Any = array.is_valid()
    empty: list[Any] = [{"data": b""} if has_blob else None for has_blob in is_valid.to_pylist()]
    return pa.array(empty, stored_type)
