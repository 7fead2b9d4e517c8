"""The operators of a plan: immutable relations with the columns that they output.

A query is a tree of operators. The checks build it with `Pattern` leaves (what to match, without an order) and
`FilterRows`. The rules turn it into one that can run: without `Pattern`, and with the columns and the split filter of
every scan. Rows are bags unless an operator says otherwise. Each operator checks that its inputs have the columns that
it reads, so that a rule that breaks a plan fails immediately.

The inner plan of `ExistsJoin` and `LeftJoin` runs once for all outer rows: its `OuterRow` leaf outputs the distinct
outer rows that it depends on. The join is on `keys`, the ids of those entities, and null equals null. Without keys the
inner plan has no `OuterRow` and is the same for every outer row.
"""

from __future__ import annotations

from enum import Enum
from functools import cached_property

from msgspec import Struct

from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan.expression_walk import NO_FILTER, ScanFilter, columns_of, reads_of
from omnigraph.query.plan.types import PATH_LENGTH, Entity, IndexFact, Table


class Operator(Struct, frozen=True, dict=True):
    """A step of a plan. Its output columns are computed once, since each step above reads them."""

    def __post_init__(self) -> None:
        _ = self.outputs  # raises if a column does not exist
        self._check()

    @cached_property
    def outputs(self) -> ex.Fields:
        """The columns of the rows."""
        return self._outputs()

    def _outputs(self) -> ex.Fields:
        raise NotImplementedError

    def _check(self) -> None:
        """Raise if the inputs do not have the columns that the step reads."""


class RowOperator(Operator, frozen=True):
    """A step over the rows of one input, which it outputs with the same columns unless it defines others."""

    input: Relation

    def _outputs(self) -> ex.Fields:
        return self.input.outputs


def require_columns(expressions: tuple[ex.Expr, ...], fields: ex.Fields) -> None:
    """Require that the fields have every column that the expressions read."""
    available = set(ex.names(fields))
    for expression in expressions:
        missing = reads_of(expression) - available
        ex.require(not missing, f"an expression reads {sorted(missing)}, but its input has {sorted(available)}")


def require_own_columns(scan_filter: ScanFilter, entity: Entity) -> None:
    """Require that a filter reads only columns of its own entity."""
    for conjunct in scan_filter.conjuncts:
        others = {column.entity for column in columns_of(conjunct)} - {entity.name}
        ex.require(not others, f"the filter of {entity.name} reads {sorted(others)}")


def require_keys(outer: Relation, inner: Relation, keys: tuple[str, ...]) -> None:
    """Require that both sides of a join have its key columns."""
    outside, inside = ex.names(outer.outputs), ex.names(inner.outputs)
    ex.require(
        all(key in outside and key in inside for key in keys), f"one side of a join does not have all keys {keys}"
    )


class Direction(Enum):
    """The direction in which a traversal follows edges, from the bound endpoint."""

    OUT = "out"
    IN = "in"
    BOTH = "both"

    @property
    def reversed(self) -> Direction:
        return {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT}.get(self, self)


class Unit(Operator, frozen=True):
    """One row without columns."""

    def _outputs(self) -> ex.Fields:
        return ()


class OuterRow(Operator, frozen=True):
    """The distinct outer rows that an inner plan depends on, with columns of the outer plan."""

    columns: tuple[ex.ColumnRef, ...]

    def _outputs(self) -> ex.Fields:
        return tuple(ex.Field(column.name, column.type, column.nullable) for column in self.columns)


class Link(Struct, frozen=True):
    """A traversal of a pattern. `edge` is set if the edge is bound; the traversal then has one hop.

    `more` has the tables of alternative edges, which connect the same types, `path` is set if the path is bound.
    """

    table: Table
    source: Entity
    target: Entity
    low: int = 1
    high: int = 1
    undirected: bool = False
    edge: Entity | None = None
    more: tuple[Table, ...] = ()
    path: Entity | None = None

    def __post_init__(self) -> None:
        ex.require(1 <= self.low <= self.high, "the bounds of a traversal are not in order")
        ex.require(self.edge is None or self.high == 1, "a traversal with a bound edge has more than one hop")
        ex.require(self.edge is None or not self.more, "one of several edges is bound")

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.table, *self.more)

    @property
    def direction(self) -> Direction:
        return Direction.BOTH if self.undirected else Direction.OUT


