"""The steps of a plan that read tables: patterns, scans, traversals and lookups."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from omnigraph.query.plan.expression_walk import NO_FILTER, ScanFilter, columns_of, reads_of
from omnigraph.query.plan.expressions import (
    AggregateCall,
    ColumnRef,
    Expr,
    Field,
    Fields,
    Named,
    Score,
    entity_fields,
    joined,
    names,
    nullable,
    require,
)
from omnigraph.query.plan.types import Entity, IndexFact, Table

if TYPE_CHECKING:
    from omnigraph.query.plan.statements import Relation


@dataclass(frozen=True, slots=True)
class Operator:
    """A step of a plan. Its columns are worked out once, so that the cost of a plan does not grow with its square."""

    outputs: Fields = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs", self._outputs())
        self._check()

    def _outputs(self) -> Fields:
        raise NotImplementedError

    def _check(self) -> None:
        """Raises if the inputs do not have what the step needs."""


def require_columns(expressions: tuple[Expr, ...], fields: Fields) -> None:
    """Every column that the expressions read is there."""
    available = set(names(fields))
    for expression in expressions:
        missing = reads_of(expression) - available
        require(not missing, f"an expression reads {sorted(missing)}, of {sorted(available)}")


def require_own(scan_filter: ScanFilter, entity: Entity) -> None:
    """A filter reads the columns of its own entity only."""
    for conjunct in scan_filter.conjuncts:
        others = {column.entity for column in columns_of(conjunct)} - {entity.name}
        require(not others, f"the filter of {entity.name} reads {sorted(others)}")


def require_keys(outer: Relation, inner: Relation, keys: tuple[str, ...]) -> None:
    """Both sides of a join have the columns it is by."""
    outside, inside = names(outer.outputs), names(inner.outputs)
    require(all(key in outside and key in inside for key in keys), f"a side lacks one of {keys}")


class Direction(Enum):
    """How a traversal follows edges, seen from the side that is already bound."""

    OUT = "out"
    IN = "in"
    BOTH = "both"

    @property
    def reversed(self) -> Direction:
        return {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT}.get(self, self)


@dataclass(frozen=True, slots=True)
class Unit(Operator):
    """One row without columns."""

    def _outputs(self) -> Fields:
        return ()


@dataclass(frozen=True, slots=True)
class Argument(Operator):
    """The distinct outer rows that an inner plan depends on; the columns are those of the outer plan."""

    columns: tuple[ColumnRef, ...]

    def _outputs(self) -> Fields:
        return tuple(Field(column.name, column.type, column.nullable) for column in self.columns)


@dataclass(frozen=True, slots=True)
class Link:
    """A traversal of a pattern. `edge` is set when the edge itself is bound; then it is one hop."""

    table: Table
    source: Entity
    target: Entity
    low: int = 1
    high: int = 1
    undirected: bool = False
    edge: Entity | None = None

    def __post_init__(self) -> None:
        require(1 <= self.low <= self.high, "the bounds of a traversal are in order")
        require(self.edge is None or self.high == 1, "a bound edge is one hop")

    @property
    def direction(self) -> Direction:
        return Direction.BOTH if self.undirected else Direction.OUT


@dataclass(frozen=True, slots=True)
class Pattern(Operator):
    """All ways to extend the input's rows by these entities along these links. Filters are conjuncts over both."""

    input: Relation | None
    entities: tuple[Entity, ...]
    links: tuple[Link, ...] = ()
    filters: tuple[Expr, ...] = ()

    def _check(self) -> None:
        available = set(names(self.outputs))
        ends = [end for link in self.links for end in (link.source, link.target)]
        require(all(end.id in available for end in ends), "a link ends at an entity that is not bound")
        require_columns(self.filters, self.outputs)

    @property
    def edges(self) -> tuple[Entity, ...]:
        return tuple(link.edge for link in self.links if link.edge)

    def _outputs(self) -> Fields:
        before = self.input.outputs if self.input else ()
        new = (*self.entities, *self.edges)
        return joined(before, *(entity_fields(entity, entity.table.column_names) for entity in new))


@dataclass(frozen=True, slots=True)
class Scan(Operator):
    """The rows of one table that pass the filter."""

    entity: Entity
    columns: tuple[str, ...]
    filter: ScanFilter = NO_FILTER
    index: IndexFact | None = None

    def _check(self) -> None:
        require("id" in self.columns, "a scan always gives the id")
        require_own(self.filter, self.entity)

    def _outputs(self) -> Fields:
        return entity_fields(self.entity, self.columns)


