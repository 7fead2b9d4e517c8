"""Which rows differ between two versions of a dataset, and where they lie in both, at the cost of what changed.

In: handles of two versions, the second made from the first by any number of commits, forks included. Out: the rows of
the first that are no longer there as they were, and the rows of the second that were written since. Fragments with the
same files and the same deletions are left aside by their metadata. Of those with other deletions the numbers are
compared. In the others Lance says of every row in which version it was last written: a row is the same if that version
is. Compaction changes no row; what a restore brought back counts as written. Nothing here writes.

A fork goes on with the numbers of the version it was made from, and from there on both sides give the same numbers and
the same identities to different rows. So rows are compared along one line only: across a fork both sides are compared
with the version where they part (`ancestry`), and rows of the two sides meet by their ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.errors import NotFoundError
from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.lance.dataset import ADDRESS, IDENTITY, Dataset, Texts, open_dataset
from omnigraph.storage.lance.fragments import read_fragment_files
from omnigraph.storage.lance.read import (
    LAST_UPDATED,
    NO_NUMBERS,
    Numbers,
    RowNumbers,
    joined_texts,
    places_table,
    read_numbers,
    read_places,
    read_written,
)
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True)
class BranchVersion:
    """A version of a dataset on one of its Lance branches; None is Lance's main."""

    branch: str | None
    version: int


def find_parting(location: Location, left: BranchVersion, right: BranchVersion) -> BranchVersion | None:
    """The newest version that both were made from; None when a Lance branch on the way is gone."""
    if left.branch == right.branch:
        return BranchVersion(left.branch, min(left.version, right.version))
    branches = _branches(open_dataset(location))
    line = {place.branch: place.version for place in (left, *_origins(branches, left.branch))}
    for place in (right, *_origins(branches, right.branch)):
        if place.branch in line:
            return BranchVersion(place.branch, min(place.version, line[place.branch]))
    return None


def open_place(location: Location, place: BranchVersion) -> Dataset | None:
    """The dataset there, or None when that version is gone."""
    try:
        return open_dataset(location, branch=place.branch, version=place.version)
    except NotFoundError:
        return None


def fork_version(dataset: Dataset, branch: str | None, ancestor: str | None) -> int | None:
    """The version of `ancestor` that a Lance branch, or one it was made from, was made at; None if there is none."""
    origins = _origins(_branches(dataset), branch)
    return next((place.version for place in origins if place.branch == ancestor), None)


def _branches(dataset: Dataset) -> Any:
    with substrate_errors("list the Lance branches", dataset.uri):
        return dataset.native.branches.list()


def _origins(branches: Any, branch: str | None) -> Iterator[BranchVersion]:
    """What a Lance branch was made from, what that one was made from, and so on up to Lance's main or a gap."""
    at = branch
    for _ in range(len(branches)):
        found = None if at is None else branches.get(at)
        if found is None:
            return
        at = found["parent_branch"]
        yield BranchVersion(at, int(found["parent_version"]))


_FRAGMENT_SHIFT = np.uint64(32)


@dataclass(frozen=True, slots=True, eq=False)
class RowChanges:
    """What happened from one version to a later one. Both tables are `id`, `IDENTITY` and `ADDRESS`.

    `gone` are rows of the earlier version that were deleted or replaced, `written` rows of the later one that are new,
    replace others or came back. `same` are fragments whose files are those of the earlier version, `fresh` the others.
    """

    gone: pa.Table
    written: pa.Table
    same: frozenset[int]
    fresh: tuple[int, ...]

    def ids(self) -> Texts:
        """Every row that was inserted, updated or deleted, once."""
        columns: list[Texts] = [*self.gone.column("id").chunks, *self.written.column("id").chunks]
        found: Texts = pc.unique(joined_texts(columns))
        return found

    def is_in_place(self, addresses: Numbers) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """For addresses in the earlier version whether they mean the same rows in the later one."""
        return np.isin(addresses >> _FRAGMENT_SHIFT, np.array(sorted(self.same), np.uint64))


def row_changes(ancestor: Dataset, dataset: Dataset) -> RowChanges:
    """What was inserted, updated and deleted since the ancestor."""
    before, after = read_fragment_files(ancestor), read_fragment_files(dataset)
    same = frozenset(at for at, one in after.items() if at in before and before[at].files == one.files)
    fresh = tuple(at for at in after if at not in same)
    written = read_written(dataset, fresh, f"{LAST_UPDATED} > {ancestor.version}")
    lost, returned = [], []
    for at in sorted(same):
        if before[at].deletion_file != after[at].deletion_file:
            then, now = read_numbers(ancestor, [at]), read_numbers(dataset, [at])
            lost.append(then.not_at(now))
            returned.append(now.not_at(then))
    rewritten = [at for at in before if at not in same]
    if rewritten or sum(after[at].rows for at in fresh) > written.num_rows:
        then, now = read_numbers(ancestor, rewritten), read_numbers(dataset, fresh)
        lost.append(then.not_in(now))
        returned.append(now.not_in(then).without(written.column(IDENTITY).to_numpy()))
    back = _named(dataset, returned)
    if back.num_rows:
        written = pa.concat_tables([written, back]).combine_chunks()
    return RowChanges(_named(ancestor, lost), written, same, fresh)


def written_rows_max(ancestor: Dataset, dataset: Dataset) -> int:
    """How many rows at most were written since the ancestor, from metadata alone."""
    before, after = read_fragment_files(ancestor), read_fragment_files(dataset)
    return sum(one.rows for at, one in after.items() if at not in before or before[at].files != one.files)


def _named(dataset: Dataset, found: Sequence[RowNumbers]) -> pa.Table:
    """Rows that were found by their numbers, with their ids."""
    identities = np.concatenate([NO_NUMBERS.identities, *(one.identities for one in found)])
    addresses = np.concatenate([NO_NUMBERS.addresses, *(one.addresses for one in found)])
    if not len(addresses):
        return places_table([])
    rows = read_places(dataset, identities, addresses, ["id"])
    columns = {"id": rows.column("id"), IDENTITY: pa.array(identities), ADDRESS: pa.array(addresses)}
    return pa.table(columns).combine_chunks()