class Pattern(Operator, frozen=True):
    """The rows of the input, extended with every match of these entities and links that passes the filters."""

    input: Relation | None
    entities: tuple[Entity, ...]
    links: tuple[Link, ...] = ()
    filters: tuple[ex.Expr, ...] = ()

    def _check(self) -> None:
        available = set(ex.names(self.outputs))
        endpoints = [endpoint for link in self.links for endpoint in (link.source, link.target)]
        ex.require(all(endpoint.id in available for endpoint in endpoints), "an endpoint of a link is not bound")
        require_columns(self.filters, self.outputs)

    @property
    def edges(self) -> tuple[Entity, ...]:
        return tuple(link.edge for link in self.links if link.edge)

    def _outputs(self) -> ex.Fields:
        before = self.input.outputs if self.input else ()
        new = (*self.entities, *self.edges, *(link.path for link in self.links if link.path))
        return ex.join_fields(before, *(ex.entity_fields(entity, entity.table.column_names) for entity in new))


class Scan(Operator, frozen=True):
    """The rows of one table that pass the filter."""

    entity: Entity
    columns: tuple[str, ...]
    filter: ScanFilter = NO_FILTER
    index: IndexFact | None = None

    def _check(self) -> None:
        ex.require("id" in self.columns, "a scan does not output the id")
        require_own_columns(self.filter, self.entity)

    def _outputs(self) -> ex.Fields:
        return ex.entity_fields(self.entity, self.columns)


class EdgeScan(Operator, frozen=True):
    """The edges of one table that pass the filter, with the ids of their endpoints; undirected: both orientations."""

    edge: Entity
    source: Entity
    target: Entity
    columns: tuple[str, ...]
    undirected: bool = False
    filter: ScanFilter = NO_FILTER
    index: IndexFact | None = None

    def _check(self) -> None:
        ex.require("id" in self.columns, "a scan does not output the id")
        require_own_columns(self.filter, self.edge)

    def _outputs(self) -> ex.Fields:
        ends = tuple(ex.entity_fields(end, ("id",)) for end in (self.source, self.target))
        return ex.join_fields(ex.entity_fields(self.edge, self.columns), *ends)


class _Reach(RowOperator, frozen=True):
    """A traversal that does not return its edges. Each hop follows an edge of `table` or of one of `more`.

    `index` is the index of the edge column that lookups can use. `path` is set if the path is bound.
    """

    table: Table
    source: Entity
    target: Entity
    direction: Direction
    low: int = 1
    high: int = 1
    index: IndexFact | None = None
    more: tuple[Table, ...] = ()
    path: Entity | None = None

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.table, *self.more)

    @property
    def path_fields(self) -> ex.Fields:
        """The length of the path, if the path is bound."""
        return ex.entity_fields(self.path, (PATH_LENGTH,)) if self.path else ()

    def _check(self) -> None:
        ex.require(self.source.id in ex.names(self.input.outputs), f"{self.source.name} is not bound")
        ex.require(1 <= self.low <= self.high, "the bounds of a traversal are not in order")


class Expand(_Reach, frozen=True):
    """Each row with every node that is reachable from `source` within the bounds, once, as `target.id`.

    The distance of a node is the shortest one; the source itself is reachable only by a self-loop, at distance 1. From
    a null source no node is reachable.
    """

    def _outputs(self) -> ex.Fields:
        return ex.join_fields(self.input.outputs, ex.entity_fields(self.target, ("id",)), self.path_fields)


class ExpandInto(_Reach, frozen=True):
    """The rows whose `target` is reachable from `source` within the bounds; both are already bound."""

    def _check(self) -> None:
        super()._check()
        ex.require(self.target.id in ex.names(self.input.outputs), f"{self.target.name} is not bound")

    def _outputs(self) -> ex.Fields:
        return ex.join_fields(self.input.outputs, self.path_fields)


class EdgeExpand(RowOperator, frozen=True):
    """Each row with each edge of `source` that passes the filter; with `into`, only edges to the bound `target`."""

    edge: Entity
    source: Entity
    target: Entity
    direction: Direction
    columns: tuple[str, ...]
    filter: ScanFilter = NO_FILTER
    into: bool = False
    index: IndexFact | None = None

    def _check(self) -> None:
        available = ex.names(self.input.outputs)
        ex.require(self.source.id in available, f"{self.source.name} is not bound")
        ex.require(self.into == (self.target.id in available), "`into` does not match whether the target is bound")
        require_own_columns(self.filter, self.edge)

    def _outputs(self) -> ex.Fields:
        far = () if self.into else ex.entity_fields(self.target, ("id",))
        return ex.join_fields(self.input.outputs, ex.entity_fields(self.edge, self.columns), far)