@dataclass(frozen=True, slots=True)
class EdgeScan(Operator):
    """The edges of one table that pass the filter, each with the ids of its ends. Undirected: once per orientation."""

    edge: Entity
    source: Entity
    target: Entity
    columns: tuple[str, ...]
    undirected: bool = False
    filter: ScanFilter = NO_FILTER
    index: IndexFact | None = None

    def _check(self) -> None:
        require("id" in self.columns, "a scan always gives the id")
        require_own(self.filter, self.edge)

    def _outputs(self) -> Fields:
        ends = tuple(entity_fields(end, ("id",)) for end in (self.source, self.target))
        return joined(entity_fields(self.edge, self.columns), *ends)


@dataclass(frozen=True, slots=True)
class Expand(Operator):
    """For each row, every node that is reachable from `source` within the bounds, once, as `target.id`.

    Each destination counts at its shortest distance; the source itself only through a self-loop, at distance 1. From a
    null source nothing is reachable. `index` is that of the edge column that lookups would use.
    """

    input: Relation
    table: Table
    source: Entity
    target: Entity
    direction: Direction
    low: int = 1
    high: int = 1
    index: IndexFact | None = None

    def _check(self) -> None:
        require(self.source.id in names(self.input.outputs), f"{self.source.name} is not bound")
        require(1 <= self.low <= self.high, "the bounds of a traversal are in order")

    def _outputs(self) -> Fields:
        return joined(self.input.outputs, entity_fields(self.target, ("id",)))


@dataclass(frozen=True, slots=True)
class ExpandInto(Operator):
    """The rows whose `target` is reachable from `source` within the bounds; both are bound already."""

    input: Relation
    table: Table
    source: Entity
    target: Entity
    direction: Direction
    low: int = 1
    high: int = 1
    index: IndexFact | None = None

    def _check(self) -> None:
        available = names(self.input.outputs)
        require(self.source.id in available and self.target.id in available, "both ends are bound")
        require(1 <= self.low <= self.high, "the bounds of a traversal are in order")

    def _outputs(self) -> Fields:
        return self.input.outputs


@dataclass(frozen=True, slots=True)
class EdgeExpand(Operator):
    """For each row one row per edge at `source` that passes the filter; with `into`, only those to `target`."""

    input: Relation
    edge: Entity
    source: Entity
    target: Entity
    direction: Direction
    columns: tuple[str, ...]
    filter: ScanFilter = NO_FILTER
    into: bool = False
    index: IndexFact | None = None

    def _check(self) -> None:
        available = names(self.input.outputs)
        require(self.source.id in available, f"{self.source.name} is not bound")
        require(self.into == (self.target.id in available), "`into` says whether the far end is bound")
        require_own(self.filter, self.edge)

    def _outputs(self) -> Fields:
        far = () if self.into else entity_fields(self.target, ("id",))
        return joined(self.input.outputs, entity_fields(self.edge, self.columns), far)


@dataclass(frozen=True, slots=True)
class Lookup(Operator):
    """Adds columns of an entity whose id is known, and drops the rows that do not pass the filter.

    With `keep_missing` a null id keeps its row, with nulls; it never has a filter then.
    """

    input: Relation
    entity: Entity
    columns: tuple[str, ...]
    filter: ScanFilter = NO_FILTER
    keep_missing: bool = False
    index: IndexFact | None = None

    def _check(self) -> None:
        require(self.entity.id in names(self.input.outputs), f"{self.entity.name} is not bound")
        require("id" not in self.columns, "a lookup does not give the id again")
        require(not (self.keep_missing and self.filter.conjuncts), "a filter keeps nothing that is missing")
        require_own(self.filter, self.entity)

    def _outputs(self) -> Fields:
        new = entity_fields(self.entity, self.columns)
        return joined(self.input.outputs, nullable(new) if self.keep_missing else new)


@dataclass(frozen=True, slots=True)
class FilterRows(Operator):
    """The rows for which every condition is true."""

    input: Relation
    conditions: tuple[Expr, ...]

    def _check(self) -> None:
        require(bool(self.conditions), "a filter has conditions")
        require_columns(self.conditions, self.input.outputs)

    def _outputs(self) -> Fields:
        return self.input.outputs


