"""Reads rows of a dataset: by id, by address, by fragment, by slice.

In: a handle and ids, addresses or parts of the dataset. Out: rows. A few ids are read by a filter, which an index
serves; many ids by one scan. A few rows are read by their addresses, at a cost that grows only with them; many by their
identities, for which Lance first reads the identities of the whole table. Nothing here writes.
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
from omnigraph.storage.errors import plain_cause, translate_errors
from omnigraph.storage.lance.dataset import ADDRESS, IDENTITY, Dataset, Texts, any_of

LAST_UPDATED: Final = "_row_last_updated_at_version"
"""The column with the version in which a row was inserted or last updated; a fork continues its parent's versions."""

Numbers = np.ndarray[Any, np.dtype[np.uint64]]
NO_TEXTS: Final[Texts] = pa.array([], pa.utf8())
_BATCHES_AHEAD: Final = 2


@dataclass(frozen=True, slots=True)
class TableScan:
    """What to read. `where` is SQL over the columns of the dataset, including columns that are not read."""

    columns: tuple[str, ...]
    where: str | None = None
    updated_after: int | None = None


@dataclass(frozen=True, slots=True)
class RowSlice:
    """`rows` live rows of a fragment from offset `start`; `index` counts from the first row of the dataset."""

    fragment: int
    start: int
    rows: int
    index: int


def read_all_ids(dataset: Dataset) -> Texts:
    """Read the ids of all rows."""
    return combine_texts([batch.column("id") for batch in dataset.read_batches(["id"])])


def scan_rows(
    dataset: Dataset, columns: list[str], where: str | None = None, fragments: Sequence[int] | None = None
) -> pa.Table:
    """Read the columns, `IDENTITY` and `ADDRESS` of the rows that pass a filter; default: of all fragments."""
    with translate_errors("find rows", dataset.uri):
        return dataset.native.scanner(
            columns=columns,
            filter=where,
            fragments=None if fragments is None else dataset.fragments(fragments),
            with_row_id=True,
            with_row_address=True,
            late_materialization=True,
        ).to_table()


def find_rows(dataset: Dataset, ids: Texts, columns: list[str], fragments: Sequence[int] | None = None) -> pa.Table:
    """Read the columns, `IDENTITY` and `ADDRESS` of the existing rows among a few ids, in no order, in one scan."""
    return scan_rows(dataset, columns, any_of("id", ids.to_pylist()), fragments)


def locate_rows(dataset: Dataset, ids: Texts, fragments: Sequence[int] | None = None) -> pa.Table:
    """Read `id`, `IDENTITY` and `ADDRESS` of the existing rows among the ids, in no order; in some fragments or all."""
    if len(ids) <= limits.LOOKUP_FILTER_VALUES_MAX:
        return make_address_table(find_rows(dataset, ids, ["id"], fragments).to_batches())
    with translate_errors("find rows", dataset.uri):
        scanner = dataset.native.scanner(
            columns=["id"],
            fragments=None if fragments is None else dataset.fragments(fragments),
            with_row_id=True,
            with_row_address=True,
        )
        batches = combine_batches(scanner.to_batches(), len(ids))
        return make_address_table([batch.filter(pc.is_in(batch.column("id"), value_set=ids)) for batch in batches])


def read_rows_at(dataset: Dataset, identities: Numbers, addresses: Numbers, columns: list[str]) -> pa.Table:
    """Read the columns of the rows with these identities and addresses, in this order; every row exists."""
    if len(addresses) > limits.LOOKUP_FILTER_VALUES_MAX:
        return read_rows_by_identity(dataset, identities, columns)
    numbers = ", ".join(str(address) for address in addresses.tolist())
    rows = scan_rows(dataset, columns, f"{ADDRESS} IN ({numbers})" if numbers else "false")
    positions: Any = pc.index_in(pa.array(addresses), value_set=rows.column(ADDRESS).combine_chunks())
    assert positions.null_count == 0, "an address is that of a row of this version"
    return rows.select(columns).take(positions)


def read_rows_by_identity(dataset: Dataset, identities: Numbers, columns: list[str]) -> pa.Table:
    """Read the columns of the rows with these identities, in this order."""
    with translate_errors("read rows of the dataset", dataset.uri):
        if not len(identities):
            return dataset.native.scanner(columns=columns, limit=0).to_table()
        return dataset.native._take_rows(identities.tolist(), columns=columns)


