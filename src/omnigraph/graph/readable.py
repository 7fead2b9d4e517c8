"""Which commits can still be read: cleanup keeps a commit's record when it collects the manifest version that it made.

In: a newest snapshot and commits of its history. Out: those whose snapshot is there, told from one listing of versions
per Lance branch. Reading only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from omnigraph.base.errors import NotFoundError
from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest import open_manifest
from omnigraph.graph.records import CommitRecord
from omnigraph.graph.snapshot import Snapshot


def readable_commits(newest: Snapshot, commits: Iterable[CommitRecord]) -> frozenset[CommitId]:
    """The commits whose snapshots have not been collected.

    A commit's own version may come later than its hint, and versions after it show it until the next commit. So any
    version from its hint up to the next commit's will do.
    """
    hints: dict[str | None, list[int]] = {}
    for record in newest.manifest.read_commits():
        hints.setdefault(record.manifest_hint.branch, []).append(record.manifest_hint.version)
    there = {branch: _versions(newest, branch) for branch in hints}
    for versions in hints.values():
        versions.sort()
    found: set[CommitId] = set()
    for record in commits:
        branch, first = record.manifest_hint.branch, record.manifest_hint.version
        later = hints[branch][bisect_left(hints[branch], first + 1) :]
        at = bisect_left(there[branch], first)
        if at < len(there[branch]) and (not later or there[branch][at] < later[0]):
            found.add(record.id)
    return frozenset(found)


def _versions(newest: Snapshot, lance_branch: str | None) -> tuple[int, ...]:
    """Oldest first; none of a branch that is gone."""
    here = newest.manifest.dataset
    if lance_branch == here.branch:
        return here.versions()
    try:
        return open_manifest(newest.root, lance_branch=lance_branch).dataset.versions()
    except NotFoundError:
        return ()