@dataclass(frozen=True, slots=True)
class CrossJoin(Operator):
    """Every pair of rows; with `on`, only pairs in which these columns are equal and not null."""

    left: Relation
    right: Relation
    on: tuple[tuple[str, str], ...] = ()

    def _check(self) -> None:
        left, right = names(self.left.outputs), names(self.right.outputs)
        require(
            all(left_name in left and right_name in right for left_name, right_name in self.on),
            "a side lacks a join column",
        )

    def _outputs(self) -> Fields:
        return joined(self.left.outputs, self.right.outputs)


@dataclass(frozen=True, slots=True)
class ExistsJoin(Operator):
    """The rows for which the inner plan has a match (semi join), or with `negated` none (anti join)."""

    input: Relation
    inner: Relation
    keys: tuple[str, ...]
    negated: bool

    def _check(self) -> None:
        require_keys(self.input, self.inner, self.keys)

    def _outputs(self) -> Fields:
        return self.input.outputs


@dataclass(frozen=True, slots=True)
class LeftJoin(Operator):
    """Each row with each match of the inner plan, or once with nulls where there is none."""

    input: Relation
    inner: Relation
    keys: tuple[str, ...]

    def _check(self) -> None:
        require_keys(self.input, self.inner, self.keys)

    def _outputs(self) -> Fields:
        outer_names = set(names(self.input.outputs))
        new = tuple(field for field in self.inner.outputs if field.name not in outer_names)
        return joined(self.input.outputs, nullable(new))


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """A score and the column it becomes."""

    name: str
    score: Score

    @property
    def field(self) -> Field:
        return Field(self.name, self.score.type, self.score.nullable)


@dataclass(frozen=True, slots=True)
class Search(Operator):
    """Adds scores to the rows of the input."""

    input: Relation
    scores: tuple[ScoreColumn, ...]
    index: tuple[IndexFact, ...] = ()

    def _check(self) -> None:
        require_columns(tuple(column.score for column in self.scores), self.input.outputs)

    def _outputs(self) -> Fields:
        return joined(self.input.outputs, tuple(column.field for column in self.scores))


@dataclass(frozen=True, slots=True)
class AggregateColumn:
    """An aggregate and the column it becomes."""

    name: str
    call: AggregateCall

    @property
    def field(self) -> Field:
        return Field(self.name, self.call.type, self.call.nullable)


@dataclass(frozen=True, slots=True)
class Aggregate(Operator):
    """One row per distinct keys, nulls equal; without keys exactly one, for no rows too: counts 0, the rest null."""

    input: Relation
    keys: tuple[Named, ...]
    aggregates: tuple[AggregateColumn, ...]

    def _check(self) -> None:
        require_columns(tuple(key.expression for key in self.keys), self.input.outputs)
        require_columns(tuple(column.call for column in self.aggregates), self.input.outputs)

    def _outputs(self) -> Fields:
        return joined(
            tuple(key.field for key in self.keys), tuple(column.field for column in self.aggregates)
        )


@dataclass(frozen=True, slots=True)
class OrderKey:
    """An expression to sort by. Nulls come first ascending, last descending; with `nulls_last` always last."""

    expression: Expr
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True, slots=True)
class Order(Operator):
    """The rows sorted by the keys, then by the columns of `ties`, ascending, which make the order total."""

    input: Relation
    keys: tuple[OrderKey, ...]
    ties: tuple[str, ...]

    def _check(self) -> None:
        require_columns(tuple(key.expression for key in self.keys), self.input.outputs)
        require(set(self.ties) <= set(names(self.input.outputs)), "a tie is broken by a column that exists")

    def _outputs(self) -> Fields:
        return self.input.outputs


@dataclass(frozen=True, slots=True)
class LimitRows(Operator):
    """At most `count` rows after the first `offset`; both are integers that are not negative."""

    input: Relation
    count: Expr
    offset: Expr | None = None

    def _outputs(self) -> Fields:
        return self.input.outputs


@dataclass(frozen=True, slots=True)
class Project(Operator):
    """The columns of the result, in order, and no others."""

    input: Relation
    columns: tuple[Named, ...]

    def _check(self) -> None:
        require_columns(tuple(column.expression for column in self.columns), self.input.outputs)

    def _outputs(self) -> Fields:
        return joined(tuple(column.field for column in self.columns))
