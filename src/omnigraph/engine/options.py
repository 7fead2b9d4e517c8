"""How a query runs: which engine runs it, its limits, and what tests and benchmarks force."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from threading import Event
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.query.rules.search_choice import SearchPath


class QueryEngine(StrEnum):
    """What runs a query: this process, or Spark."""

    PROCESS = "process"
    SPARK = "spark"


class TraversalMode(Enum):
    """The ways to follow an edge. All of them return the same rows."""

    INDEXED = "indexed"
    ADJACENCY = "adjacency"
    EDGE_SCAN = "edge scan"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """The limits of one query; None is the default limit."""

    memory_bytes: int | None = None
    """The bytes of memory that the query may use; above them it fails with `query_memory`."""
    seconds: float | None = None
    """The time that the query may take; after it the query fails with `query_time`."""
    hops: int | None = None
    """The hops of a traversal without an upper bound, such as `{1,}`; None rejects such traversals."""
    cancelled: Event | None = None
    """An event that another thread sets to end the query with `query_cancelled`."""
    exact: bool = False
    """Whether searches run exactly, without indexes."""

    def __post_init__(self) -> None:
        if self.hops is not None and not 1 <= self.hops <= limits.TRAVERSAL_HOPS_MAX:
            raise UsageError(
                f"invalid maximum of hops: expected 1 to {limits.TRAVERSAL_HOPS_MAX}, got {self.hops}",
                code="query_limits",
                hint=f"Pass a number from 1 to {limits.TRAVERSAL_HOPS_MAX}, or omit the argument.",
            )
        for resource, value in (("memory", self.memory_bytes), ("time", self.seconds)):
            if value is not None and not value > 0:
                raise UsageError(
                    f"invalid {resource} limit of a query: expected a number above 0, got {value}",
                    code="query_limits",
                    hint="Pass a number above 0, or omit the argument.",
                )

    def engine_options(self, default_seconds: float = limits.ENGINE_SECONDS_MAX) -> EngineOptions:
        """Return the options of the engine with these limits."""
        return EngineOptions(
            memory_bytes_max=limits.ENGINE_MEMORY_BYTES if self.memory_bytes is None else self.memory_bytes,
            seconds_max=default_seconds if self.seconds is None else self.seconds,
            cancelled=self.cancelled,
            search=SearchPath.EXACT if self.exact else None,
        )


NO_LIMITS: Final = QueryLimits()
"""The default limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """The limits of one query. `mode` forces a way to follow edges; `cached=False` reads columns from storage only.

    `search` forces a way to search: EXACT for all scores and predicates, INDEX wherever an index can be used.
    """

    memory_bytes_max: int = limits.ENGINE_MEMORY_BYTES
    seconds_max: float = limits.ENGINE_SECONDS_MAX
    frame_rows: int = limits.ENGINE_FRAME_ROWS
    expanded_rows_max: int = limits.ENGINE_EXPANDED_ROWS_MAX
    mode: TraversalMode | None = None
    search: SearchPath | None = None
    cached: bool = True
    cancelled: Event | None = None
