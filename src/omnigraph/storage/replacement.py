"""Replace and remove rows by key in one commit that collides with every other one of its kind.

Lance's upsert inserts and updates; a delete is another commit. This writes the one Update transaction that does
both. Row identity is not kept: for small control tables only.

Lance finds a conflict between two transactions by the fragments they change, and it looks only at the versions
that are still there. A writer that slept while versions were collected would pass unseen and leave rows twice. So
every replacement also names one fragment that all of them name, the *anchor*: whatever is left of the history,
its newest version is enough to be refused. The anchor is the oldest fragment, which compaction leaves alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.base.effects import announce
from omnigraph.storage.commit import commit_staged
from omnigraph.storage.conditions import any_of
from omnigraph.storage.dataset import ADDRESS, DATA_STORAGE_VERSION, Dataset
from omnigraph.storage.durability import make_durable, operation_files
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.staging import StagedTransaction


@dataclass(frozen=True, slots=True)
class Replacement:
    """Rows to upsert by `key`, and the keys of rows to delete."""

    key: str
    rows: pa.Table
    removed: tuple[str, ...] = ()

    def keys(self) -> frozenset[str]:
        """Every key whose old row goes."""
        return frozenset((*map(str, self.rows.column(self.key).to_pylist()), *self.removed))

    def fragments(self, before: pa.Table) -> frozenset[int]:
        """The fragments with a row that goes. `before` has at least those rows, with their addresses."""
        keys = self.keys()
        pairs = zip(before.column(self.key).to_pylist(), before.column(ADDRESS).to_numpy(), strict=True)
        return frozenset(int(address) >> 32 for name, address in pairs if name in keys)


def commit_replacement(dataset: Dataset, change: Replacement, before: pa.Table | None = None) -> Dataset:
    """Upsert and delete as one new version. `before` are the old rows with their addresses, if they are known."""
    announce("dataset.stage", dataset.uri)
    rows = change.rows
    where = any_of(change.key, sorted(change.keys()))
    with substrate_errors("stage a replacement", dataset.uri):
        if before is None:
            before = dataset.read([change.key], where, with_addresses=True)
        updated, emptied = _delete(dataset, where, change.fragments(before))
        added = write_fragments(
            rows, dataset.native, schema=dataset.schema, data_storage_version=DATA_STORAGE_VERSION
        )
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=emptied,
        updated_fragments=updated,
        new_fragments=list(added),
        fields_modified=[],
        update_mode="rewrite_rows",
    )
    make_durable(dataset.place, operation_files(dataset.native, operation))
    return commit_staged(dataset, StagedTransaction.of(operation, dataset.version))


def anchor_of(dataset: Dataset) -> int | None:
    """The fragment that every replacement names; None when there is none."""
    return min((fragment.fragment_id for fragment in dataset.native.get_fragments()), default=None)


def _delete(dataset: Dataset, where: str, having: frozenset[int]) -> tuple[list[FragmentMetadata], list[int]]:
    """The fragments having such rows, and the anchor, without those rows; and the ids of those with nothing left."""
    updated: list[FragmentMetadata] = []
    emptied: list[int] = []
    anchor = anchor_of(dataset)
    for fragment in dataset.native.get_fragments():
        if fragment.fragment_id in having:
            kept = fragment.delete(where)
            updated += [] if kept is None else [kept]
            emptied += [fragment.fragment_id] if kept is None else []
        elif fragment.fragment_id == anchor:
            updated.append(fragment.metadata)
    return updated, emptied
