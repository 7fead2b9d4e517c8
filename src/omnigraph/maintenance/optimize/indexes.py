"""What was done for one table and is not committed yet, and whether it still fits the table.

In: rewritten groups, built index segments, and the table as it is now. Out: the same work for that version, and what of
it was lost because another writer changed more than rows. Rows that were deleted or updated since are deleted from the
rewritten groups as well, so none comes back (`concurrent_changes`); an index leaves them to Lance, which masks them.
Reads the table, writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.base.errors import InvariantError
from omnigraph.maintenance.optimize.index_plan import (
    IndexWork,
    SegmentPlan,
    cut_segments,
    pack_segments,
    rebuild,
)
from omnigraph.maintenance.optimize.options import IndexRow
from omnigraph.maintenance.optimize.tables import TableView
from omnigraph.maintenance.optimize.task_result import FailedTask, TaskOutcome, isolated
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


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """One index that is built and not yet committed, and the fragments as they were then."""

    work: IndexWork
    segments: tuple[IndexSegment, ...]
    fragments: Mapping[int, Fragment]
    row: IndexRow

    @property
    def uuids(self) -> frozenset[str]:
        """What Lance knows its segments by."""
        return frozenset(str(segment.native.uuid) for segment in self.segments)


@dataclass(frozen=True, slots=True)
class IndexOrder:
    """An index to build. `view` is the table to read; `owner` gets the files when that is another one."""

    view: TableView
    work: IndexWork
    owner: DatasetVersion | None = None


Built = BuiltIndex | Unbuildable | FailedTask
Spent = Callable[[str, float], None]
"""Told how many seconds a worker was at a table, by its alias."""


def build_indexes(
    orders: Sequence[IndexOrder], run_tasks: RunTasks, rows_per_task: int, spent: Spent
) -> tuple[Built, ...]:
    """What became of each order."""
    plans = _plan(orders, run_tasks, spent)
    cuts: list[tuple[IndexWork, tuple[SegmentPlan, ...]]] = []
    for order, plan in zip(orders, plans, strict=True):
        if isinstance(plan, IndexPlan):
            grown = plan.fragment_ids != order.work.fragment_ids
            work = rebuild(order.work, order.view.rows) if grown else order.work
            cuts.append((work, cut_segments(work, plan, order.view.rows, rows_per_task)))
        else:
            cuts.append((order.work, ()))
    segments = _segments(orders, [cut for _, cut in cuts], run_tasks, spent)
    built: list[Built] = []
    for place, (order, plan) in enumerate(zip(orders, plans, strict=True)):
        found, (work, cut) = segments[place], cuts[place]
        if not isinstance(plan, IndexPlan):
            built.append(plan)
        elif isinstance(found, FailedTask):
            built.append(found)
        else:
            built.append(_built(order.view, work, cut, found))
    return tuple(built)


def _plan(
    orders: Sequence[IndexOrder], run_tasks: RunTasks, spent: Spent
) -> list[IndexPlan | Unbuildable | FailedTask]:
    """How to build each one. Vector indexes train on workers."""
    trained = [order for order in orders if _is_vector(order.work)]
    tasks = [
        TrainTask(
            DatasetVersion.of(order.view.dataset),
            order.work.spec,
            order.work.fragment_ids,
            order.work.present,
        )
        for order in trained
    ]
    outcomes = run_tasks(train_index, tasks) if tasks else ()
    for order, outcome in zip(trained, outcomes, strict=True):
        spent(order.view.alias, outcome.seconds)
    results = iter(outcome.result for outcome in outcomes)
    return [
        next(results)
        if _is_vector(order.work)
        else plan_index(order.view.dataset, order.work.spec, order.work.fragment_ids)
        for order in orders
    ]


def _segments(
    orders: Sequence[IndexOrder],
    cuts: Sequence[Sequence[SegmentPlan]],
    run_tasks: RunTasks,
    spent: Spent,
) -> list[list[IndexSegment] | FailedTask]:
    """The segments of each order. Small ones of one table share a task, and then they fail together."""
    tasks: list[BuildTask] = []
    members: list[list[int]] = []
    for alias in dict.fromkeys(order.view.alias for order in orders):
        mine = [place for place, order in enumerate(orders) if order.view.alias == alias]
        first, numbered = orders[mine[0]], [(place, part) for place in mine for part in cuts[place]]
        owners = iter(numbered)
        for pack in pack_segments([part for _, part in numbered]):
            tasks.append(BuildTask(DatasetVersion.of(first.view.dataset), pack, first.owner))
            members.append([next(owners)[0] for _ in pack])
    outcomes = run_tasks(build_segments, tasks) if tasks else ()
    found: list[list[IndexSegment] | FailedTask] = [[] for _ in orders]
    for outcome, places in zip(outcomes, members, strict=True):
        result = outcome.result
        spent(orders[places[0]].view.alias, outcome.seconds)
        for number, place in enumerate(places):
            kept = found[place]
            if isinstance(result, FailedTask):
                found[place] = result
            elif isinstance(kept, list):
                kept.append(result.segments[number])
    return found


def _built(
    view: TableView, work: IndexWork, cut: Sequence[SegmentPlan], segments: Sequence[IndexSegment]
) -> BuiltIndex:
    if len(segments) != len(cut):
        raise InvariantError(f"{view.alias}: {len(segments)} segments of {len(cut)}", code="segments_missing")
    spec = work.spec
    numbers = [number for part in cut for number in part.fragment_ids]
    rows = sum(part.rows for part in cut)
    row = IndexRow(view.alias, spec.column, spec.kind, work.status, "", len(numbers), rows, len(segments))
    return BuiltIndex(work, tuple(segments), {number: view.fragments[number] for number in numbers}, row)


def _is_vector(work: IndexWork) -> bool:
    return work.spec.kind is IndexKind.VECTOR
