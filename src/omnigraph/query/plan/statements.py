"""The plan of a query: a read is one relation, a mutation is a list of statements.

The rows that an update or a delete changes are a relation of the same operators as a read. Each statement checks that
its columns exist and that its rows have ids.
"""

from __future__ import annotations

from msgspec import Struct

from omnigraph.query.plan.expression_walk import columns_of
from omnigraph.query.plan.expressions import Expr, Fields, Param, names, require
from omnigraph.query.plan.operators import Relation
from omnigraph.query.plan.types import Entity, Table


class ReadPlan(Struct, frozen=True):
    """A query that returns rows; its columns are those of the root, in order."""

    name: str
    parameters: tuple[Param, ...]
    root: Relation

    @property
    def outputs(self) -> Fields:
        return self.root.outputs


class ColumnAssignment(Struct, frozen=True):
    """A column and its new value; in an update the value can read the columns of the row."""

    column: str
    value: Expr


class InsertRow(Struct, frozen=True):
    """Insert one row, or upsert it if the table has a key. The values of an edge include `src` and `dst`."""

    table: Table
    values: tuple[ColumnAssignment, ...]

    def __post_init__(self) -> None:
        _require_assignable(self.table, self.values)


class UpdateRows(Struct, frozen=True):
    """Set values in the rows of `rows`, which are those of `entity`."""

    entity: Entity
    values: tuple[ColumnAssignment, ...]
    rows: Relation

    def __post_init__(self) -> None:
        _require_assignable(self.entity.table, self.values)
        require(self.entity.id in names(self.rows.outputs), "the rows of a statement have no ids")
        read = {column.entity for assigned in self.values for column in columns_of(assigned.value)}
        require(read <= {self.entity.name}, "a value reads another row than its own")


class DeleteRows(Struct, frozen=True):
    """Delete the rows of `rows`, and the edges of deleted nodes."""

    entity: Entity
    rows: Relation

    def __post_init__(self) -> None:
        require(self.entity.id in names(self.rows.outputs), "the rows of a statement have no ids")


StatementPlan = InsertRow | UpdateRows | DeleteRows


class MutationPlan(Struct, frozen=True):
    """A query that changes the graph: its statements in order; each reads the changes of those before it."""

    name: str
    parameters: tuple[Param, ...]
    statements: tuple[StatementPlan, ...]


QueryPlan = ReadPlan | MutationPlan


def _require_assignable(table: Table, values: tuple[ColumnAssignment, ...]) -> None:
    columns = [assigned.column for assigned in values]
    require(len(set(columns)) == len(columns), "a column is set more than once")
    require(all(table.column(name) is not None for name in columns), f"a column of {table.alias} is unknown")
