"""Ensure indices: builds the declared indexes that a branch's tables lack, as one commit that changes no content.

In: a graph, a branch, whoever runs tasks. Out: an `IndexOutcome` with a row per declared index. It is the upkeep of
`upkeep` without compaction: a table that the branch has not written yet is forked when one of its indexes is built, and
writes that land meanwhile cost nothing unless they rewrote an indexed fragment. A second run builds what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.base import limits
from omnigraph.graph.commit import World
from omnigraph.graph.intent import WriterKind
from omnigraph.maintenance.index_outcome import IndexOutcome
from omnigraph.maintenance.upkeep import Upkeep, keep_up
from omnigraph.pipeline.runner import RunTasks
from omnigraph.storage.location import Location

ACTOR = "omnigraph:ensure_indices"


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """Which types, by name or alias (None: all), by whom, and how many rows one task may index."""

    types: frozenset[str] | None = None
    actor: str = ACTOR
    rows_per_task: int = limits.INDEX_ROWS_PER_TASK


def ensure_indices(
    root: Location,
    branch: str,
    run_tasks: RunTasks,
    options: IndexOptions | None = None,
    world: World | None = None,
) -> IndexOutcome:
    """Build every declared index that is missing or does not cover its table, as at most one commit."""
    how = options or IndexOptions()
    upkeep = Upkeep(WriterKind.ENSURE_INDICES, how.actor, how.types, rows_per_index_task=how.rows_per_task)
    done = keep_up(root, branch, run_tasks, upkeep, world)
    return IndexOutcome(branch, done.indexes, done.commit)
