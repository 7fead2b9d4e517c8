"""What the fragments of a version are made of, from its metadata alone.

In: a dataset. Out: rows, size and data files of each fragment. Two versions in which a fragment has the same files hold
the same values in it; rows may have been deleted in between, or have moved to other fragments. Equal fragments are the
same in everything: not a row of them changed. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.lance.dataset import ADDRESS, Dataset


@dataclass(frozen=True, slots=True)
class Fragment:
    """Live rows, per data file its path and the numbers of the fields that are read from it, deleted rows and bytes.

    Two versions of a fragment with the same files and the same `deletion_file` have the same rows.

    `has_updates`: some rows were somewhere else before, under the identity that they have here. `native` is what Lance
    says of it, with its deletions and the identities of its rows.
    """

    rows: int
    files: tuple[tuple[str, tuple[int, ...]], ...]
    deleted_rows: int
    size_bytes: int
    has_updates: bool = False
    native: Any = None
    deletion_file: str | None = None


def data_files(native: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The files of a fragment as Lance describes it: paths, and the numbers of the fields read from them."""
    return tuple((file.path, tuple(file.fields)) for file in native.files)


def has_same_data(then: Any, now: Any) -> bool:
    """Whether two descriptions by Lance of one fragment differ at most in which of its rows are deleted."""
    return bool(replace(then, deletion_file=None) == replace(now, deletion_file=None))


def read_fragment_files(dataset: Dataset) -> Mapping[int, Fragment]:
    """Every fragment of the version by its number, in the order of the rows."""
    with substrate_errors("read the fragments", dataset.uri):
        found = {}
        for fragment in dataset.native.get_fragments():
            metadata = fragment.metadata
            rows = fragment.count_rows() if metadata.num_rows is None else metadata.num_rows
            files = data_files(metadata)
            size = sum(file.file_size_bytes or 0 for file in metadata.files)
            updated = metadata.created_at_version_meta != metadata.last_updated_at_version_meta
            deletions = fragment.deletion_file() if metadata.num_deletions else None
            found[fragment.fragment_id] = Fragment(
                rows, files, metadata.num_deletions, size, updated, metadata, deletions
            )
        return found


def read_live_offsets(dataset: Dataset, number: int) -> npt.NDArray[np.uint32]:
    """The offsets of the rows of one fragment that are not deleted in this version, ascending. Reads no data file."""
    with substrate_errors("read the deletions", dataset.uri):
        parts = dataset.fragments([number])
        rows = dataset.native.scanner(columns=[], fragments=parts, with_row_address=True).to_table()
    offsets: npt.NDArray[np.uint32] = rows.column(ADDRESS).to_numpy().astype(np.uint32)
    return offsets


@dataclass(frozen=True, slots=True)
class FragmentState:
    """Everything that decides which rows a fragment has: its files, what overlays them, and what was deleted."""

    rows: int
    files: tuple[tuple[str, tuple[int, ...]], ...]
    overlays: str
    deletion_file: str | None


def read_fragment_states(dataset: Dataset) -> Mapping[int, FragmentState]:
    """Every fragment of the version by its number. Two versions in which one is equal have the same rows in it."""
    with substrate_errors("read the fragments", dataset.uri):
        found = {}
        for fragment in dataset.native.get_fragments():
            metadata = fragment.metadata
            files = data_files(metadata)
            deletions = fragment.deletion_file()
            found[fragment.fragment_id] = FragmentState(
                fragment.count_rows(), files, repr(metadata.overlays), deletions
            )
        return found


def count_deleted_rows(dataset: Dataset) -> int:
    """Rows that are marked as deleted and still take room in a file."""
    with substrate_errors("read the fragments", dataset.uri):
        return sum(fragment.num_deletions for fragment in dataset.native.get_fragments())


def group_fragments(rows: Mapping[int, int], rows_max: int) -> list[tuple[int, ...]]:
    """Neighbouring fragments in groups of at most so many rows; one with more of them is a group of its own."""
    groups: list[list[int]] = []
    grouped_rows = 0
    for number, count in rows.items():
        if not groups or grouped_rows + count > rows_max:
            groups.append([])
            grouped_rows = 0
        groups[-1].append(number)
        grouped_rows += count
    return [tuple(group) for group in groups]
