"""The steps of a plan: immutable relations that say what they read and what columns they give out.

A query is a tree of these. As made from the text it has `Pattern` leaves (what is to be matched, in no order) and
`FilterRows`s; the rules turn it into one that can be run: no `Pattern` is left, every scan has its columns and the two
halves of its filter. Rows are bags unless a step says otherwise. Each step checks at once that its inputs have the
columns it needs, so a rule that breaks a plan fails where it does so.

Inner plans of `ExistsJoin` and `LeftJoin` are run once for all outer rows: their `Argument` leaf gives the distinct
outer rows that they depend on, and the join is by `keys`, the ids of those entities, where null equals null. Without
keys the inner plan has no `Argument` and is the same for every outer row.

A mutation is a list of statements; the rows that an update or a delete touches are a plan of the same steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.query.plan.expression_walk import columns_of
from omnigraph.query.plan.expressions import Expr, Fields, Param, names, require
from omnigraph.query.plan.operators import (
    Aggregate,
    AggregateColumn,
    Argument,
    CrossJoin,
    Direction,
    EdgeExpand,
    EdgeScan,
    ExistsJoin,
    Expand,
    ExpandInto,
    FilterRows,
    LeftJoin,
    LimitRows,
    Link,
    Lookup,
    Order,
    OrderKey,
    Pattern,
    Project,
    Scan,
    ScoreColumn,
    Search,
    Unit,
)
from omnigraph.query.plan.types import Entity, Table

__all__ = [
    "Aggregate",
    "AggregateColumn",
    "Argument",
    "Assigned",
    "CrossJoin",
    "DeleteRows",
    "Direction",
    "EdgeExpand",
    "EdgeScan",
    "ExistsJoin",
    "Expand",
    "ExpandInto",
    "FilterRows",
    "InsertRow",
    "LeftJoin",
    "LimitRows",
    "Link",
    "Lookup",
    "MutationPlan",
    "Order",
    "OrderKey",
    "Pattern",
    "Project",
    "QueryPlan",
    "ReadPlan",
    "Relation",
    "Scan",
    "ScoreColumn",
    "Search",
    "StatementPlan",
    "Unit",
    "UpdateRows",
]

Leaf = Unit | Argument | Scan | EdgeScan
Extension = Expand | ExpandInto | EdgeExpand | Lookup
Rows = FilterRows | Search | Aggregate | Order | LimitRows | Project
Relation = Leaf | Pattern | Extension | Rows | CrossJoin | ExistsJoin | LeftJoin


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A query that gives rows; the columns of its result are those of the root, in order."""

    name: str
    parameters: tuple[Param, ...]
    root: Relation

    @property
    def outputs(self) -> Fields:
        return self.root.outputs


@dataclass(frozen=True, slots=True)
class Assigned:
    """A column and the value that it gets; in an update the value may read the columns of the row."""

    column: str
    value: Expr


@dataclass(frozen=True, slots=True)
class InsertRow:
    """One new row, or an upsert if the table has a key. For an edge `src` and `dst` are among the values."""

    table: Table
    values: tuple[Assigned, ...]

    def __post_init__(self) -> None:
        _require_assignable(self.table, self.values)


@dataclass(frozen=True, slots=True)
class UpdateRows:
    """Sets values in the rows that `rows` gives, which are those of `entity`."""

    entity: Entity
    values: tuple[Assigned, ...]
    rows: Relation

    def __post_init__(self) -> None:
        _require_assignable(self.entity.table, self.values)
        require(self.entity.id in names(self.rows.outputs), "the rows have ids")
        read = {column.entity for assigned in self.values for column in columns_of(assigned.value)}
        require(read <= {self.entity.name}, "a value reads the row that it is set in")


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Deletes the rows that `rows` gives, and the edges of deleted nodes."""

    entity: Entity
    rows: Relation

    def __post_init__(self) -> None:
        require(self.entity.id in names(self.rows.outputs), "the rows have ids")


StatementPlan = InsertRow | UpdateRows | DeleteRows


@dataclass(frozen=True, slots=True)
class MutationPlan:
    """A query that changes the graph: its statements in order, each of which sees what the ones before it did."""

    name: str
    parameters: tuple[Param, ...]
    statements: tuple[StatementPlan, ...]


QueryPlan = ReadPlan | MutationPlan


def _require_assignable(table: Table, values: tuple[Assigned, ...]) -> None:
    columns = [assigned.column for assigned in values]
    require(len(set(columns)) == len(columns), "a column is set once")
    require(all(table.column(name) is not None for name in columns), f"a column of {table.alias} is unknown")
