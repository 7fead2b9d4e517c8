"""How a query is run: its budgets, and what tests force."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import UsageError


class QueryEngine(StrEnum):
    """What runs a query: this process, or Spark."""

    PROCESS = "process"
    SPARK = "spark"


class TraversalMode(Enum):
    """The ways to follow an edge. All of them give the same rows."""

    INDEXED = "indexed"
    ADJACENCY = "adjacency"
    EDGE_SCAN = "edge scan"


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one query may take; None is what every query may."""

    memory_bytes: int | None = None
    """How many bytes of memory; a query that needs more ends with `query_memory`."""
    seconds: float | None = None
    """How long it may run; after that it ends with `query_time`."""
    hops: int | None = None
    """How far a traversal without an upper bound, such as `{1,}`, goes; None refuses such traversals."""

    def __post_init__(self) -> None:
        if self.hops is not None and not 1 <= self.hops <= limits.TRAVERSAL_HOPS_MAX:
            raise UsageError(
                f"the ceiling of a traversal cannot be {self.hops} hops",
                code="query_limits",
                hint=f"give a number from 1 to {limits.TRAVERSAL_HOPS_MAX}, or leave it out",
            )
        for what, value in (("memory", self.memory_bytes), ("time", self.seconds)):
            if value is not None and not value > 0:
                raise UsageError(
                    f"the {what} budget of a query cannot be {value}",
                    code="query_limits",
                    hint="give a number above 0, or leave it out",
                )

    def engine_options(self, seconds_max: float = limits.ENGINE_SECONDS_MAX) -> EngineOptions:
        """The same as options of the engine, with so many seconds unless others are given."""
        return EngineOptions(
            limits.ENGINE_MEMORY_BYTES if self.memory_bytes is None else self.memory_bytes,
            seconds_max if self.seconds is None else self.seconds,
        )


NO_LIMITS: Final = QueryLimits()
"""What every query may take, since nothing is said."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Budgets of one query. `mode` forces one way to follow edges; `cached` False reads columns from storage only."""

    memory_bytes_max: int = limits.ENGINE_MEMORY_BYTES
    seconds_max: float = limits.ENGINE_SECONDS_MAX
    frame_rows: int = limits.ENGINE_FRAME_ROWS
    expanded_rows_max: int = limits.ENGINE_EXPANDED_ROWS_MAX
    mode: TraversalMode | None = None
    cached: bool = True
