"""What cleanup owes to those who dropped something for good: the versions below which nothing is kept for the past.

In: the heads of the live branches. Out: for the manifest and for each table, pins of its Lance branches. A commit that
dropped something for good says so in its counts; whatever the policy keeps, the states of its branch before it go with
the next cleanup, unless another branch still needs them. Nothing here writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from omnigraph.graph.layout import MANIFEST
from omnigraph.graph.records import CommitRecord, Pin
from omnigraph.graph.schema_change import HARD_DROPS
from omnigraph.graph.snapshot import Snapshot, find_commit_version
from omnigraph.graph.stamp import FORMAT, Format


def read_floors(heads: Iterable[Snapshot], rules: Format = FORMAT) -> Mapping[str, frozenset[Pin]]:
    """The floors of every dataset that has some, by its path."""
    found: defaultdict[str, set[Pin]] = defaultdict(set)
    for head in heads:
        for commit in _hard_commits(head):
            version = find_commit_version(head.root, commit, rules) or commit.manifest_hint
            found[MANIFEST].add(version)
            for move in commit.tables:
                table = head.state.tables.get(move.table)
                if move.after is not None and table is not None:
                    found[table.path].add(move.after)
    return {path: frozenset(pins) for path, pins in found.items()}


def _hard_commits(head: Snapshot) -> list[CommitRecord]:
    """Those that were made on this very branch."""
    return [
        commit
        for commit in head.manifest.read_commits_naming(HARD_DROPS)
        if HARD_DROPS in commit.counts and commit.branch_id == head.branch.id
    ]
