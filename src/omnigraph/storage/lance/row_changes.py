"""Finds the rows that differ between two versions of a dataset, with their addresses in both.

In: handles of two versions, the second created from the first by any number of commits and forks. Out: the rows of the
first that were deleted or replaced, and the rows of the second that were written since. The cost grows with the change:
fragments with the same files and deletions are skipped by their metadata, in those with other deletions only addresses
are compared, and in the others Lance records for each row the version in which it was last written. Compaction changes
no row; rows that a restore brought back count as written. Nothing here writes.

A fork continues the version numbers and row identities of its parent, so both sides use the same ones for different
rows. So rows are compared only along one line of versions: across a fork, each side is compared with the common
ancestor, and rows of the two sides are matched by their ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.errors import NotFoundError
from omnigraph.storage.lance.dataset import ADDRESS, IDENTITY, BranchVersion, Dataset, Texts, open_dataset
from omnigraph.storage.lance.fragments import Fragment, describe_fragments
from omnigraph.storage.lance.read import (
    LAST_UPDATED,
    Numbers,
    combine_texts,
    make_address_table,
    read_rows_at,
    scan_rows,
)
from omnigraph.storage.location import Location

_FRAGMENT_SHIFT: Final = np.uint64(32)


def find_common_ancestor(location: Location, left: BranchVersion, right: BranchVersion) -> BranchVersion | None:
    """Return the newest version that both were created from; None if a Lance branch between them was deleted."""
    if left.branch == right.branch:
        return BranchVersion(left.branch, min(left.version, right.version))
    branches = open_dataset(location).lance_branches()
    left_line = {origin.branch: origin.version for origin in (left, *_origins(branches, left.branch))}
    for origin in (right, *_origins(branches, right.branch)):
        if origin.branch in left_line:
            return BranchVersion(origin.branch, min(origin.version, left_line[origin.branch]))
    return None


def open_if_exists(location: Location, version: BranchVersion) -> Dataset | None:
    """Open a version; return None if it was deleted."""
    try:
        return open_dataset(location, branch=version.branch, version=version.version)
    except NotFoundError:
        return None


def fork_version(dataset: Dataset, branch: str | None, ancestor: str | None) -> int | None:
    """Return the version of `ancestor` from which a Lance branch, directly or not, was created; None if it was not."""
    origins = _origins(dataset.lance_branches(), branch)
    return next((origin.version for origin in origins if origin.branch == ancestor), None)


def _origins(branches: Mapping[str, BranchVersion], branch: str | None) -> Iterator[BranchVersion]:
    """Yield the version that a Lance branch was created from, then its parent's, up to Lance's main or a gap."""
    for _ in range(len(branches)):
        origin = None if branch is None else branches.get(branch)
        if origin is None:
            return
        branch = origin.branch
        yield origin


@dataclass(frozen=True, slots=True, eq=False)
class RowChanges:
    """The changes from one version to a later one. Both tables have the columns `id`, `IDENTITY` and `ADDRESS`.

    `removed` are rows of the earlier version that were deleted or replaced. `written` are rows of the later version
    that are new, replace others or were restored. `same_fragments` have the files that they had in the earlier version,
    `new_fragments` are the others.
    """

    removed: pa.Table
    written: pa.Table
    same_fragments: frozenset[int]
    new_fragments: tuple[int, ...]

    def ids(self) -> Texts:
        """Return the distinct ids of rows that were inserted, updated or deleted."""
        columns: list[Texts] = [*self.removed.column("id").chunks, *self.written.column("id").chunks]
        ids: Texts = pc.unique(combine_texts(columns))
        return ids

    def is_in_place(self, addresses: Numbers) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return for each address of the earlier version whether it is that of the same row in the later one."""
        return np.isin(addresses >> _FRAGMENT_SHIFT, np.array(sorted(self.same_fragments), np.uint64))


def row_changes(ancestor: Dataset, dataset: Dataset) -> RowChanges:
    """Return what was inserted, updated and deleted since the ancestor."""
    before, after = describe_fragments(ancestor), describe_fragments(dataset)
    same = _unchanged_fragments(before, after)
    new = tuple(number for number in after if number not in same)
    written = make_address_table(scan_rows(dataset, ["id"], f"{LAST_UPDATED} > {ancestor.version}", new).to_batches())
    removed, restored = [], []
    for number in sorted(same):
        if before[number].deletion_file != after[number].deletion_file:
            old_rows, new_rows = _read_versions(ancestor, [number]), _read_versions(dataset, [number])
            removed.append(_without(old_rows, new_rows, ADDRESS))
            restored.append(_without(new_rows, old_rows, ADDRESS))
    rewritten = [number for number in before if number not in same]
    if rewritten or sum(after[number].rows for number in new) > written.num_rows:
        old_rows, new_rows = _read_versions(ancestor, rewritten), _read_versions(dataset, new)
        keys = [IDENTITY, LAST_UPDATED]
        removed.append(old_rows.join(new_rows.select(keys), keys, join_type="left anti"))
        unmatched = new_rows.join(old_rows.select(keys), keys, join_type="left anti")
        restored.append(_without(unmatched, written, IDENTITY))
    if any(part.num_rows for part in restored):
        written = pa.concat_tables([written, _with_ids(dataset, restored)]).combine_chunks()
    return RowChanges(_with_ids(ancestor, removed), written, same, new)


def written_rows_max(ancestor: Dataset, dataset: Dataset) -> int:
    """Return the maximum number of rows written since the ancestor, from metadata alone."""
    before, after = describe_fragments(ancestor), describe_fragments(dataset)
    same = _unchanged_fragments(before, after)
    return sum(fragment.rows for number, fragment in after.items() if number not in same)


def _unchanged_fragments(before: Mapping[int, Fragment], after: Mapping[int, Fragment]) -> frozenset[int]:
    return frozenset(
        number for number, fragment in after.items() if number in before and before[number].files == fragment.files
    )


def _read_versions(dataset: Dataset, fragments: Sequence[int]) -> pa.Table:
    """Read the identity, address and last written version of the rows of some fragments."""
    return scan_rows(dataset, [LAST_UPDATED], None, fragments)


def _without(rows: pa.Table, others: pa.Table, key: str) -> pa.Table:
    """Return the rows whose key none of the others has."""
    return rows.filter(pa.array(~np.isin(rows.column(key).to_numpy(), others.column(key).to_numpy())))


def _with_ids(dataset: Dataset, parts: Sequence[pa.Table]) -> pa.Table:
    """Read the ids of rows by their identities and addresses; ordered by address, because a join has no order."""
    if not any(part.num_rows for part in parts):
        return make_address_table([])
    rows = pa.concat_tables(parts).sort_by(ADDRESS)
    ids = read_rows_at(dataset, rows.column(IDENTITY).to_numpy(), rows.column(ADDRESS).to_numpy(), ["id"])
    return rows.select([IDENTITY, ADDRESS]).add_column(0, "id", ids.column("id")).combine_chunks()
