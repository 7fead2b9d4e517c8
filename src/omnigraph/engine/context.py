"""What the operators of one run share: table readers, budget, cache, options, and the outer rows of an inner plan.

`dispatch` breaks the import cycle between the operators and `engine/run.py`, which knows all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from omnigraph.base.errors import InvariantError
from omnigraph.engine.cache import Cache
from omnigraph.engine.columns.frame import Frame
from omnigraph.engine.limits import Budget
from omnigraph.engine.options import EngineOptions
from omnigraph.engine.tables import TableReader
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.query.plan.operators import Relation
from omnigraph.query.plan.types import Table

RequiredColumns = frozenset[str]
Dispatch = Callable[[Relation, RequiredColumns, "ExecutionContext"], Iterator[Frame]]


@dataclass(frozen=True, slots=True)
class Trace:
    """Measurements of a run, keyed by `id(operator)`: rows, seconds including inputs, and the mode with its reason."""

    rows: dict[int, int] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    modes: dict[int, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """The environment of an operator."""

    snapshot: Snapshot
    budget: Budget
    options: EngineOptions
    cache: Cache
    dispatch: Dispatch
    """Runs an operator of any kind."""
    outer: Frame | None = None
    """The outer rows of an inner plan."""
    is_limited: bool = False
    """Whether a limit may stop the operator early."""
    depth: int = 0
    """How many inner plans contain the operator. It makes the names of hidden columns unique."""
    trace: Trace | None = None
    readers: dict[str, TableReader] = field(default_factory=dict)
    """A cache of table readers by alias. All contexts of a run share it."""

    def reader(self, table: Table) -> TableReader:
        """Return the reader of a type's table; all operators of a run share it."""
        reader = self.readers.get(table.alias)
        if reader is None:
            record = self.snapshot.tables.get(table.alias)
            if record is None or record.type_id != table.type_id:
                raise InvariantError(f"the snapshot has no table '{table.alias}'", code="plan_invariant")
            reader = TableReader(self.snapshot, record, self.cache, self.options, self.budget)
            self.readers[table.alias] = reader
        return reader

    def connects_same_type(self, table: Table) -> bool:
        """Return whether both endpoints of an edge have the same node type."""
        edge = next(edge for edge in self.snapshot.schema.catalog.edges if edge.id == table.type_id)
        return edge.source == edge.target

    def run_operator(self, operator: Relation, needed: RequiredColumns) -> Iterator[Frame]:
        """Return the frames of an operator, with at least the columns in `needed`."""
        return self.dispatch(operator, needed, self)

    def for_inner_plan(self, outer: Frame) -> ExecutionContext:
        """Return the context of an inner plan over these outer rows."""
        return replace(self, outer=outer, is_limited=False, depth=self.depth + 1)

    def with_limit(self, is_limited: bool) -> ExecutionContext:
        """Return this context, under a limit or not."""
        return self if self.is_limited == is_limited else replace(self, is_limited=is_limited)

    def record_mode(self, operator: Relation, mode: str, reason: str) -> None:
        """Add the mode of an operator, and its reason, to the trace."""
        if self.trace is not None:
            self.trace.modes[id(operator)] = (mode, reason)
