"""Builds index segments: tasks on workers train and write them, the driver collects them per index.

In: one `IndexOrder` per index to build. Out: per order a `BuiltIndex` with segments that are not committed yet, the
reason why Lance cannot build the index, or the error of its task. Writes index files that no version references, so a
crash leaves unreferenced files and a repeated task is harmless. Never commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.base.errors import InvariantError
from omnigraph.maintenance.optimize.index_plan import IndexWork, SegmentPlan, cut_segments, pack_segments, rebuild
from omnigraph.maintenance.optimize.options import IndexRow
from omnigraph.maintenance.optimize.tables import TableView
from omnigraph.maintenance.optimize.task_result import FailedTask, TaskOutcome, run_isolated
from omnigraph.pipeline.runner import RunTasks, TaskSize, task
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.compaction import adopt_segment
from omnigraph.storage.lance.dataset import DatasetVersion, branch_location
from omnigraph.storage.lance.fragments import Fragment
from omnigraph.storage.lance.indexes import (
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
    """A vector index over some fragments. `present` is the Lance type of the existing index, if there is one."""

    table: DatasetVersion
    spec: IndexSpec
    fragment_ids: tuple[int, ...]
    present: str | None


@dataclass(frozen=True, slots=True)
class BuildTask:
    """Segments of one table. Those built in a clone become files of `owner`."""

    table: DatasetVersion
    segments: tuple[SegmentPlan, ...]
    owner: DatasetVersion | None = None


@dataclass(frozen=True, slots=True)
class BuiltSegments:
    """The segments of a task in its order, and the number of indexed rows."""

    segments: tuple[IndexSegment, ...]
    rows: int


def built_size(built: TaskOutcome[BuiltSegments]) -> TaskSize:
    """Return what a finished build adds to the progress."""
    return TaskSize(rows=built.result.rows if isinstance(built.result, BuiltSegments) else 0)


@task("train indexes")
def train_index(task: TrainTask) -> TaskOutcome[IndexPlan | Unbuildable]:
    """Return how to build the index. Its segments have one Lance type; if that changes, all are built again."""
    return run_isolated(lambda: _train(task))


@task("build indexes", built_size)
def build_segments(task: BuildTask) -> TaskOutcome[BuiltSegments]:
    """Write the index files of the task's segments."""
    return run_isolated(lambda: _build(task))


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
    """Return the location of the files that a version's Lance branch owns."""
    return branch_location(table.location, table.branch)


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """One index that is built and not committed yet, and its fragments as they were when it was built."""

    work: IndexWork
    segments: tuple[IndexSegment, ...]
    fragments: Mapping[int, Fragment]
    row: IndexRow

    @property
    def uuids(self) -> frozenset[str]:
        """The ids of its segments in Lance."""
        return frozenset(str(segment.native.uuid) for segment in self.segments)


@dataclass(frozen=True, slots=True)
class IndexOrder:
    """An index to build. `view` is the table to read; `owner` gets the files if that is another table."""

    view: TableView
    work: IndexWork
    owner: DatasetVersion | None = None


IndexResult = BuiltIndex | Unbuildable | FailedTask
AddSeconds = Callable[[str, float], None]
"""Called with the alias of a table and the seconds that a worker spent on it."""


def build_indexes(
    orders: Sequence[IndexOrder], run_tasks: RunTasks, rows_per_task: int, add_seconds: AddSeconds
) -> tuple[IndexResult, ...]:
    """Build the indexes and return one result per order."""
    plans = _plan_all(orders, run_tasks, add_seconds)
    works: list[IndexWork] = []
    cuts: list[tuple[SegmentPlan, ...]] = []
    for order, plan in zip(orders, plans, strict=True):
        work: IndexWork = order.work
        cut: tuple[SegmentPlan, ...] = ()
        if isinstance(plan, IndexPlan):
            is_larger = plan.fragment_ids != work.fragment_ids
            work = rebuild(work, order.view.rows) if is_larger else work
            cut = cut_segments(work, plan, order.view.rows, rows_per_task)
        works.append(work)
        cuts.append(cut)
    segments = _build_segments(orders, cuts, run_tasks, add_seconds)
    results: list[IndexResult] = []
    for order, plan, work, cut, built in zip(orders, plans, works, cuts, segments, strict=True):
        if not isinstance(plan, IndexPlan):
            results.append(plan)
        elif isinstance(built, FailedTask):
            results.append(built)
        else:
            results.append(_join_segments(order.view, work, cut, built))
    return tuple(results)


def _plan_all(
    orders: Sequence[IndexOrder], run_tasks: RunTasks, add_seconds: AddSeconds
) -> list[IndexPlan | Unbuildable | FailedTask]:
    """Return how to build each index. Vector indexes are trained on workers."""
    trained = [order for order in orders if _is_vector(order.work)]
    tasks = [
        TrainTask(DatasetVersion.of(order.view.dataset), order.work.spec, order.work.fragment_ids, order.work.present)
        for order in trained
    ]
    outcomes = run_tasks(train_index, tasks) if tasks else ()
    for order, outcome in zip(trained, outcomes, strict=True):
        add_seconds(order.view.alias, outcome.seconds)
    results = iter(outcome.result for outcome in outcomes)
    return [
        next(results)
        if _is_vector(order.work)
        else plan_index(order.view.dataset, order.work.spec, order.work.fragment_ids)
        for order in orders
    ]


def _build_segments(
    orders: Sequence[IndexOrder], cuts: Sequence[Sequence[SegmentPlan]], run_tasks: RunTasks, add_seconds: AddSeconds
) -> list[list[IndexSegment] | FailedTask]:
    """Build the segments of each order. Small ones of one table share a task, and then they fail together."""
    tasks: list[BuildTask] = []
    task_orders: list[list[int]] = []
    for alias in dict.fromkeys(order.view.alias for order in orders):
        of_table = [position for position, order in enumerate(orders) if order.view.alias == alias]
        first = orders[of_table[0]]
        owners = iter([position for position in of_table for _ in cuts[position]])
        for pack in pack_segments([part for position in of_table for part in cuts[position]]):
            tasks.append(BuildTask(DatasetVersion.of(first.view.dataset), pack, first.owner))
            task_orders.append([next(owners) for _ in pack])
    outcomes = run_tasks(build_segments, tasks) if tasks else ()
    segments: list[list[IndexSegment] | FailedTask] = [[] for _ in orders]
    for outcome, positions in zip(outcomes, task_orders, strict=True):
        result = outcome.result
        add_seconds(orders[positions[0]].view.alias, outcome.seconds)
        for number, position in enumerate(positions):
            so_far = segments[position]
            if isinstance(result, FailedTask):
                segments[position] = result
            elif isinstance(so_far, list):
                so_far.append(result.segments[number])
    return segments


def _join_segments(
    view: TableView, work: IndexWork, cut: Sequence[SegmentPlan], segments: Sequence[IndexSegment]
) -> BuiltIndex:
    if len(segments) != len(cut):
        message = f"index segments of {view.alias}: expected {len(cut)}, got {len(segments)}"
        raise InvariantError(message, code="segments_missing")
    spec = work.spec
    numbers = [number for part in cut for number in part.fragment_ids]
    rows = sum(part.rows for part in cut)
    row = IndexRow(view.alias, spec.column, spec.kind, work.status, "", len(numbers), rows, len(segments))
    return BuiltIndex(work, tuple(segments), {number: view.fragments[number] for number in numbers}, row)


def _is_vector(work: IndexWork) -> bool:
    return work.spec.kind is IndexKind.VECTOR
