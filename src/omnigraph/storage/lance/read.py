"""Rows of a dataset by their ids, or by where they lie.

In: a handle and ids, or places that were found before. Out: rows. A few ids are looked up by a filter, which an index
serves; many by one scan. A few places are read by their addresses, at their own cost alone; many by their identities,
for which Lance first reads those of the whole table. Nothing here writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.storage.errors import plain_cause, substrate_errors
from omnigraph.storage.lance.dataset import ADDRESS, IDENTITY, Dataset, Texts, any_of

LAST_UPDATED: Final = "_row_last_updated_at_version"
"""The column with the version in which a row was inserted or last updated; a fork goes on with its parent's numbers."""


@dataclass(frozen=True, slots=True)
class TableScan:
    """What to read. `where` is SQL over the columns of the dataset, also those that are not read."""

    columns: tuple[str, ...]
    where: str | None = None
    updated_after: int | None = None


def check_filter(dataset: Dataset, where: str) -> None:
    """Raise `UsageError` unless Lance can plan the filter."""
    if not _is_closed(where):
        raise _refused(where, "its brackets do not match")
    try:
        # In brackets, as it is used: of a text with more after the condition Lance ignores the rest.
        dataset.native.scanner(columns=["id"], filter=f"({where})").explain_plan()
    except (ValueError, OSError) as refused:
        cause = plain_cause(refused).removeprefix("Invalid user input: ")
        raise _refused(where, cause) from refused


def scan_fragments(dataset: Dataset, fragments: tuple[int, ...], scan: TableScan) -> Iterator[pa.RecordBatch]:
    """The rows of these fragments that the scan asks for, in their order."""
    if not fragments:
        return
    with substrate_errors("read the dataset", dataset.uri):
        yield from dataset.native.scanner(
            columns=list(scan.columns),
            filter=_condition(scan),
            fragments=dataset.fragments(fragments),
            batch_size_bytes=limits.SCAN_BATCH_BYTES,
            scan_in_order=True,
            blob_handling="all_binary",
        ).to_batches()


def _is_closed(where: str) -> bool:
    """Whether no bracket outside of texts and quoted names closes what it has not opened."""
    depth = 0
    for bracket in re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[^()]", "", where):
        depth += 1 if bracket == "(" else -1
        if depth < 0:
            return False
    return depth == 0


def _refused(where: str, cause: str) -> UsageError:
    return UsageError(
        f"the filter cannot be used: {cause}",
        code="filter_malformed",
        hint="write an SQL condition over the columns of the type, as age > 30 AND name LIKE 'A%'",
        facts={"filter": where},
    )


def _condition(scan: TableScan) -> str | None:
    parts = [] if scan.where is None else [f"({scan.where})"]
    parts += [] if scan.updated_after is None else [f"{LAST_UPDATED} > {scan.updated_after}"]
    return " AND ".join(parts) or None


Numbers = np.ndarray[Any, np.dtype[np.uint64]]
NO_TEXTS: Final[Texts] = pa.array([], pa.utf8())


@dataclass(frozen=True, slots=True, eq=False)
class RowNumbers:
    """Rows as Lance numbers them: who they are, where they lie, in which version they were last written; aligned."""

    identities: Numbers
    addresses: Numbers
    versions: Numbers

    def not_at(self, others: RowNumbers) -> RowNumbers:
        """Those that lie where none of the others does."""
        return self._only(~np.isin(self.addresses, others.addresses))

    def not_in(self, others: RowNumbers) -> RowNumbers:
        """Those that none of the others is: the same row, last written in the same version."""
        order = np.argsort(others.identities)
        at = np.searchsorted(others.identities, self.identities, sorter=order)
        inside = at < len(order)
        match = order[at[inside]]
        alike = np.zeros(len(at), np.bool_)
        alike[inside] = (others.identities[match] == self.identities[inside]) & (
            others.versions[match] == self.versions[inside]
        )
        return self._only(~alike)

    def without(self, identities: Numbers) -> RowNumbers:
        """Those that are not among these."""
        return self._only(~np.isin(self.identities, identities))

    def _only(self, which: np.ndarray[Any, np.dtype[np.bool_]]) -> RowNumbers:
        return RowNumbers(self.identities[which], self.addresses[which], self.versions[which])


_NOTHING: Final = np.array([], np.uint64)
NO_NUMBERS: Final = RowNumbers(_NOTHING, _NOTHING, _NOTHING)


def every_id(dataset: Dataset) -> Texts:
    """The ids of all rows."""
    return joined_texts([batch.column("id") for batch in dataset.read_batches(["id"])])


def find_rows(
    dataset: Dataset, ids: Texts, columns: list[str], fragments: Sequence[int] | None = None
) -> pa.Table:
    """The columns, `IDENTITY` and `ADDRESS` of those of a few rows that there are, in no order, in one scan."""
    return _scan(dataset, columns, any_of("id", ids.to_pylist()), fragments)


