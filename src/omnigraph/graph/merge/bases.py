"""Find the base of a merge: the state with which each side is compared, to find out which side changed what.

In: the commit graph and two sides. Out: a `Base`: the pins of the best common ancestor, or of several joined into one
if histories criss-cross (docs/dev/decisions/0014-merge.md). A commit of a deleted branch is read from its own
manifest while that exists, else from the pins that its merge recorded. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from omnigraph.base.errors import NotFoundError
from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest.lineage import Lineage, merge_bases
from omnigraph.graph.manifest.records import Pin, SchemaRecord, TableId
from omnigraph.graph.manifest.snapshot import Snapshot, read_record_snapshot

Pins = Mapping[TableId, Pin]


@dataclass(frozen=True, slots=True)
class CommitBase:
    """The state of one commit. `schema` is None if the state was deleted and only the pins are known."""

    commit: CommitId
    pins: Pins
    schema: SchemaRecord | None = None


@dataclass(frozen=True, slots=True)
class JoinedBase:
    """Two states that were merged on both sides, and their own common base."""

    base: Base
    left: Base
    right: Base


Base = CommitBase | JoinedBase


def find_base(snapshot: Snapshot, lineage: Lineage, ours: CommitId, theirs: CommitId) -> Base:
    """Return the base of a merge. `snapshot` is any snapshot of the same graph, from which others are opened."""
    return _Finder(snapshot, lineage).find(frozenset({ours}), frozenset({theirs}))


def base_commits(base: Base) -> Iterator[CommitBase]:
    """Yield every commit of a base, except the common bases inside a join."""
    match base:
        case CommitBase():
            yield base
        case JoinedBase():
            yield from base_commits(base.left)
            yield from base_commits(base.right)


def pins_of(snapshot: Snapshot) -> Pins:
    """Return the pin of every table of a snapshot."""
    return {table.id: table.pin for table in snapshot.tables.values()}


@dataclass(frozen=True, slots=True)
class _Finder:
    snapshot: Snapshot
    lineage: Lineage

    def find(self, ours: frozenset[CommitId], theirs: frozenset[CommitId]) -> Base:
        best = merge_bases(ours, theirs, self.lineage.commits)
        assert best, "every commit descends from the first one"
        joined: Base = self.read_state(best[0])
        for index, commit in enumerate(best[1:], start=1):
            common = self.find(frozenset(best[:index]), frozenset({commit}))
            joined = JoinedBase(common, joined, self.read_state(commit))
        return joined

    def read_state(self, commit: CommitId) -> CommitBase:
        record = self.lineage.commits[commit]
        try:
            snapshot = read_record_snapshot(self.snapshot, record)
            return CommitBase(commit, pins_of(snapshot), snapshot.schema)
        except NotFoundError:
            for merge in self.lineage.commits.values():
                if merge.merged_parent == commit and merge.pins is not None:
                    own_schema = self.snapshot.schema
                    has_same_schema = own_schema.hash == record.schema_hash
                    return CommitBase(commit, merge.pins, own_schema if has_same_schema else None)
            raise
