"""The steps of a plan that read tables: patterns, scans, traversals and lookups."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from omnigraph.query.access import NO_FILTER, ScanFilter
from omnigraph.query.expressions import ColumnRef, Expr, require
from omnigraph.query.facts import IndexFact
from omnigraph.query.fields import Field, Fields, entity_fields, joined, names, nullable
from omnigraph.query.plan_checks import Step, require_columns, require_own
from omnigraph.query.tables import Entity, Table

if TYPE_CHECKING:
    from omnigraph.query.plan import Relation


class Direction(Enum):
    """How a traversal follows edges, seen from the side that is already bound."""

    OUT = "out"
    IN = "in"
    BOTH = "both"

    @property
    def reversed(self) -> Direction:
        return {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT}.get(self, self)


@dataclass(frozen=True, slots=True)
class Unit(Step):
    """One row without columns."""

    def _outputs(self) -> Fields:
        return ()


@dataclass(frozen=True, slots=True)
class Argument(Step):
    """The distinct outer rows that an inner plan depends on; the columns are those of the outer plan."""

    columns: tuple[ColumnRef, ...]

    def _outputs(self) -> Fields:
        return tuple(Field(found.name, found.type, found.nullable) for found in self.columns)


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
class Pattern(Step):
    """All ways to extend the input's rows by these entities along these links. Filters are conjuncts over both."""

    input: Relation | None
    entities: tuple[Entity, ...]
    links: tuple[Link, ...] = ()
    filters: tuple[Expr, ...] = ()

    def _check(self) -> None:
        known = set(names(self.outputs))
        ends = [end for link in self.links for end in (link.source, link.target)]
        require(all(end.id in known for end in ends), "a link ends at an entity that is not bound")
        require_columns(self.filters, self.outputs)

    @property
    def edges(self) -> tuple[Entity, ...]:
        return tuple(link.edge for link in self.links if link.edge)

    def _outputs(self) -> Fields:
        before = self.input.outputs if self.input else ()
        new = (*self.entities, *self.edges)
        return joined(before, *(entity_fields(found, found.table.column_names) for found in new))


@dataclass(frozen=True, slots=True)
class Scan(Step):
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
class EdgeScan(Step):
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
class Expand(Step):
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
class ExpandInto(Step):
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
        known = names(self.input.outputs)
        require(self.source.id in known and self.target.id in known, "both ends are bound")
        require(1 <= self.low <= self.high, "the bounds of a traversal are in order")

    def _outputs(self) -> Fields:
        return self.input.outputs


@dataclass(frozen=True, slots=True)
class EdgeExpand(Step):
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
        known = names(self.input.outputs)
        require(self.source.id in known, f"{self.source.name} is not bound")
        require(self.into == (self.target.id in known), "`into` says whether the far end is bound")
        require_own(self.filter, self.edge)

    def _outputs(self) -> Fields:
        far = () if self.into else entity_fields(self.target, ("id",))
        return joined(self.input.outputs, entity_fields(self.edge, self.columns), far)


@dataclass(frozen=True, slots=True)
class Lookup(Step):
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
