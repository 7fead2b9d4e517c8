"""What workers do for indexes: plan those that need training, and build segments.

In: small tasks that name a table's version. Out: plans and segments that pickle. No head moves, and running a task
twice leaves only files that nothing references.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph.maintenance.index_plan import SegmentPlan
from omnigraph.maintenance.task_outcome import TaskOutcome, isolated
from omnigraph.pipeline.runner import TaskSize, task
from omnigraph.storage.compaction import adopt_segment
from omnigraph.storage.dataset import DatasetVersion, branch_location
from omnigraph.storage.indexes import (
    IndexPlan,
    IndexSegment,
    IndexSpec,
    Unbuildable,
    build_index_segment,
    plan_index,
)
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True)
class TrainTask:
    """A vector index over some fragments. `present` is the Lance type of the one that is there, if one is."""

    table: DatasetVersion
    spec: IndexSpec
    fragment_ids: tuple[int, ...]
    present: str | None


@dataclass(frozen=True, slots=True)
class BuildTask:
    """Segments of one table. One that is built in a clone is for `owner`, whose files they become."""

    table: DatasetVersion
    segments: tuple[SegmentPlan, ...]
    owner: DatasetVersion | None = None


@dataclass(frozen=True, slots=True)
class BuiltSegments:
    """The segments of a task in its order, and how many rows went into them."""

    segments: tuple[IndexSegment, ...]
    rows: int


def built_size(built: TaskOutcome[BuiltSegments]) -> TaskSize:
    """Return what a finished build adds to the progress."""
    return TaskSize(rows=built.result.rows if isinstance(built.result, BuiltSegments) else 0)


@task("train indexes")
def train_index(task: TrainTask) -> TaskOutcome[IndexPlan | Unbuildable]:
    """How to build it. All segments of an index are of one type, so one that grew out of its type is built anew."""
    return isolated(lambda: _train(task))


@task("build indexes", built_size)
def build_segments(task: BuildTask) -> TaskOutcome[BuiltSegments]:
    """Write the index files of the task's segments."""
    return isolated(lambda: _build(task))


def _train(task: TrainTask) -> IndexPlan | Unbuildable:
    dataset = task.table.open()
    plan = plan_index(dataset, task.spec, task.fragment_ids)
    if isinstance(plan, Unbuildable) or task.present in (None, plan.lance_type):
        return plan
    return replace(plan, fragment_ids=tuple(sorted(dataset.fragment_rows())))


def _build(task: BuildTask) -> BuiltSegments:
    dataset = task.table.open()
    built = []
    for part in task.segments:
        segment = build_index_segment(dataset, part.plan, part.fragment_ids)
        if task.owner is not None:
            segment = adopt_segment(segment, _files_of(task.table), _files_of(task.owner))
        built.append(segment)
    return BuiltSegments(tuple(built), sum(part.rows for part in task.segments))


def _files_of(table: DatasetVersion) -> Location:
    """Where the own files of a version lie."""
    return branch_location(table.location, table.branch)
