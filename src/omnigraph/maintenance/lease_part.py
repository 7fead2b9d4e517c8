"""The bounded part of a table that the last attempt of a run rewrites while it holds the branch's lease.

In: a table whose rewritten groups were lost in every attempt, and what is left of the work on it. Out: that work with
one more group, of the smallest fragments. Nothing can replace them before the commit. No index is built over them,
because writers wait: their rows leave the BTREE indexes until another run. A crash leaves unreferenced files.
"""

from __future__ import annotations

from omnigraph.base import limits
from omnigraph.graph.stage import Stage
from omnigraph.maintenance.rewrite_plan import RewriteBounds, indexed_numbers, plan_lease_part
from omnigraph.maintenance.table_view import TableView, view_of
from omnigraph.maintenance.table_work import TableWork
from omnigraph.storage.compaction import rewrite_fragments


def rewrite_lease_part(
    at: Stage, work: TableWork | None, view: TableView, bounds: RewriteBounds
) -> TableWork | None:
    """Return the work with one more group; unchanged if there is nothing to merge within the limits.

    A table that this branch does not own is left alone, because it would have to be forked first.
    """
    table = at.snapshot.tables.get(view.alias)
    if table is None or table.owner != at.snapshot.branch.id:
        return work
    grown = work or TableWork(at.writable(view.alias))
    now = view_of(view, grown.target.dataset)
    taken = {number for group in grown.groups for number in group.old_ids}
    taken.update(number for built in grown.built.values() for number in built.fragments)
    free = {number: fragment for number, fragment in now.fragments.items() if number not in taken}
    part = plan_lease_part(free, now.present, bounds)
    if not part:
        return work
    used = (*taken, *grown.emptied, *view.fragments, *now.fragments, *indexed_numbers(now.present))
    rewritten = rewrite_fragments(grown.target.dataset, part, bounds.rows)
    grown.add_group(rewritten, max(used) + limits.COMPACTION_NUMBER_GAP)
    return grown
