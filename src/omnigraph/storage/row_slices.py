"""Slices of a dataset's rows: the pieces in which bulk work reads a table that is larger than memory.

A slice is so many live rows of one fragment. It stays the same as long as the version does, and deleted rows do not
count. Blobs are read apart from the rows, by the addresses of these. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from omnigraph.storage.dataset import Dataset
from omnigraph.storage.failures import substrate_errors

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
