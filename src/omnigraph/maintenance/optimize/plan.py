"""What one run takes on, over all tables. Pure.

In: tables as they are, groups that an earlier attempt has rewritten already, and bounds. Out: per table whether to
strip its settings, which groups to rewrite and whether to build indexes. A *task* that counts against the bound of a
run is a group of fragments with the index work that follows from it, or the index work of a table alone. Runs in a row
converge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.maintenance.optimize.index_plan import IndexWork, plan_indexes
from omnigraph.maintenance.optimize.rewrite import Groups, RewriteBounds, plan_groups
from omnigraph.maintenance.optimize.tables import TableView
from omnigraph.storage.lance.compaction import FragmentRewrite


@dataclass(frozen=True, slots=True)
class RunBounds:
    """`rewrite` None: only indexes. `blobs_compact`: whether Lance compacts tables with blobs."""

    rewrite: RewriteBounds | None
    rows_per_index_task: int
    tasks_max: int | None
    blobs_compact: bool


@dataclass(frozen=True, slots=True)
class TableMaintenancePlan:
    """What to do for one table. `more` is left for another run; `gated`: it has blobs that Lance cannot compact."""

    alias: str
    strip: bool
    groups: Groups
    indexes: bool
    more: bool = False
    gated: bool = False

    @property
    def has_work(self) -> bool:
        return self.strip or bool(self.groups) or self.indexes


def plan_run(
    views: Sequence[TableView], kept: Mapping[str, Sequence[FragmentRewrite]], bounds: RunBounds
) -> Iterator[TableMaintenancePlan]:
    """The plan of every table, in their order."""
    left = bounds.tasks_max
    for view in views:
        done = kept.get(view.alias, ())
        gated = bounds.rewrite is not None and view.has_blobs and not bounds.blobs_compact
        groups = () if bounds.rewrite is None or gated else _groups(view, done, bounds.rewrite)
        chosen = groups if left is None else _largest(groups, view, left)
        lacking = any(
            isinstance(found, IndexWork) for found in plan_indexes(view.indexes, bounds.rows_per_index_task)
        )
        alone = lacking and not chosen and not done
        takes_alone = alone and (left is None or left > 0)
        if left is not None:
            left -= len(chosen) + takes_alone
        yield TableMaintenancePlan(
            view.alias,
            strip=bounds.rewrite is not None and view.has_auto_cleanup,
            groups=chosen,
            indexes=bool(chosen) or bool(done) or takes_alone,
            more=len(chosen) < len(groups) or (alone and not takes_alone),
            gated=gated,
        )


def _groups(view: TableView, done: Sequence[FragmentRewrite], bounds: RewriteBounds) -> Groups:
    taken = {number for group in done for number in group.old_ids}
    free = {number: fragment for number, fragment in view.fragments.items() if number not in taken}
    return plan_groups(free, view.present, {index.spec.name for index in view.declared}, bounds)


def _largest(groups: Groups, view: TableView, count: int) -> Groups:
    """As many groups as may be, the largest, in their order."""
    rows = {group: sum(view.fragments[number].rows for number in group) for group in groups}
    by_size = sorted(groups, key=lambda group: (-rows[group], group))
    return tuple(sorted(by_size[: max(0, count)]))
