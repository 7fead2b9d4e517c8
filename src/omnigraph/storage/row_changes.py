"""Which rows differ between two versions of a dataset, at the cost of what changed; and rows by their ids.

In: handles of two versions, the second made from the first by any number of commits, forks included. Out: the ids of
the rows that were inserted, updated or deleted in between; compaction changes none. Fragments with the same files and
as many rows are left aside by their metadata. In the others Lance says of every row in which version it was last
written. Nothing here writes.

A fork goes on with the numbers of the version it was made from, and from there on both sides give the same numbers and
the same identities to different rows. So rows are compared along one line only: across a fork both sides are compared
with the version where they part (`find_parting`), and rows of the two sides meet by their ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.errors import NotFoundError
from omnigraph.base.limits import LOOKUP_FILTER_VALUES_MAX
from omnigraph.storage.dataset import ADDRESS, IDENTITY, Dataset, open_dataset
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.fragments import read_fragment_files
from omnigraph.storage.location import Location
from omnigraph.storage.scan import LAST_UPDATED

if TYPE_CHECKING:
    Texts = pa.Array[Any]
else:
    Texts = pa.Array

CREATED: Final = "_row_created_at_version"
NO_TEXTS: Final[Texts] = pa.array([], pa.utf8())


@dataclass(frozen=True, slots=True)
class Place:
    """A version of a dataset on one of its Lance branches; None is Lance's main."""

    branch: str | None
    version: int


def changed_ids(ancestor: Dataset, dataset: Dataset) -> Texts:
    """The ids of every row that was inserted, updated or deleted since the ancestor, each once."""
    before, after = read_fragment_files(ancestor), read_fragment_files(dataset)
    same = {at for at, one in after.items() if at in before and before[at].files == one.files}
    fresh = [at for at in after if at not in same]
    written = f"{LAST_UPDATED} > {ancestor.version}"
    ids, inserted = _written(dataset, fresh, written, ancestor.version)
    kept = sum(after[at].rows for at in same) + sum(after[at].rows for at in fresh) - inserted
    if sum(one.rows for one in before.values()) > kept:
        touched = [at for at in before if at not in same or before[at].rows != after[at].rows]
        still = [*fresh, *(at for at in touched if at in same)]
        there = _identities(dataset, still)
        gone = np.setdiff1d(_identities(ancestor, touched), there, assume_unique=True)
        ids = [*ids, take_rows(ancestor, gone, ["id"]).column("id").combine_chunks()]
    found: Texts = pc.unique(_joined(ids))
    return found


def find_parting(location: Location, left: Place, right: Place) -> Place | None:
    """The newest version that both were made from; None when a Lance branch on the way is gone."""
    if left.branch == right.branch:
        return Place(left.branch, min(left.version, right.version))
    with substrate_errors("list the Lance branches", location.uri):
        branches = open_dataset(location).native.branches.list()
    line = {}
    for place in _line(branches, left):
        line[place.branch] = place.version
    for place in _line(branches, right):
        if place.branch in line:
            return Place(place.branch, min(place.version, line[place.branch]))
    return None


def open_place(location: Location, place: Place) -> Dataset | None:
    """The dataset there, or None when that version is gone."""
    try:
        return open_dataset(location, branch=place.branch, version=place.version)
    except NotFoundError:
        return None


def every_id(dataset: Dataset) -> Texts:
    """The ids of all rows."""
    return _joined([batch.column("id") for batch in dataset.read_batches(["id"])])


def find_rows(dataset: Dataset, ids: Texts, columns: list[str]) -> pa.Table:
    """The columns, `IDENTITY` and `ADDRESS` of those of a few rows that there are, in no order, in one scan.

    Taking rows by their identities would first read those of the whole table.
    """
    texts = ", ".join("'" + str(value).replace("'", "''") + "'" for value in ids.to_pylist())
    with substrate_errors("look for rows", dataset.uri):
        return dataset.native.scanner(
            columns=columns,
            filter=f"id IN ({texts})" if texts else "false",
            with_row_id=True,
            with_row_address=True,
            late_materialization=True,
        ).to_table()


def locate_rows(dataset: Dataset, ids: Texts) -> pa.Table:
    """The `id`, `IDENTITY` and `ADDRESS` of those of the rows that there are, in no order."""
    if len(ids) <= LOOKUP_FILTER_VALUES_MAX:
        return _located(find_rows(dataset, ids, ["id"]).to_batches())
    with substrate_errors("look for rows", dataset.uri):
        scanner = dataset.native.scanner(columns=["id"], with_row_id=True, with_row_address=True)
        batches = scanner.to_batches()
        large = _large(batches, len(ids))
        return _located([batch.filter(pc.is_in(batch.column("id"), value_set=ids)) for batch in large])


def take_rows(
    dataset: Dataset, identities: np.ndarray[Any, np.dtype[np.uint64]], columns: list[str]
) -> pa.Table:
    """The rows with these identities, in this order."""
    with substrate_errors("read rows of the dataset", dataset.uri):
        if not len(identities):
            return dataset.native.scanner(columns=columns, limit=0).to_table()
        return dataset.native._take_rows(identities.tolist(), columns=columns)


def _line(branches: Any, place: Place) -> Iterator[Place]:
    """The version, the one that its Lance branch was made from, and so on up to Lance's main or a gap."""
    yield place
    at = place.branch
    for _ in range(len(branches)):
        found = None if at is None else branches.get(at)
        if found is None:
            return
        at = found["parent_branch"]
        yield Place(at, int(found["parent_version"]))


def _written(dataset: Dataset, fragments: list[int], where: str, version: int) -> tuple[list[Texts], int]:
    """The ids of rows that were written after a version, and how many of them were not there in it."""
    if not fragments:
        return [], 0
    with substrate_errors("read changed rows", dataset.uri):
        chosen = [found for one in fragments if (found := dataset.native.get_fragment(one)) is not None]
        rows = dataset.native.scanner(columns=["id", CREATED], filter=where, fragments=chosen).to_table()
    created: Any = pc.sum(pc.greater(rows.column(CREATED), pa.scalar(version, pa.uint64())))
    return list(rows.column("id").chunks), int(created.as_py() or 0)


def _identities(dataset: Dataset, fragments: list[int]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    if not fragments:
        return np.array([], dtype=np.uint64)
    with substrate_errors("read the identities of rows", dataset.uri):
        chosen = [found for one in fragments if (found := dataset.native.get_fragment(one)) is not None]
        rows = dataset.native.scanner(columns=[], fragments=chosen, with_row_id=True).to_table()
    return rows.column(IDENTITY).to_numpy()


def _large(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of at least so many rows: each comparison with many ids costs as much as the ids."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, count = [], 0
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def _located(batches: list[pa.RecordBatch]) -> pa.Table:
    kinds: dict[str, pa.DataType] = {"id": pa.utf8(), IDENTITY: pa.uint64(), ADDRESS: pa.uint64()}
    chunked: Any = pa.chunked_array
    columns = {
        name: chunked([batch.column(name) for batch in batches], type=kind) for name, kind in kinds.items()
    }
    return pa.table(columns).combine_chunks()


def _joined(columns: list[Texts]) -> Texts:
    chunked: Any = pa.chunked_array
    whole: Texts = chunked(columns, type=pa.utf8()).combine_chunks()
    return whole
