"""What the steps of one run share: tables, budget, the outer rows of an inner plan, and the way to run a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.base.errors import InvariantError
from omnigraph.engine.cache import Cache
from omnigraph.engine.columns.frame import Frame
from omnigraph.engine.limits import Budget
from omnigraph.engine.options import EngineOptions
from omnigraph.engine.tables import TableReader
from omnigraph.graph.manifest.records import TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.query.plan.statements import Relation
from omnigraph.query.plan.types import Table

RequiredColumns = frozenset[str]
Dispatch = Callable[[Relation, RequiredColumns, "ExecutionContext"], Iterator[Frame]]


@dataclass(slots=True)
class Trace:
    """What a run noted about each step, by the identity of the step: rows, seconds with those below, and how."""

    rows: dict[int, int] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    modes: dict[int, tuple[str, str]] = field(default_factory=dict)


class Tables:
    """The tables of a snapshot by type."""

    __slots__ = ("_budget", "_by_type", "_cache", "_catalog", "_options", "_readers", "_snapshot")

    def __init__(self, snapshot: Snapshot, cache: Cache, options: EngineOptions, budget: Budget) -> None:
        self._snapshot = snapshot
        self._by_type: Mapping[str, TableRecord] = {
            str(found.type_id): found for found in snapshot.tables.values()
        }
        self._catalog = snapshot.schema
        self._cache = cache
        self._options = options
        self._budget = budget
        self._readers: dict[str, TableReader] = {}

    def reader(self, table: Table) -> TableReader:
        """The reader of a type's table."""
        type_id = str(table.type_id)
        found = self._readers.get(type_id)
        if found is None:
            record = self._by_type.get(type_id)
            if record is None:
                raise InvariantError(f"the snapshot has no table {table.alias}", code="plan_invariant")
            found = TableReader(self._snapshot, record, self._cache, self._options, self._budget)
            self._readers[type_id] = found
        return found

    def connects_same_type(self, table: Table) -> bool:
        """Whether both ends of an edge are of the same node type."""
        edge = next(found for found in self._catalog.catalog.edges if found.id == table.type_id)
        return edge.source == edge.target


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """The surroundings of a step. `outer` are the outer rows of an inner plan; `is_limited` that a limit may stop it."""

    tables: Tables
    budget: Budget
    options: EngineOptions
    cache: Cache
    dispatch: Dispatch
    outer: Frame | None = None
    is_limited: bool = False
    depth: int = 0
    trace: Trace | None = None

    def rows(self, step: Relation, needed: RequiredColumns) -> Iterator[Frame]:
        """The frames of a step. Of its columns those in `needed` are there at least."""
        return self.dispatch(step, needed, self)

    def for_inner_plan(self, outer: Frame) -> ExecutionContext:
        """The surroundings of an inner plan over these outer rows."""
        return replace(self, outer=outer, is_limited=False, depth=self.depth + 1)

    def limited(self, is_limited: bool) -> ExecutionContext:
        """The same, under a limit or not."""
        return self if self.is_limited == is_limited else replace(self, is_limited=is_limited)

    def record_mode(self, step: Relation, mode: str, reason: str) -> None:
        """Remember how a step was done."""
        if self.trace is not None:
            self.trace.modes[id(step)] = (mode, reason)