def make_address_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Combine batches into one table with the columns `id`, `IDENTITY` and `ADDRESS`."""
    kinds: dict[str, pa.DataType] = {"id": pa.utf8(), IDENTITY: pa.uint64(), ADDRESS: pa.uint64()}
    chunked: Any = pa.chunked_array
    columns = {name: chunked([batch.column(name) for batch in batches], type=kind) for name, kind in kinds.items()}
    return pa.table(columns).combine_chunks()


def combine_texts(columns: Sequence[Texts]) -> Texts:
    """Concatenate columns of text."""
    chunked: Any = pa.chunked_array
    texts: Texts = chunked(list(columns), type=pa.utf8()).combine_chunks()
    return texts


def combine_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of at least `rows` rows; only the last batch may have fewer.

    For comparisons with many values, where the cost of each comparison grows with the values.
    """
    pending: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        pending.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield from pa.Table.from_batches(pending).combine_chunks().to_batches()
            pending, count = [], 0
    if pending:
        yield from pa.Table.from_batches(pending).combine_chunks().to_batches()


def require_valid_filter(dataset: Dataset, where: str) -> None:
    """Raise `UsageError` unless Lance can plan the filter."""
    if not _has_matching_brackets(where):
        raise _invalid_filter(where, "its brackets do not match")
    try:
        # In brackets, as the filter is used: Lance ignores text after a complete condition.
        dataset.native.scanner(columns=["id"], filter=f"({where})").explain_plan()
    except (ValueError, OSError) as error:
        cause = plain_cause(error).removeprefix("Invalid user input: ")
        raise _invalid_filter(where, cause) from error


def scan_fragments(dataset: Dataset, fragments: tuple[int, ...], scan: TableScan) -> Iterator[pa.RecordBatch]:
    """Read the rows of these fragments that the scan selects, in their order."""
    with translate_errors("read the dataset", dataset.uri):
        yield from dataset.native.scanner(
            columns=list(scan.columns),
            filter=_condition(scan),
            fragments=dataset.fragments(fragments),
            batch_size_bytes=limits.SCAN_BATCH_BYTES,
            scan_in_order=True,
            blob_handling="all_binary",
        ).to_batches()


def slice_dataset(dataset: Dataset, rows_max: int) -> tuple[RowSlice, ...]:
    """Divide all live rows into slices of at most `rows_max` rows."""
    slices = []
    before = 0
    for fragment, rows in dataset.fragment_rows().items():
        slices += [
            RowSlice(fragment, start, min(rows_max, rows - start), before + start) for start in range(0, rows, rows_max)
        ]
        before += rows
    return tuple(slices)


def read_slice(
    dataset: Dataset, row_slice: RowSlice, columns: Sequence[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Read the rows in their order, each with its address; a blob is described by a struct with its `size`."""
    with translate_errors("read the dataset", dataset.uri):
        fragment = dataset.native.get_fragment(row_slice.fragment)
        assert fragment is not None, "the slice is one of this version"
        yield from dataset.native.scanner(
            columns=list(columns),
            fragments=[fragment],
            offset=row_slice.start,
            limit=row_slice.rows,
            batch_size=batch_rows,
            batch_readahead=_BATCHES_AHEAD,
            scan_in_order=True,
            with_row_address=True,
        ).to_batches()


def read_blobs(dataset: Dataset, column: str, addresses: Sequence[int]) -> list[bytes | None]:
    """Read the contents of the blobs of some rows, in their order."""
    if not addresses:
        return []
    with translate_errors("read blobs", dataset.uri):
        blobs: Any = dataset.native.read_blobs(column, addresses=list(addresses), preserve_order=True)
    return [content for _, content in blobs]


def read_blob_range(dataset: Dataset, column: str, address: int, start: int, end: int) -> bytes:
    """Read a part of the blob of one row."""
    with translate_errors("read a blob", dataset.uri):
        (blob,) = dataset.native.take_blobs(column, addresses=[address])
        assert blob is not None, "the caller checked that the row has a blob"
        with blob:
            return bytes(blob.read_range(start, end - start))


def _has_matching_brackets(where: str) -> bool:
    """Return whether the brackets outside of string literals and quoted names match."""
    depth = 0
    for bracket in re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[^()]", "", where):
        depth += 1 if bracket == "(" else -1
        if depth < 0:
            return False
    return depth == 0


def _invalid_filter(where: str, cause: str) -> UsageError:
    return UsageError(
        f"invalid filter: {cause}",
        code="filter_malformed",
        hint="Use an SQL condition over the columns of the type, such as `age > 30 AND name LIKE 'A%'`.",
        facts={"filter": where},
    )


def _condition(scan: TableScan) -> str | None:
    parts = [] if scan.where is None else [f"({scan.where})"]
    parts += [] if scan.updated_after is None else [f"{LAST_UPDATED} > {scan.updated_after}"]
    return " AND ".join(parts) or None
