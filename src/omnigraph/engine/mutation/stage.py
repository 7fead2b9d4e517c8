"""A mutation through the write path: one commit, or none when nothing matches.

In: how to prepare the mutation for a snapshot, a branch, an actor. Out: counts and the commit. An insert-only mutation
keeps what it made and is only validated again when the branch moved meanwhile; any other runs again under the lease.
A crash is the write path's to survive: nothing is written here but staged files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.ids import CommitId
from omnigraph.engine.columns.dictionary import Array, Mask
from omnigraph.engine.mutation.overlay import Overlay
from omnigraph.engine.mutation.run import BoundMutation, MutationChange, require_valid, run_mutation
from omnigraph.engine.options import NO_LIMITS, QueryLimits
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.graph.manifest.requirements import precondition_failed
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot
from omnigraph.graph.rows.lookup import SnapshotLookup
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import Outcome, StagingArea, WritableTable
from omnigraph.graph.write.states import Effect, StagedWrite
from omnigraph.schema.catalog import NodeType
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.lance.dataset import ADDRESS
from omnigraph.storage.lance.read import read_blobs
from omnigraph.storage.lance.stage import (
    StagedTransaction,
    stage_delete_rows,
    stage_fragments,
    stage_update,
    stage_upsert,
    write_rows,
)
from omnigraph.storage.location import Location

Prepare = Callable[[Snapshot], BoundMutation]
"""The mutation as it is for the schema and the tables of a snapshot."""


@dataclass(frozen=True, slots=True)
class MutationRequest:
    """What to run, as whom, where, which head the caller insists on, and what it may take."""

    prepare: Prepare
    actor: str
    branch: str = MAIN
    if_commit: CommitId | None = None
    limits: QueryLimits = NO_LIMITS


@dataclass(frozen=True, slots=True)
class EntityCounts:
    """How many nodes, or edges, a mutation changed."""

    inserted: int = 0
    """Those that are new."""
    updated: int = 0
    """Those that were there, also when an insert gave the same key."""
    deleted: int = 0
    """Those that are gone."""

    @property
    def total(self) -> int:
        """All three together."""
        return self.inserted + self.updated + self.deleted

    def __add__(self, other: EntityCounts) -> EntityCounts:
        return EntityCounts(
            self.inserted + other.inserted, self.updated + other.updated, self.deleted + other.deleted
        )

    def to_json(self) -> dict[str, int]:
        """The three as a dictionary."""
        return {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}


@dataclass(frozen=True, slots=True)
class MutationOutcome:
    """What a mutation did; without a commit nothing matched."""

    nodes: EntityCounts = EntityCounts()
    edges: EntityCounts = EntityCounts()
    commit: CommitRecord | None = None


def mutate(
    root: Location, request: MutationRequest, world: WriteEnvironment | None = None
) -> MutationOutcome:
    """Run a mutation as one commit, or raise with nothing written."""
    running = _MutationWriter(request)
    wanted = WriteRequest(WriterKind.MUTATE, request.actor, running.stage, running.restage)
    published = write(root, request.branch, wanted, world)
    if published is None:
        return MutationOutcome()
    return MutationOutcome(running.nodes, running.edges, published.publication.commit)


@dataclass(slots=True)
class _MutationWriter:
    """One mutation under way. Fragments of new rows are kept, so that a moved branch does not make them again."""

    request: MutationRequest
    mutation: BoundMutation | None = None
    change: MutationChange | None = None
    nodes: EntityCounts = EntityCounts()
    edges: EntityCounts = EntityCounts()
    fragments: dict[tuple[str, str | None], Sequence[Any]] = field(default_factory=dict)

    def stage(self, at: StagingArea) -> StagedWrite | None:
        expected = self.request.if_commit
        if expected is not None and at.snapshot.head != expected:
            raise precondition_failed(expected, at.snapshot.head)
        self.fragments.clear()
        self.mutation = self.request.prepare(at.snapshot)
        self.change = run_mutation(at.snapshot, self.mutation, self.request.limits)
        return self._finish(at, self.mutation, self.change)

    def restage(self, at: StagingArea, staged: StagedWrite) -> StagedWrite | None:
        same_schema = staged.snapshot.schema.hash == at.snapshot.schema.hash
        if (
            self.mutation is None
            or self.change is None
            or not same_schema
            or not self.mutation.is_insert_only
        ):
            return self.stage(at)
        return self._finish(at, self.mutation, self.change)

    def _finish(self, at: StagingArea, mutation: BoundMutation, change: MutationChange) -> StagedWrite | None:
        require_valid(at.snapshot, mutation, change)
        if not change.written:
            return None
        self.nodes = self.edges = EntityCounts()
        effects = tuple(self._effect(at, overlay) for overlay in change.written)
        reads = frozenset(table.id for table in at.snapshot.tables.values() if table.type_id in change.read)
        counts = {"nodes": self.nodes.total, "edges": self.edges.total}
        return at.finish(effects, reads, Outcome(counts, if_commit=self.request.if_commit))

    def _effect(self, at: StagingArea, overlay: Overlay) -> Effect:
        target = at.writable(overlay.entity.alias)
        if len(overlay.removed):
            self._count(overlay, EntityCounts(deleted=len(overlay.removed)))
            transaction = stage_delete_rows(target.dataset, _addresses(target, overlay.removed))
            return at.transaction_effect(target, transaction, target.table.row_count - len(overlay.removed))
        there = _existing_mask(at.snapshot, overlay)
        fresh, updated = int((~there).sum()), int(there.sum())
        self._count(overlay, EntityCounts(inserted=fresh, updated=updated))
        transaction = self._transaction(target, overlay, there)
        return at.transaction_effect(target, transaction, target.table.row_count + fresh)

    def _count(self, overlay: Overlay, count_codes: EntityCounts) -> None:
        if isinstance(overlay.entity, NodeType):
            self.nodes += count_codes
        else:
            self.edges += count_codes

    def _transaction(self, target: WritableTable, overlay: Overlay, there: Mask) -> StagedTransaction:
        if not there.any():
            place = (overlay.entity.alias, target.dataset.branch)
            if place not in self.fragments:
                self.fragments[place] = write_rows(target.dataset, _full_rows(overlay))
            return stage_fragments(target.dataset, self.fragments[place])
        if overlay.is_existing.all():
            names = [name for name in overlay.columns if name == "id" or name in overlay.updated]
            return stage_update(target.dataset, _with_blobs(target, overlay, overlay.rows.select(names)))
        return stage_upsert(target.dataset, _with_blobs(target, overlay, _full_rows(overlay)))


def _existing_mask(snapshot: Snapshot, overlay: Overlay) -> Mask:
    """Which rows replace one that the table has."""
    inserted = ~overlay.is_existing
    if not overlay.entity.key or not inserted.any():
        return overlay.is_existing
    ids: Any = overlay.ids.filter(pa.array(inserted))
    there = overlay.is_existing.copy()
    present: Any = SnapshotLookup(snapshot).present_ids(overlay.entity.id, ids)
    there[np.flatnonzero(inserted)] = present.to_numpy(zero_copy_only=False)
    return there


def _full_rows(overlay: Overlay) -> pa.Table:
    schema = arrow_schema(overlay.entity)
    return overlay.rows.select(schema.names).cast(schema)


def _with_blobs(target: WritableTable, overlay: Overlay, rows: pa.Table) -> pa.Table:
    """The rows with the contents of the Blobs that stay as they are."""
    for name, kept in overlay.stored_blobs.items():
        if name not in rows.schema.names or not kept.any():
            continue
        ids: Any = overlay.ids.filter(pa.array(kept))
        contents = read_blobs(target.dataset, name, _addresses(target, ids))
        values = rows.column(name).to_pylist()
        for at, content in zip(np.flatnonzero(kept), contents, strict=True):
            values[at] = None if content is None else {"data": content}
        index = rows.schema.get_field_index(name)
        field_of = rows.schema.field(index)
        rows = rows.set_column(index, field_of, pa.array(values, field_of.type))
    return rows


def _addresses(target: WritableTable, ids: Array) -> list[int]:
    """Where the rows of these ids lie, in their order."""
    found = target.dataset.read_by_text("id", ids, ["id"])
    at: Any = pc.index_in(ids, value_set=found.column("id").combine_chunks())
    positions: Any = found.column(ADDRESS).combine_chunks().take(at)
    answer: list[int] = positions.to_pylist()
    return answer
