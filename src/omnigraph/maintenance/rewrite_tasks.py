"""What workers do for compaction: rewrite one group of fragments. Running it twice leaves orphans only."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.maintenance.task_outcome import TaskOutcome, isolated
from omnigraph.pipeline.runner import TaskSize, task
from omnigraph.storage.compaction import Rewritten, rewrite_fragments
from omnigraph.storage.dataset import DatasetVersion


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """One group of one table, and how many rows it has."""

    table: DatasetVersion
    fragment_ids: tuple[int, ...]
    rows: int
    rows_per_fragment: int


def rewritten_size(rewritten: TaskOutcome[Rewritten]) -> TaskSize:
    """Return what a finished rewrite adds to the progress."""
    new = rewritten.result.new if isinstance(rewritten.result, Rewritten) else ()
    return TaskSize(rows=sum(fragment.num_rows for fragment in new))


@task("rewrite fragments", rewritten_size)
def rewrite_group(task: RewriteTask) -> TaskOutcome[Rewritten]:
    """Write the rows of the group anew."""
    return isolated(lambda: rewrite_fragments(task.table.open(), task.fragment_ids, task.rows_per_fragment))