def locate_rows(dataset: Dataset, ids: Texts, fragments: Sequence[int] | None = None) -> pa.Table:
    """The `id`, `IDENTITY` and `ADDRESS` of those of the rows that there are, in no order; in some fragments or all."""
    if len(ids) <= limits.LOOKUP_FILTER_VALUES_MAX:
        return places_table(find_rows(dataset, ids, ["id"], fragments).to_batches())
    with substrate_errors("look for rows", dataset.uri):
        scanner = dataset.native.scanner(
            columns=["id"],
            fragments=None if fragments is None else dataset.fragments(fragments),
            with_row_id=True,
            with_row_address=True,
        )
        large = joined_batches(scanner.to_batches(), len(ids))
        return places_table([batch.filter(pc.is_in(batch.column("id"), value_set=ids)) for batch in large])


def read_places(dataset: Dataset, identities: Numbers, addresses: Numbers, columns: list[str]) -> pa.Table:
    """The columns of the rows at these places, in this order; all of them are there."""
    if len(addresses) > limits.LOOKUP_FILTER_VALUES_MAX:
        return take_rows(dataset, identities, columns)
    numbers = ", ".join(str(address) for address in addresses.tolist())
    found = _scan(dataset, columns, f"{ADDRESS} IN ({numbers})" if numbers else "false")
    at: Any = pc.index_in(pa.array(addresses), value_set=found.column(ADDRESS).combine_chunks())
    assert at.null_count == 0, "a place is of a row of this very version"
    return found.select(columns).take(at)


def take_rows(dataset: Dataset, identities: Numbers, columns: list[str]) -> pa.Table:
    """The rows with these identities, in this order."""
    with substrate_errors("read rows of the dataset", dataset.uri):
        if not len(identities):
            return dataset.native.scanner(columns=columns, limit=0).to_table()
        return dataset.native._take_rows(identities.tolist(), columns=columns)


def read_numbers(dataset: Dataset, fragments: Sequence[int]) -> RowNumbers:
    """The numbers of the rows of some fragments, without reading their values."""
    if not fragments:
        return NO_NUMBERS
    rows = _scan(dataset, [LAST_UPDATED], None, fragments)
    identities, addresses, versions = (rows.column(name) for name in (IDENTITY, ADDRESS, LAST_UPDATED))
    return RowNumbers(identities.to_numpy(), addresses.to_numpy(), versions.to_numpy().astype(np.uint64))


def read_written(dataset: Dataset, fragments: Sequence[int], where: str) -> pa.Table:
    """The `id`, `IDENTITY` and `ADDRESS` of the rows of some fragments that a filter over row versions leaves."""
    if not fragments:
        return places_table([])
    return places_table(_scan(dataset, ["id"], where, fragments).to_batches())


def places_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Places of rows as one table of `id`, `IDENTITY` and `ADDRESS`."""
    kinds: dict[str, pa.DataType] = {"id": pa.utf8(), IDENTITY: pa.uint64(), ADDRESS: pa.uint64()}
    chunked: Any = pa.chunked_array
    columns = {
        name: chunked([batch.column(name) for batch in batches], type=kind) for name, kind in kinds.items()
    }
    return pa.table(columns).combine_chunks()


def joined_texts(columns: Sequence[Texts]) -> Texts:
    """Columns one after the other."""
    chunked: Any = pa.chunked_array
    whole: Texts = chunked(list(columns), type=pa.utf8()).combine_chunks()
    return whole


def _scan(
    dataset: Dataset, columns: list[str], where: str | None, fragments: Sequence[int] | None = None
) -> pa.Table:
    with substrate_errors("look for rows", dataset.uri):
        return dataset.native.scanner(
            columns=columns,
            filter=where,
            fragments=None if fragments is None else dataset.fragments(fragments),
            with_row_id=True,
            with_row_address=True,
            late_materialization=True,
        ).to_table()


def joined_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least that many; only the last may have fewer.

    For comparisons with many values, each of which costs as much as the values.
    """
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


_BATCHES_AHEAD: Final = 2


@dataclass(frozen=True, slots=True)
class RowSlice:
    """`rows` live rows of a fragment from the `start`th on; `index` counts from the first row of the dataset."""

    fragment: int
    start: int
    rows: int
    index: int


def slice_dataset(dataset: Dataset, rows_max: int) -> tuple[RowSlice, ...]:
    """All live rows, in slices of at most so many."""
    slices = []
    before = 0
    for fragment, rows in dataset.fragment_rows().items():
        slices += [
            RowSlice(fragment, start, min(rows_max, rows - start), before + start)
            for start in range(0, rows, rows_max)
        ]
        before += rows
    return tuple(slices)


def read_slice(
    dataset: Dataset, piece: RowSlice, columns: Sequence[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """The rows in their order, with the address of each; a blob is described by a struct with its `size`."""
    with substrate_errors("read the dataset", dataset.uri):
        fragment = dataset.native.get_fragment(piece.fragment)
        assert fragment is not None, "the slice is of this version"
        yield from dataset.native.scanner(
            columns=list(columns),
            fragments=[fragment],
            offset=piece.start,
            limit=piece.rows,
            batch_size=batch_rows,
            batch_readahead=_BATCHES_AHEAD,
            scan_in_order=True,
            with_row_address=True,
        ).to_batches()


def read_blobs(dataset: Dataset, column: str, addresses: Sequence[int]) -> list[bytes | None]:
    """The contents of the blobs of some rows, in their order."""
    if not addresses:
        return []
    with substrate_errors("read blobs", dataset.uri):
        found: Any = dataset.native.read_blobs(column, addresses=list(addresses), preserve_order=True)
    return [content for _, content in found]