class Lookup(RowOperator, frozen=True):
    """The rows with more columns of an entity, read by its id; rows that do not pass the filter are dropped.

    With `keep_missing` a row with a null id is kept, with nulls, and a filter is not allowed.
    """

    entity: Entity
    columns: tuple[str, ...]
    filter: ScanFilter = NO_FILTER
    keep_missing: bool = False
    index: IndexFact | None = None

    def _check(self) -> None:
        ex.require(self.entity.id in ex.names(self.input.outputs), f"{self.entity.name} is not bound")
        ex.require("id" not in self.columns, "a lookup outputs the id, which its input has")
        ex.require(not (self.keep_missing and self.filter.conjuncts), "a lookup with `keep_missing` has a filter")
        require_own_columns(self.filter, self.entity)

    def _outputs(self) -> ex.Fields:
        new = ex.entity_fields(self.entity, self.columns)
        return ex.join_fields(self.input.outputs, ex.make_nullable(new) if self.keep_missing else new)


class FilterRows(RowOperator, frozen=True):
    """The rows for which every condition is true."""

    conditions: tuple[ex.Expr, ...]

    def _check(self) -> None:
        ex.require(bool(self.conditions), "a filter has no conditions")
        require_columns(self.conditions, self.input.outputs)


class CrossJoin(Operator, frozen=True):
    """Every pair of rows; with `on`, only pairs in which these columns are equal and not null."""

    left: Relation
    right: Relation
    on: tuple[tuple[str, str], ...] = ()

    def _check(self) -> None:
        left, right = ex.names(self.left.outputs), ex.names(self.right.outputs)
        ex.require(
            all(left_name in left and right_name in right for left_name, right_name in self.on),
            "one side of a join does not have a join column",
        )

    def _outputs(self) -> ex.Fields:
        return ex.join_fields(self.left.outputs, self.right.outputs)


class ExistsJoin(RowOperator, frozen=True):
    """The rows for which the inner plan has a match (semi join), or with `negated` no match (anti join)."""

    inner: Relation
    keys: tuple[str, ...]
    negated: bool

    def _check(self) -> None:
        require_keys(self.input, self.inner, self.keys)


class LeftJoin(RowOperator, frozen=True):
    """Each row with each match of the inner plan, or once with nulls without a match."""

    inner: Relation
    keys: tuple[str, ...]

    def _check(self) -> None:
        require_keys(self.input, self.inner, self.keys)

    def _outputs(self) -> ex.Fields:
        outer_names = set(ex.names(self.input.outputs))
        new = tuple(field for field in self.inner.outputs if field.name not in outer_names)
        return ex.join_fields(self.input.outputs, ex.make_nullable(new))


class Search(RowOperator, frozen=True):
    """The rows of the input with scores."""

    scores: tuple[ex.NamedExpression[ex.Score], ...]

    def _check(self) -> None:
        require_columns(tuple(column.expression for column in self.scores), self.input.outputs)

    def _outputs(self) -> ex.Fields:
        return ex.join_fields(self.input.outputs, tuple(column.field for column in self.scores))


class Aggregate(RowOperator, frozen=True):
    """One row for each distinct key, where null equals null; without keys exactly one row, also for an empty input."""

    keys: tuple[ex.NamedExpression[ex.Expr], ...]
    aggregates: tuple[ex.NamedExpression[ex.AggregateCall], ...]

    def _check(self) -> None:
        columns = (*self.keys, *self.aggregates)
        require_columns(tuple(column.expression for column in columns), self.input.outputs)

    def _outputs(self) -> ex.Fields:
        return ex.join_fields(tuple(column.field for column in (*self.keys, *self.aggregates)))


class OrderKey(Struct, frozen=True):
    """An expression to sort by. Nulls are first ascending and last descending; with `nulls_last` always last."""

    expression: ex.Expr
    descending: bool = False
    nulls_last: bool = False


class Order(RowOperator, frozen=True):
    """The rows sorted by the keys, then by the columns `ties`, ascending, which make the order total."""

    keys: tuple[OrderKey, ...]
    ties: tuple[str, ...]

    def _check(self) -> None:
        require_columns(tuple(key.expression for key in self.keys), self.input.outputs)
        ex.require(set(self.ties) <= set(ex.names(self.input.outputs)), "a column that breaks ties does not exist")


class LimitRows(RowOperator, frozen=True):
    """At most `count` rows after the first `offset` rows; both are integers of at least 0."""

    count: ex.Expr
    offset: ex.Expr | None = None


class Project(RowOperator, frozen=True):
    """The columns of the result, in order."""

    columns: tuple[ex.NamedExpression[ex.Expr], ...]

    def _check(self) -> None:
        require_columns(tuple(column.expression for column in self.columns), self.input.outputs)

    def _outputs(self) -> ex.Fields:
        return ex.join_fields(tuple(column.field for column in self.columns))


Leaf = Unit | OuterRow | Scan | EdgeScan
Extension = Expand | ExpandInto | EdgeExpand | Lookup
Rows = FilterRows | Search | Aggregate | Order | LimitRows | Project
Relation = Leaf | Pattern | Extension | Rows | CrossJoin | ExistsJoin | LeftJoin
