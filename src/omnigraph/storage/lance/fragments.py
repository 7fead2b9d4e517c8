"""Describes the fragments of a version, from its metadata alone.

In: a dataset. Out: rows, size and data files of each fragment. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.dataset import ADDRESS, Dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A fragment: live rows, data files (paths, and the ids of the fields read from them), deleted rows and bytes.

    `has_updates`: some rows were moved here from another fragment with their identities. `native` is Lance's
    description, with the deletions and the identities of the rows.
    """

    rows: int
    files: tuple[tuple[str, tuple[int, ...]], ...]
    deleted_rows: int
    size_bytes: int
    has_updates: bool = False
    native: Any = None
    deletion_file: str | None = None

    def has_same_rows(self, other: Fragment) -> bool:
        """Return whether the fragment has the same rows in another version: the same files, overlays and deletions."""
        return (self.files, self.deletion_file, self.native.overlays) == (
            other.files,
            other.deletion_file,
            other.native.overlays,
        )


def data_files(native: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the data files of Lance's description of a fragment: paths, and the ids of the fields read from them."""
    return tuple((file.path, tuple(file.fields)) for file in native.files)


def has_same_data(before: Any, after: Any) -> bool:
    """Return whether two of Lance's descriptions of a fragment differ at most in its deleted rows."""
    return bool(replace(before, deletion_file=None) == replace(after, deletion_file=None))


def describe_fragments(dataset: Dataset) -> Mapping[int, Fragment]:
    """Return every fragment of the version by its id, in the order of the rows."""
    with translate_errors("read the fragments", dataset.uri):
        fragments = {}
        for fragment in dataset.native.get_fragments():
            metadata = fragment.metadata
            fragments[fragment.fragment_id] = Fragment(
                rows=metadata.num_rows,
                files=data_files(metadata),
                deleted_rows=metadata.num_deletions,
                size_bytes=sum(file.file_size_bytes or 0 for file in metadata.files),
                has_updates=metadata.created_at_version_meta != metadata.last_updated_at_version_meta,
                native=metadata,
                deletion_file=fragment.deletion_file() if metadata.num_deletions else None,
            )
        return fragments


def read_live_offsets(dataset: Dataset, fragment_id: int) -> npt.NDArray[np.uint32]:
    """Return the offsets of the live rows of a fragment in this version, ascending. Reads no data file."""
    with translate_errors("read the deletions", dataset.uri):
        parts = dataset.fragments([fragment_id])
        rows = dataset.native.scanner(columns=[], fragments=parts, with_row_address=True).to_table()
    offsets: npt.NDArray[np.uint32] = rows.column(ADDRESS).to_numpy().astype(np.uint32)
    return offsets


def count_deleted_rows(dataset: Dataset) -> int:
    """Return the number of rows that are marked as deleted and still use space in a file."""
    with translate_errors("read the fragments", dataset.uri):
        return sum(fragment.num_deletions for fragment in dataset.native.get_fragments())


def group_fragments(rows: Mapping[int, int], rows_max: int) -> list[tuple[int, ...]]:
    """Group neighbouring fragments into at most `rows_max` rows; a larger fragment is a group of its own."""
    groups: list[list[int]] = []
    grouped_rows = 0
    for fragment_id, count in rows.items():
        if not groups or grouped_rows + count > rows_max:
            groups.append([])
            grouped_rows = 0
        groups[-1].append(fragment_id)
        grouped_rows += count
    return [tuple(group) for group in groups]
