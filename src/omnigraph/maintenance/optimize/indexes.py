"""Builds index segments: tasks on workers write them, the driver collects them per index.

In: one `IndexBuild` per index to build. Out: the same, each with segments that are not committed yet, or with its
failure: the reason why Lance cannot build the index, or the error of a task. Writes index files that no version
references, so a crash leaves unreferenced files and a repeated task is harmless. Never commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from omnigraph.base.errors import InvariantError
from omnigraph.maintenance.optimize.index_plan import IndexWork, SegmentPlan, cut_segments, group_segments
from omnigraph.maintenance.optimize.options import IndexRow
from omnigraph.maintenance.optimize.tables import TableView
from omnigraph.maintenance.optimize.task_result import FailedTask, TaskOutcome, isolated
from omnigraph.pipeline.runner import RunTasks, TaskSize, task
from omnigraph.storage.lance.compaction import adopt_segment
from omnigraph.storage.lance.dataset import DatasetVersion, branch_location
from omnigraph.storage.lance.fragments import Fragment
from omnigraph.storage.lance.indexes import IndexPlan, StagedSegment, Unbuildable, build_index_segment, plan_index


@dataclass(frozen=True, slots=True)
class BuildTask:
    """Segments of one table. Those built in a clone become files of `owner`."""

    table: DatasetVersion
    segments: tuple[SegmentPlan, ...]
    size_bytes: int
    owner: DatasetVersion | None = None


@dataclass(frozen=True, slots=True)
class BuiltSegments:
    """The segments of a task in its order, and the number of indexed rows."""

    segments: tuple[StagedSegment, ...]
    rows: int


def built_size(built: TaskOutcome[BuiltSegments]) -> TaskSize:
    """Return what a finished build adds to the progress."""
    return TaskSize(rows=built.result.rows if isinstance(built.result, BuiltSegments) else 0)


@task("build indexes", built_size, input_bytes=attrgetter("size_bytes"))
@isolated
def build_segments(task: BuildTask) -> BuiltSegments:
    """Write the index files of the task's segments."""
    dataset = task.table.open()
    built = []
    for part in task.segments:
        segment = build_index_segment(dataset, part.plan, part.fragment_ids)
        if task.owner is not None:
            source = branch_location(task.table.location, task.table.branch)
            target = branch_location(task.owner.location, task.owner.branch)
            segment = adopt_segment(segment, source, target)
        built.append(segment)
    return BuiltSegments(tuple(built), sum(part.rows for part in task.segments))


@dataclass(slots=True, kw_only=True)
class IndexBuild:
    """One index while it is built. `view` is the table to read; `owner` gets the files if that is another table.

    `segments` are built as `planned` and are not committed yet. `seconds` is the time of its tasks.
    """

    view: TableView
    work: IndexWork
    owner: DatasetVersion | None = None
    planned: tuple[SegmentPlan, ...] = ()
    segments: list[StagedSegment] = field(default_factory=list)
    failure: Unbuildable | FailedTask | None = None
    seconds: float = 0.0

    @property
    def fragments(self) -> Mapping[int, Fragment]:
        """The fragments as they were when the index was built."""
        return {number: self.view.fragments[number] for part in self.planned for number in part.fragment_ids}

    @property
    def row(self) -> IndexRow:
        """The finished build as a row of the result."""
        spec, rows = self.work.spec, sum(part.rows for part in self.planned)
        fragments = sum(len(part.fragment_ids) for part in self.planned)
        return IndexRow(
            table_key=self.view.alias,
            property=spec.column,
            kind=spec.kind,
            status=self.work.status,
            reason="",
            fragments=fragments,
            rows=rows,
            segments=len(self.segments),
        )


def build_indexes(builds: Sequence[IndexBuild], run_tasks: RunTasks, rows_per_task: int) -> None:
    """Build the segments of each index, or note its failure. Small segments of one table share a task."""
    _plan_segments(builds, rows_per_task)
    by_table: dict[str, list[IndexBuild]] = {}
    for build in builds:
        by_table.setdefault(build.view.alias, []).append(build)
    tasks: list[BuildTask] = []
    task_builds: list[list[IndexBuild]] = []
    for table_builds in by_table.values():
        version, owner = DatasetVersion.of(table_builds[0].view.dataset), table_builds[0].owner
        build_of_segment = iter([build for build in table_builds for _ in build.planned])
        for group in group_segments([part for build in table_builds for part in build.planned]):
            size_bytes = sum(table_builds[0].view.size_of(part.fragment_ids) for part in group)
            tasks.append(BuildTask(version, group, size_bytes, owner))
            task_builds.append([next(build_of_segment) for _ in group])
    outcomes = run_tasks(build_segments, tasks) if tasks else ()
    for outcome, segment_builds in zip(outcomes, task_builds, strict=True):
        segment_builds[0].seconds += outcome.seconds
        for number, build in enumerate(segment_builds):
            if isinstance(outcome.result, FailedTask):
                build.failure = outcome.result
            else:
                build.segments.append(outcome.result.segments[number])
    for build in builds:
        if build.failure is None and len(build.segments) != len(build.planned):
            message = f"index segments of {build.view.alias}: expected {len(build.planned)}, got {len(build.segments)}"
            raise InvariantError(message, code="segments_missing")


def _plan_segments(builds: Sequence[IndexBuild], rows_per_task: int) -> None:
    """Plan the segments of each index."""
    for build in builds:
        plan = plan_index(build.view.dataset, build.work.spec, build.work.fragment_ids)
        if isinstance(plan, IndexPlan):
            build.planned = cut_segments(build.work, plan, build.view.rows, rows_per_task)
        else:
            build.failure = plan
