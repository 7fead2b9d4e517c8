"""Counts the rows that differ between two versions of a table: added, updated, deleted, by id.

In: two handles of one table. Out: counts, computed from the contents, so a Restore, an overwrite and an update are
counted in the same way. Of fragments that both versions share only the ids are read. Memory is bounded: large changes
are compared in several passes, each over a part of the ids. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from omnigraph.arrow.hashing import Hashes, digest_rows, hash_texts
from omnigraph.base import limits
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.fragments import describe_fragments
from omnigraph.storage.lance.read import TableScan, scan_fragments


@dataclass(frozen=True, slots=True)
class RowCounts:
    """What publishing `after` instead of `before` changes. `duplicates`: rows with the id of another row."""

    added: int
    updated: int
    deleted: int
    duplicates: int = 0


def compare_rows(before: Dataset | None, after: Dataset, rows_per_pass: int = limits.REPAIR_ROWS_PER_PASS) -> RowCounts:
    """Compare two versions of one table by the column `id`. Without `before` every row is new."""
    fragments_before = {} if before is None else describe_fragments(before)
    fragments_after = describe_fragments(after)
    is_comparable = before is not None and before.schema.equals(after.schema)
    shared = fragments_before.keys() & fragments_after.keys() if is_comparable else ()
    same = {number for number in shared if fragments_before[number].has_same_rows(fragments_after[number])}
    old = [number for number in fragments_before if number not in same]
    new = [number for number in fragments_after if number not in same]
    rows = sum(fragments_before[number].rows for number in old) + sum(fragments_after[number].rows for number in new)
    passes = max(1, -(-rows // rows_per_pass))
    total = np.zeros(4, np.int64)
    for number in range(passes):
        part = _IdPart(passes, number)
        counts = _compare(part.read(before, old), part.read(after, new), part.ids(after, sorted(same)))
        total += (counts.added, counts.updated, counts.deleted, counts.duplicates)
    return RowCounts(*total.tolist())


@dataclass(frozen=True, slots=True)
class _IdPart:
    """The ids whose hash belongs to one of `parts` parts."""

    parts: int
    number: int

    def read(self, dataset: Dataset | None, fragments: Sequence[int]) -> tuple[Hashes, Hashes]:
        """Read the hashed ids and the digests of the rows of some fragments."""
        ids, digests = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
        if dataset is not None and fragments:
            # Blobs are read as bytes: equal rows may store them at different positions of a file.
            for batch in scan_fragments(dataset, tuple(fragments), TableScan(tuple(dataset.schema.names))):
                hashed = hash_texts(batch.column("id").fill_null(""))
                in_part = self._contains(hashed)
                ids.append(hashed[in_part])
                digests.append(digest_rows(batch, without="id")[in_part])
        return np.concatenate(ids), np.concatenate(digests)

    def ids(self, dataset: Dataset, fragments: Sequence[int]) -> Iterator[Hashes]:
        """Read the hashed ids of some fragments, a batch at a time."""
        if fragments:
            for batch in dataset.read_fragments(fragments, ["id"]):
                hashed = hash_texts(batch.column("id").fill_null(""))
                yield hashed[self._contains(hashed)]

    def _contains(self, hashed: Hashes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.asarray(hashed % np.uint64(self.parts) == np.uint64(self.number))


def _compare(before: tuple[Hashes, Hashes], after: tuple[Hashes, Hashes], unchanged_ids: Iterator[Hashes]) -> RowCounts:
    """Compare ids and digests. `unchanged_ids` are those of rows in fragments that both versions share."""
    old_ids, order = np.unique(before[0], return_index=True)
    old_digests = before[1][order]
    new_ids, counts = np.unique(after[0], return_counts=True)
    positions = np.searchsorted(old_ids, after[0])
    in_range = np.minimum(positions, max(len(old_ids) - 1, 0))
    is_old = np.zeros(len(positions), bool)
    if len(old_ids):
        is_old = (positions < len(old_ids)) & (old_ids[in_range] == after[0])
    is_equal = is_old.copy()
    is_equal[is_old] = old_digests[in_range[is_old]] == after[1][is_old]
    matched, unchanged = np.unique(after[0][is_old]), np.unique(after[0][is_equal])
    repeated = int((counts - 1).sum())
    in_shared = sum(int(np.isin(ids, new_ids).sum()) for ids in unchanged_ids) if len(new_ids) else 0
    return RowCounts(
        added=len(after[0]) - len(matched),
        updated=len(matched) - len(unchanged),
        deleted=len(old_ids) - len(matched),
        duplicates=repeated + in_shared,
    )
