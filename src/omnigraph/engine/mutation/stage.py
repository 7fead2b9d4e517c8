"""Stages a mutation for the write path: the effects of one commit, or none if nothing matches.

In: a function that prepares the mutation for a snapshot. Out: staged effects and counts. If the branch moved before the
commit, an insert-only mutation keeps its staged rows and is validated again; any other mutation runs again under the
lease. Only unreferenced files are written here; the write path recovers from crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import bool_array
from omnigraph.base.ids import CommitId
from omnigraph.engine.columns.dictionary import Array, Mask
from omnigraph.engine.mutation.overlay import Overlay
from omnigraph.engine.mutation.run import BoundMutation, MutationChange, require_valid, run_mutation
from omnigraph.engine.options import NO_LIMITS, QueryLimits
from omnigraph.graph.manifest.requirements import precondition_failed
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.graph.rows.lookup import SnapshotLookup
from omnigraph.graph.write.stage import StagingArea, WritableTable
from omnigraph.graph.write.states import Effect, StagedWrite
from omnigraph.schema.catalog import NodeType
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.lance import stage as staging
from omnigraph.storage.lance.dataset import ADDRESS
from omnigraph.storage.lance.read import read_blobs

Prepare = Callable[[Snapshot], BoundMutation]
"""Returns the mutation bound to the schema and the tables of a snapshot."""


@dataclass(frozen=True, slots=True)
class EntityCounts:
    """The numbers of nodes, or edges, that a mutation changed."""

    inserted: int = 0
    """New entities."""
    updated: int = 0
    """Existing entities that were changed, also by an insert with the same key."""
    deleted: int = 0
    """Deleted entities."""

    @property
    def total(self) -> int:
        """The sum of all three."""
        return self.inserted + self.updated + self.deleted

    def __str__(self) -> str:
        more = {"updated": self.updated, "deleted": self.deleted}
        return ", ".join(
            [f"{self.inserted:,} inserted", *(f"{count:,} {verb}" for verb, count in more.items() if count)]
        )

    def __add__(self, other: EntityCounts) -> EntityCounts:
        return EntityCounts(self.inserted + other.inserted, self.updated + other.updated, self.deleted + other.deleted)


@dataclass(slots=True, kw_only=True)
class MutationWriter:
    """Stages a mutation for the write path, and counts its changes.

    It reuses the fragments of new rows when the branch has moved. `if_commit` is the required head of the branch.
    """

    prepare: Prepare
    if_commit: CommitId | None = None
    limits: QueryLimits = NO_LIMITS
    mutation: BoundMutation | None = None
    change: MutationChange | None = None
    nodes: EntityCounts = EntityCounts()
    edges: EntityCounts = EntityCounts()
    fragments: dict[tuple[str, str | None], Sequence[Any]] = field(default_factory=dict)

    def stage(self, area: StagingArea) -> StagedWrite | None:
        if self.if_commit is not None and area.snapshot.head != self.if_commit:
            raise precondition_failed(self.if_commit, area.snapshot.head)
        self.fragments.clear()
        self.mutation = self.prepare(area.snapshot)
        self.change = run_mutation(area.snapshot, self.mutation, self.limits)
        return self._finish(area, self.mutation, self.change)

    def restage(self, area: StagingArea, staged: StagedWrite) -> StagedWrite | None:
        same_schema = staged.snapshot.schema.hash == area.snapshot.schema.hash
        if self.mutation is None or self.change is None or not same_schema or not self.mutation.is_insert_only:
            return self.stage(area)
        return self._finish(area, self.mutation, self.change)

    def _finish(self, area: StagingArea, mutation: BoundMutation, change: MutationChange) -> StagedWrite | None:
        self.nodes = self.edges = EntityCounts()
        require_valid(area.snapshot, mutation, change)
        if not change.written:
            return None
        effects = tuple(self._effect(area, overlay) for overlay in change.written)
        reads = frozenset(table.id for table in area.snapshot.tables.values() if table.type_id in change.read)
        counts = {"nodes": self.nodes.total, "edges": self.edges.total}
        return replace(area.finish(effects, reads, counts), if_commit=self.if_commit)

    def _effect(self, area: StagingArea, overlay: Overlay) -> Effect:
        target = area.open_for_write(overlay.entity.alias)
        if len(overlay.removed):
            self._count(overlay, EntityCounts(deleted=len(overlay.removed)))
            transaction = staging.stage_delete_rows(target.dataset, _addresses(target, overlay.removed))
            return area.transaction_effect(target, transaction, target.table.row_count - len(overlay.removed))
        existing = _existing_mask(area.snapshot, overlay)
        inserted, updated = int((~existing).sum()), int(existing.sum())
        self._count(overlay, EntityCounts(inserted=inserted, updated=updated))
        transaction = self._stage_rows(target, overlay, existing)
        return area.transaction_effect(target, transaction, target.table.row_count + inserted)

    def _count(self, overlay: Overlay, counts: EntityCounts) -> None:
        if isinstance(overlay.entity, NodeType):
            self.nodes += counts
        else:
            self.edges += counts

    def _stage_rows(self, target: WritableTable, overlay: Overlay, existing: Mask) -> staging.StagedTransaction:
        if not existing.any():
            key = (overlay.entity.alias, target.dataset.branch)
            if key not in self.fragments:
                self.fragments[key] = staging.write_rows(target.dataset, _full_rows(overlay))
            return staging.stage_fragments(target.dataset, self.fragments[key])
        if overlay.is_existing.all():
            names = [name for name in overlay.columns if name == "id" or name in overlay.updated]
            return staging.stage_update(target.dataset, _with_blobs(target, overlay, overlay.rows.select(names)))
        return staging.stage_upsert(target.dataset, _with_blobs(target, overlay, _full_rows(overlay)))


def _existing_mask(snapshot: Snapshot, overlay: Overlay) -> Mask:
    """Return which rows replace a row of the table."""
    inserted = ~overlay.is_existing
    if not overlay.entity.key or not inserted.any():
        return overlay.is_existing
    ids: Any = overlay.ids.filter(bool_array(inserted))
    existing = overlay.is_existing.copy()
    present: Any = SnapshotLookup(snapshot).present_ids(overlay.entity.id, ids)
    existing[np.flatnonzero(inserted)] = present.to_numpy(zero_copy_only=False)
    return existing


def _full_rows(overlay: Overlay) -> pa.Table:
    schema = arrow_schema(overlay.entity)
    return overlay.rows.select(schema.names).cast(schema)


def _with_blobs(target: WritableTable, overlay: Overlay, rows: pa.Table) -> pa.Table:
    """Return the rows with the contents of the Blobs that no statement set."""
    for name, is_stored in overlay.stored_blobs.items():
        if name not in rows.schema.names or not is_stored.any():
            continue
        ids: Any = overlay.ids.filter(bool_array(is_stored))
        contents = read_blobs(target.dataset, name, _addresses(target, ids))
        values = rows.column(name).to_pylist()
        for row, content in zip(np.flatnonzero(is_stored), contents, strict=True):
            values[row] = None if content is None else {"data": content}
        index = rows.schema.get_field_index(name)
        column_field = rows.schema.field(index)
        rows = rows.set_column(index, column_field, pa.array(values, column_field.type))
    return rows


def _addresses(target: WritableTable, ids: Array) -> list[int]:
    """Read the row addresses of these ids, in their order."""
    rows = target.dataset.read_by_text("id", ids, ["id"])
    positions: Any = pc.index_in(ids, value_set=rows.column("id").combine_chunks())
    addresses: Any = rows.column(ADDRESS).combine_chunks().take(positions)
    result: list[int] = addresses.to_pylist()
    return result
