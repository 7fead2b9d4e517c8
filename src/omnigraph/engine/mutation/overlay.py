"""The changes of a mutation to one table, in memory: new and changed rows, and the ids of deleted rows.

Statements read the pinned table and, in place of the rows that an earlier statement changed, the overlay. It holds only
the required columns: all columns if rows are inserted, otherwise those of conditions, constraints and updates. The
content of a Blob is not read, only whether it is null. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import bool_array, integer_array, take_rows
from omnigraph.engine.columns.dictionary import Array, Codes, Mask
from omnigraph.engine.columns.frame import Frame
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import columns_of
from omnigraph.query.plan.statements import DeleteRows, InsertRow, MutationPlan, UpdateRows
from omnigraph.query.plan.types import Entity
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.schema.tables import arrow_schema

NO_IDS: Final[Array] = pa.array([], pa.utf8())


def held_columns(entity: NodeType | EdgeType, plan: MutationPlan) -> tuple[str, ...]:
    """Return the columns that a mutation needs of the rows that it changes, in the order of the table."""
    names = arrow_schema(entity).names
    required = {"id", "src", "dst", *(name for unique in entity.rules.uniques for name in unique)}
    for statement in plan.statements:
        table = statement.table if isinstance(statement, InsertRow) else statement.entity.table
        if table.type_id != entity.id:
            continue
        if isinstance(statement, InsertRow):
            return tuple(names)
        if isinstance(statement, UpdateRows):
            required.update(assigned.column for assigned in statement.values)
            required.update(ref.column for assigned in statement.values for ref in columns_of(assigned.value))
        required.update(ref.column for condition in conditions_of(statement) for ref in columns_of(condition))
    return tuple(name for name in names if name in required)


def conditions_of(statement: UpdateRows | DeleteRows) -> tuple[ex.Expr, ...]:
    """Return the conditions of an update or a delete on its own rows; the matches of a `match` are found before."""
    return statement.rows.filter.conjuncts if isinstance(statement.rows, op.Scan) else ()


@dataclass(slots=True, kw_only=True)
class Overlay:
    """The changes of one table. `lines` has for each row the line of the statement that changed it last.

    `is_existing` marks rows of the table, as opposed to inserted rows; `stored_blobs` marks the Blobs that no statement
    has set, whose content is only in the table. `updated` has the columns that updates set, `removed` the deleted ids.
    """

    entity: NodeType | EdgeType
    columns: tuple[str, ...]
    rows: pa.Table = field(init=False)
    lines: Codes = field(default_factory=lambda: np.empty(0, np.int64))
    is_existing: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    stored_blobs: dict[str, Mask] = field(default_factory=dict)
    updated: set[str] = field(default_factory=set)
    removed: Array = field(default_factory=lambda: NO_IDS)

    def __post_init__(self) -> None:
        schema = arrow_schema(self.entity)
        self.rows = pa.schema([schema.field(name) for name in self.columns]).empty_table()
        blob = ScalarType(Scalar.BLOB)
        blobs = [prop.name for prop in self.entity.properties if prop.type == blob]
        self.stored_blobs = {name: np.empty(0, np.bool_) for name in blobs if name in self.columns}

    @property
    def ids(self) -> Array:
        return self.array("id")

    @property
    def is_empty(self) -> bool:
        return not self.rows.num_rows and not len(self.removed)

    def array(self, name: str) -> Array:
        """Return a column of the rows."""
        return self.rows.column(name).combine_chunks()

    def untouched_mask(self, ids: Array) -> Mask:
        """Return which ids belong to rows that no statement has changed yet."""
        changed_ids: Any = pa.concat_arrays([self.ids, self.removed])
        untouched: Any = pc.invert(pc.is_in(ids, value_set=changed_ids))
        mask: Mask = untouched.to_numpy(zero_copy_only=False)
        return mask

    def frame(self, entity: Entity) -> Frame:
        """Return the rows as a frame with the columns of an entity."""
        columns = {f"{entity.name}.{name}": self.array(name) for name in self.columns}
        return Frame(self.rows.num_rows, columns)

    def insert(self, rows: pa.Table, lines: Codes) -> None:
        """Add rows; a row replaces an earlier row with the same id."""
        ids: Any = rows.column("id").combine_chunks()
        last = {row_id: position for position, row_id in enumerate(ids.to_pylist())}
        positions = np.array(sorted(last.values()), dtype=np.int64)
        is_replaced: Any = pc.is_in(self.ids, value_set=ids)
        self._filter(~is_replaced.to_numpy(zero_copy_only=False))
        self._append(rows.take(integer_array(positions)), lines[positions], is_existing=False)

    def add_existing(self, rows: pa.Table, line: int) -> Mask:
        """Add rows of the table that no statement has changed; return a mask of exactly these rows."""
        before = self.rows.num_rows
        self._append(rows, np.full(rows.num_rows, line, np.int64), is_existing=True)
        return np.arange(self.rows.num_rows) >= before

    def update(self, mask: Mask, values: Mapping[str, Array], line: int) -> None:
        """Set columns of the masked rows; each array has one value for all of them, or one for each."""
        for name, value in values.items():
            index = self.rows.schema.get_field_index(name)
            column = _replace_values(self.array(name), mask, value)
            self.rows = self.rows.set_column(index, self.rows.schema.field(index), column)
            if name in self.stored_blobs:
                self.stored_blobs[name] = self.stored_blobs[name] & ~mask
        self.updated.update(values)
        self.lines = np.where(mask, line, self.lines)

    def remove(self, ids: Array) -> Array:
        """Delete rows of the table; return the ids that were not deleted before."""
        distinct: Any = pc.unique(ids)
        new_ids: Array = distinct.filter(pc.invert(pc.is_in(distinct, value_set=self.removed)))
        self.removed = pa.concat_arrays([self.removed, new_ids])
        return new_ids

    def _filter(self, mask: Mask) -> None:
        self.rows = self.rows.filter(bool_array(mask))
        self.lines, self.is_existing = self.lines[mask], self.is_existing[mask]
        self.stored_blobs = {name: is_stored[mask] for name, is_stored in self.stored_blobs.items()}

    def _append(self, rows: pa.Table, lines: Codes, *, is_existing: bool) -> None:
        arrays = [rows.column(name).cast(self.rows.schema.field(name).type) for name in self.columns]
        self.rows = pa.concat_tables([self.rows, pa.Table.from_arrays(arrays, schema=self.rows.schema)])
        self.lines = np.concatenate([self.lines, lines])
        flags = np.full(rows.num_rows, is_existing, np.bool_)
        self.is_existing = np.concatenate([self.is_existing, flags])
        self.stored_blobs = {name: np.concatenate([mask, flags]) for name, mask in self.stored_blobs.items()}


def _replace_values(column: Array, mask: Mask, value: Array) -> Array:
    """Return the column with new values where the mask is true; by `take`, because it supports all types."""
    choices = pa.concat_arrays([column, value.cast(column.type)])
    positions = np.arange(len(column))
    rows = np.flatnonzero(mask)
    positions[rows] = len(column) + (np.arange(len(rows)) if len(value) > 1 else 0)
    return take_rows(choices, positions)
