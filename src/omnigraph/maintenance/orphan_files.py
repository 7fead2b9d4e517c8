"""Files and Lance branches that nothing refers to, as cleanup would find them if it kept every version. Reads only.

In: the snapshots of all live branches. Out: per dataset the Lance branches that cleanup would delete now, and how many
files of failed or abandoned writes are beyond the grace. A dataset that cannot be read has none; other checks report
what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.graph.commit import World
from omnigraph.graph.layout import MANIFEST
from omnigraph.graph.records import Pin
from omnigraph.graph.snapshot import Snapshot
from omnigraph.maintenance.cleanup_options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup_tasks import DatasetTask, plan_dataset
from omnigraph.maintenance.doomed_files import Why
from omnigraph.maintenance.retention import Needs
from omnigraph.pipeline.runner import in_threads

_ALL: Final = 2**62


@dataclass(frozen=True, slots=True)
class Orphans:
    """What cleanup would delete in one dataset now, although it kept every version."""

    table_key: str
    path: str
    files: int
    size_bytes: int
    lance_branches: frozenset[str]


def find_orphans(heads: Sequence[Snapshot], world: World) -> list[Orphans]:
    """The datasets in which something was left, the manifest first."""
    policy = CleanupPolicyOptions(keep_versions=_ALL).policy(world.clock.now_us())
    live = frozenset(str(head.branch.id) for head in heads)
    pins: dict[tuple[str, str], set[Pin]] = {}
    for head in heads:
        pins.setdefault((MANIFEST, MANIFEST), set()).add(Pin(head.branch.lance_branch, head.version))
        for table in head.tables.values():
            pins.setdefault((table.path, table.alias), set()).add(table.pin)
    tasks = [
        DatasetTask(heads[0].root, path, alias, policy, Needs(frozenset(), frozenset(found), live))
        for (path, alias), found in pins.items()
    ]
    orphans = []
    for plan in in_threads(plan_dataset, tasks):
        sizes = [file.size_bytes for file in plan.doomed if file.why is Why.ORPHAN]
        forks = frozenset(file.branch for file in plan.doomed if file.why is Why.FORK and file.branch)
        orphans += (
            [Orphans(plan.table_key, plan.path, len(sizes), sum(sizes), forks)] if sizes or forks else []
        )
    return orphans
