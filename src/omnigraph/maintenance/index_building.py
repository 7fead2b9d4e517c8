"""Builds indexes with workers: trains what has to be trained, cuts segments, hands them out, collects them.

In: tables and the indexes they lack. Out: per index what was built, why it cannot be, or how it failed. No head
moves, and files that are not committed afterwards are orphans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from omnigraph.base.errors import InvariantError
from omnigraph.maintenance.index_outcome import IndexRow
from omnigraph.maintenance.index_plan import (
    IndexWork,
    SegmentPlan,
    cut_segments,
    pack_segments,
    rebuild,
)
from omnigraph.maintenance.index_tasks import (
    BuildTask,
    TrainTask,
    build_segments,
    train_index,
)
from omnigraph.maintenance.table_view import TableView
from omnigraph.maintenance.table_work import BuiltIndex
from omnigraph.maintenance.task_outcome import TaskFailure
from omnigraph.pipeline.runner import RunTasks
from omnigraph.schema.indexable import IndexKind
from omnigraph.storage.dataset import DatasetVersion
from omnigraph.storage.indexes import IndexPlan, IndexSegment, Unbuildable, plan_index


@dataclass(frozen=True, slots=True)
class IndexOrder:
    """An index to build. `view` is the table to read; `owner` gets the files when that is another one."""

    view: TableView
    work: IndexWork
    owner: DatasetVersion | None = None


Built = BuiltIndex | Unbuildable | TaskFailure
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
        elif isinstance(found, TaskFailure):
            built.append(found)
        else:
            built.append(_built(order.view, work, cut, found))
    return tuple(built)


def _plan(
    orders: Sequence[IndexOrder], run_tasks: RunTasks, spent: Spent
) -> list[IndexPlan | Unbuildable | TaskFailure]:
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
) -> list[list[IndexSegment] | TaskFailure]:
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
    found: list[list[IndexSegment] | TaskFailure] = [[] for _ in orders]
    for outcome, places in zip(outcomes, members, strict=True):
        result = outcome.result
        spent(orders[places[0]].view.alias, outcome.seconds)
        for number, place in enumerate(places):
            kept = found[place]
            if isinstance(result, TaskFailure):
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
