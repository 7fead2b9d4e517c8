"""How many rows differ between two versions of a table: added, updated, deleted, by id.

In: two handles of one table. Out: counts, computed from the contents; so a Restore, an overwrite and an update are
counted alike. Fragments that both versions share are read for their ids only. Memory is bounded: of large changes a
part of the ids is compared at a time. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from omnigraph.arrow.hashing import Hashes, digest_rows, hash_texts
from omnigraph.base import limits
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.fragments import read_fragment_states
from omnigraph.storage.lance.read import TableScan, scan_fragments


@dataclass(frozen=True, slots=True)
class RowCounts:
    """What publishing `after` in place of `before` would change. `duplicates`: rows with the id of another row."""

    added: int
    updated: int
    deleted: int
    duplicates: int = 0


def compare_rows(
    before: Dataset | None, after: Dataset, rows_per_pass: int = limits.REPAIR_ROWS_PER_PASS
) -> RowCounts:
    """Compare two versions of one table by the column `id`. Without `before` every row is a new one."""
    were = {} if before is None else read_fragment_states(before)
    are = read_fragment_states(after)
    is_comparable = before is not None and before.schema.equals(after.schema)
    same = {number for number, state in are.items() if is_comparable and were.get(number) == state}
    old = [number for number in were if number not in same]
    new = [number for number in are if number not in same]
    rows = sum(were[number].rows for number in old) + sum(are[number].rows for number in new)
    passes = max(1, -(-rows // rows_per_pass))
    total = RowCounts(0, 0, 0)
    for number in range(passes):
        part = _Part(passes, number)
        found = _compare(part.read(before, old), part.read(after, new), part.ids(after, sorted(same)))
        total = RowCounts(
            total.added + found.added,
            total.updated + found.updated,
            total.deleted + found.deleted,
            total.duplicates + found.duplicates,
        )
    return total


@dataclass(frozen=True, slots=True)
class _Part:
    """The ids whose hash falls into one of so many parts."""

    parts: int
    number: int

    def read(self, dataset: Dataset | None, fragments: Sequence[int]) -> tuple[Hashes, Hashes]:
        """The hashed ids and the digests of the rows of some fragments."""
        ids, digests = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
        if dataset is not None and fragments:
            # Blobs come as their bytes: where a file keeps them may differ between equal rows.
            for batch in scan_fragments(dataset, tuple(fragments), TableScan(tuple(dataset.schema.names))):
                hashed = hash_texts(batch.column("id").fill_null(""))
                mine = self._mine(hashed)
                ids.append(hashed[mine])
                digests.append(digest_rows(batch, without="id")[mine])
        return np.concatenate(ids), np.concatenate(digests)

    def ids(self, dataset: Dataset, fragments: Sequence[int]) -> Iterator[Hashes]:
        """The hashed ids of some fragments, a batch at a time."""
        if fragments:
            for batch in dataset.read_fragments(fragments, ["id"]):
                hashed = hash_texts(batch.column("id").fill_null(""))
                yield hashed[self._mine(hashed)]

    def _mine(self, hashed: Hashes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.asarray(hashed % np.uint64(self.parts) == np.uint64(self.number))


def _compare(
    before: tuple[Hashes, Hashes], after: tuple[Hashes, Hashes], kept: Iterator[Hashes]
) -> RowCounts:
    """`kept` are the ids of rows that both versions have in the same place."""
    old_ids, order = np.unique(before[0], return_index=True)
    old_digests = before[1][order]
    new_ids, counts = np.unique(after[0], return_counts=True)
    at = np.searchsorted(old_ids, after[0])
    at_known = np.minimum(at, max(len(old_ids) - 1, 0))
    known = (at < len(old_ids)) & (old_ids[at_known] == after[0]) if len(old_ids) else np.zeros(len(at), bool)
    equal = known.copy()
    equal[known] = old_digests[at_known[known]] == after[1][known]
    matched, unchanged = np.unique(after[0][known]), np.unique(after[0][equal])
    twice = int((counts - 1).sum())
    in_other_fragments = sum(int(np.isin(ids, new_ids).sum()) for ids in kept) if len(new_ids) else 0
    return RowCounts(
        added=len(after[0]) - len(matched),
        updated=len(matched) - len(unchanged),
        deleted=len(old_ids) - len(matched),
        duplicates=twice + in_other_fragments,
    )
