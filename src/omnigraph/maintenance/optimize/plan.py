"""What one run does, over all tables. Pure.

In: tables as they are, groups that an earlier attempt has rewritten already, and the request with its bounds. Out: per
table whether to strip its settings, which groups to rewrite and whether to build indexes. A *task* that counts against
the bound of a run is a group of fragments with the index work that follows from it, or the index work of a table alone.
Repeated runs converge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.base import limits
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.maintenance.optimize.index_plan import plan_indexes
from omnigraph.maintenance.optimize.rewrite import Groups, RewriteBounds, plan_groups
from omnigraph.maintenance.optimize.tables import TableView
from omnigraph.storage.lance.compaction import LANCE_SUPPORTS_BLOB_COMPACTION, FragmentRewrite

INDEX_ACTOR: Final = "omnigraph:ensure_indices"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRequest:
    """What a run does to which types, by name or alias (None: all), and how much. The default is to build indexes.

    `rewrite` None: rewrite no fragments. `blobs_compact`: Lance compacts tables with blobs. `skipped` are the aliases
    of tables to leave unchanged. `isolated`: report a table that fails and continue with the others.
    `partial_progress`: commit groups of tasks as they finish.
    """

    types: frozenset[str] | None = None
    kind: WriteOperation = WriteOperation.ENSURE_INDICES
    actor: str = INDEX_ACTOR
    rewrite: RewriteBounds | None = None
    rows_per_index_task: int = limits.INDEX_ROWS_PER_TASK
    tasks_max: int | None = None
    blobs_compact: bool = LANCE_SUPPORTS_BLOB_COMPACTION
    skipped: frozenset[str] = frozenset()
    isolated: bool = False
    partial_progress: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMaintenancePlan:
    """What to do for one table. `strip`: remove settings for automatic cleanup. `has_more`: another run has work.

    `has_unsupported_blobs`: it has blobs that Lance cannot compact.
    """

    alias: str
    strip: bool
    groups: Groups
    builds_indexes: bool
    has_more: bool = False
    has_unsupported_blobs: bool = False

    @property
    def has_work(self) -> bool:
        return self.strip or bool(self.groups) or self.builds_indexes


def plan_run(
    views: Sequence[TableView], finished_groups: Mapping[str, Sequence[FragmentRewrite]], request: MaintenanceRequest
) -> Iterator[TableMaintenancePlan]:
    """Yield the plan of every table, in their order. `finished_groups` are those of earlier attempts, by alias."""
    tasks_left = request.tasks_max
    for view in views:
        finished = finished_groups.get(view.alias, ())
        has_unsupported_blobs = request.rewrite is not None and view.has_blobs and not request.blobs_compact
        groups = () if request.rewrite is None or has_unsupported_blobs else _groups(view, finished, request.rewrite)
        chosen = groups if tasks_left is None else _largest(groups, view, tasks_left)
        lacks_index = any(work.fragment_ids for work in plan_indexes(view.indexes, request.rows_per_index_task))
        has_index_work_alone = lacks_index and not chosen and not finished
        does_index_work_alone = has_index_work_alone and (tasks_left is None or tasks_left > 0)
        if tasks_left is not None:
            tasks_left -= len(chosen) + does_index_work_alone
        yield TableMaintenancePlan(
            alias=view.alias,
            strip=request.rewrite is not None and view.has_auto_cleanup,
            groups=chosen,
            builds_indexes=bool(chosen) or bool(finished) or does_index_work_alone,
            has_more=len(chosen) < len(groups) or (has_index_work_alone and not does_index_work_alone),
            has_unsupported_blobs=has_unsupported_blobs,
        )


def _groups(view: TableView, finished: Sequence[FragmentRewrite], bounds: RewriteBounds) -> Groups:
    taken = {number for group in finished for number in group.old_ids}
    free = {number: fragment for number, fragment in view.fragments.items() if number not in taken}
    return plan_groups(free, view.present, {index.spec.name for index in view.declared}, bounds)


def _largest(groups: Groups, view: TableView, count: int) -> Groups:
    """Return at most `count` groups, the largest ones, in their order."""
    rows = {group: sum(view.fragments[number].rows for number in group) for group in groups}
    by_size = sorted(groups, key=lambda group: (-rows[group], group))
    return tuple(sorted(by_size[: max(0, count)]))
