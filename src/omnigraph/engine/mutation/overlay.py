"""What a mutation has changed so far in one table: the rows as they will be, and the ids that go.

Held in memory, as columns. Its statements read the pinned table and, in place of the rows that an earlier one changed,
these. Only the columns that somebody asks for are held: all of them where rows are inserted, otherwise those that
conditions, constraints and updates name. The content of a Blob is not read; that it is there is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.columns.dictionary import Array, Mask
from omnigraph.engine.columns.expressions import condition_mask
from omnigraph.engine.columns.frame import Frame
from omnigraph.integrity.rules import RowOrigins
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import columns_of
from omnigraph.query.plan.statements import InsertRow, MutationPlan, StatementPlan, UpdateRows
from omnigraph.query.plan.types import Entity
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.schema.tables import arrow_schema

NO_IDS: Final[Array] = pa.array([], pa.utf8())


def held_columns(entity: NodeType | EdgeType, plan: MutationPlan) -> tuple[str, ...]:
    """The columns of a type that a mutation must know of the rows it changes, in the order of the table."""
    names = arrow_schema(entity).names
    wanted = {"id", "src", "dst", *(name for unique in entity.rules.uniques for name in unique)}
    for statement in plan.statements:
        if type_of(statement) != entity.id:
            continue
        if isinstance(statement, InsertRow):
            return tuple(names)
        if isinstance(statement, UpdateRows):
            wanted.update(found.column for found in statement.values)
            wanted.update(read.column for found in statement.values for read in columns_of(found.value))
        wanted.update(
            found.column for condition in conditions_of(statement) for found in columns_of(condition)
        )
    return tuple(name for name in names if name in wanted)


def type_of(statement: StatementPlan) -> str:
    """The id of the type that a statement is about."""
    return (statement.table if isinstance(statement, InsertRow) else statement.entity.table).type_id


def conditions_of(statement: StatementPlan) -> tuple[ex.Expr, ...]:
    """What a row must pass to be touched."""
    if isinstance(statement, InsertRow):
        return ()
    assert isinstance(statement.rows, op.Scan), "the rows of a statement are one scan"
    return statement.rows.filter.conjuncts


@dataclass(slots=True)
class Overlay:
    """The changes of one table. `lines` says for each row which line of the text last touched it.

    `is_old` marks the rows that the table has and that were not inserted; `kept_blobs` those of their Blobs that no
    statement has set, whose contents are not here. `updated` are the columns that updates have set.
    """

    entity: NodeType | EdgeType
    columns: tuple[str, ...]
    rows: pa.Table = field(init=False)
    lines: np.ndarray[Any, np.dtype[np.int64]] = field(default_factory=lambda: np.empty(0, np.int64))
    is_existing: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    stored_blobs: dict[str, Mask] = field(default_factory=dict)
    updated: set[str] = field(default_factory=set)
    removed: Array = field(default_factory=lambda: NO_IDS)

    def __post_init__(self) -> None:
        whole = arrow_schema(self.entity)
        self.rows = pa.schema([whole.field(name) for name in self.columns]).empty_table()
        blob = ScalarType(Scalar.BLOB)
        blobs = [found.name for found in self.entity.properties if found.type == blob]
        self.stored_blobs = {name: np.empty(0, np.bool_) for name in blobs if name in self.columns}

    @property
    def ids(self) -> Array:
        return self.array("id")

    @property
    def is_empty(self) -> bool:
        return not self.rows.num_rows and not len(self.removed)

    def array(self, name: str) -> Array:
        """A column of the rows."""
        return self.rows.column(name).combine_chunks()

    def row_origins(self, source: str) -> RowOrigins:
        """Where each row comes from."""
        return RowOrigins.in_file(source, self.lines)

    def untouched_mask(self, ids: Array) -> Mask:
        """Which ids are those of rows that no statement has touched yet."""
        known: Any = pa.concat_arrays([self.ids, self.removed])
        found: Any = pc.invert(pc.is_in(ids, value_set=known))
        answer: Mask = found.to_numpy(zero_copy_only=False)
        return answer

    def matching_mask(self, entity: Entity, conditions: tuple[ex.Expr, ...]) -> Mask:
        """Which of the rows pass."""
        return condition_mask(conditions, self.frame(entity))

    def frame(self, entity: Entity) -> Frame:
        """The rows as a plan knows them, with the columns of an entity."""
        named = {f"{entity.name}.{name}": self.array(name) for name in self.columns}
        return Frame(self.rows.num_rows, named)

    def insert(self, rows: pa.Table, lines: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """Put rows in, each in the place of an earlier one with its id; of rows with the same id the last stays."""
        ids: Any = rows.column("id").combine_chunks()
        last = {name: at for at, name in enumerate(ids.to_pylist())}
        kept = np.array(sorted(last.values()), dtype=np.int64)
        known: Any = pc.is_in(self.ids, value_set=ids)
        self._keep(~known.to_numpy(zero_copy_only=False))
        self._append(rows.take(pa.array(kept)), lines[kept], is_existing=False)

    def add_existing(self, rows: pa.Table, line: int) -> Mask:
        """Put rows of the table in that no statement had touched; a mask of exactly these."""
        before = self.rows.num_rows
        self._append(rows, np.full(rows.num_rows, line, np.int64), is_existing=True)
        return np.arange(self.rows.num_rows) >= before

    def update(self, which: Mask, values: Mapping[str, Array], line: int) -> None:
        """Set columns of some rows, to an array of one value for all of them or of one for each."""
        mask: Any = pa.array(which)
        for name, value in values.items():
            at = self.rows.schema.get_field_index(name)
            column = _replace_values(self.array(name), mask, value)
            self.rows = self.rows.set_column(at, self.rows.schema.field(at), column)
            if name in self.stored_blobs:
                self.stored_blobs[name] = self.stored_blobs[name] & ~which
        self.updated.update(values)
        self.lines = np.where(which, line, self.lines)

    def remove(self, ids: Array) -> Array:
        """Take rows of the table out; the ids that were not out already."""
        fresh: Array = pc.unique(ids).filter(pc.invert(pc.is_in(pc.unique(ids), value_set=self.removed)))
        self.removed = pa.concat_arrays([self.removed, fresh])
        return fresh

    def _keep(self, which: Mask) -> None:
        self.rows = self.rows.filter(pa.array(which))
        self.lines, self.is_existing = self.lines[which], self.is_existing[which]
        self.stored_blobs = {name: mask[which] for name, mask in self.stored_blobs.items()}

    def _append(
        self, rows: pa.Table, lines: np.ndarray[Any, np.dtype[np.int64]], *, is_existing: bool
    ) -> None:
        arrays = [rows.column(name).cast(self.rows.schema.field(name).type) for name in self.columns]
        self.rows = pa.concat_tables([self.rows, pa.Table.from_arrays(arrays, schema=self.rows.schema)])
        self.lines = np.concatenate([self.lines, lines])
        flags = np.full(rows.num_rows, is_existing, np.bool_)
        self.is_existing = np.concatenate([self.is_existing, flags])
        self.stored_blobs = {name: np.concatenate([mask, flags]) for name, mask in self.stored_blobs.items()}


def _replace_values(column: Array, mask: Any, value: Array) -> Array:
    """The column with new values where the mask is true. By positions, because not every kernel knows every type."""
    both: Any = pa.concat_arrays([column, value.cast(column.type)])
    positions = np.arange(len(column))
    rows = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
    positions[rows] = len(column) + (np.arange(len(rows)) if len(value) > 1 else 0)
    answer: Array = both.take(pa.array(positions))
    return answer
