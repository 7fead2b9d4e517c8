"""How a query is run: its budgets, and what tests force."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from omnigraph.base.limits import (
    ENGINE_EXPANDED_ROWS_MAX,
    ENGINE_FRAME_ROWS,
    ENGINE_MEMORY_BYTES,
    ENGINE_SECONDS_MAX,
)


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
class EngineOptions:
    """Budgets of one query. `mode` forces one way to follow edges; `cached` False reads columns from storage only."""

    memory_bytes_max: int = ENGINE_MEMORY_BYTES
    seconds_max: float = ENGINE_SECONDS_MAX
    frame_rows: int = ENGINE_FRAME_ROWS
    expanded_rows_max: int = ENGINE_EXPANDED_ROWS_MAX
    mode: TraversalMode | None = None
    cached: bool = True
