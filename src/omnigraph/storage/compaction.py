"""Compaction as plan → tasks → one commit, so that the tasks can run anywhere.

In: a dataset. Out: tasks and results that pickle, and the dataset after the commit. Rows, row ids and their order
stay the same. A crash before the commit leaves only files that nothing references.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lance.optimize import Compaction

from omnigraph.base.effects import announce
from omnigraph.storage.commit import CompactionOutcome
from omnigraph.storage.dataset import Dataset
from omnigraph.storage.failures import substrate_errors


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """What makes a fragment worth rewriting, and how much one plan may take on. None is no bound."""

    rows_per_fragment: int
    deleted_share_min: float = 0.1
    source_rows_max: int | None = None
    excluded_fragment_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Some neighbouring fragments to rewrite."""

    base_version: int
    fragment_ids: tuple[int, ...]
    native: Any


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The rewritten files of one task, which no version knows yet."""

    base_version: int
    fragment_ids: tuple[int, ...]
    native: Any


def plan_compaction(dataset: Dataset, settings: CompactionSettings) -> tuple[CompactionTask, ...]:
    """The groups of fragments worth rewriting; none when there is nothing to do."""
    options: Any = {
        "target_rows_per_fragment": settings.rows_per_fragment,
        "materialize_deletions_threshold": settings.deleted_share_min,
    }
    if settings.source_rows_max is not None:
        options["max_source_rows"] = settings.source_rows_max
    if settings.excluded_fragment_ids:
        options["excluded_fragment_ids"] = list(settings.excluded_fragment_ids)
    with substrate_errors("plan a compaction", dataset.uri):
        plan = Compaction.plan(dataset.native, options=options)
        tasks = list(plan.tasks)
    return tuple(
        CompactionTask(task.read_version, tuple(part.id for part in task.fragments), task) for task in tasks
    )


def run_compaction_task(dataset: Dataset, task: CompactionTask) -> CompactionResult:
    """Rewrite one group. Moves no head, is safe to repeat, and runs on any machine."""
    announce("dataset.stage", dataset.uri)
    with substrate_errors("rewrite fragments", dataset.uri):
        native = task.native.execute(dataset.native)
    return CompactionResult(task.base_version, task.fragment_ids, native)


def commit_compaction_results(dataset: Dataset, results: Sequence[CompactionResult]) -> CompactionOutcome:
    """Replace the rewritten fragments in one step of two versions.

    Raises `CommitRaceError` when a rewritten fragment changed meanwhile; appended rows do not matter.
    """
    announce("dataset.compact", dataset.uri)
    native = dataset.movable()
    with substrate_errors("commit a compaction", dataset.uri):
        metrics = Compaction.commit(native, [result.native for result in results])
    moved = Dataset(dataset.location, dataset.branch, native)
    return CompactionOutcome(moved, metrics.fragments_removed, metrics.fragments_added)
