"""Finds the fragments that have one of some ids, with the ids of small fragments that this process has read before.

In: a handle and ids. Out: the numbers of the fragments to read. Small commits leave many small fragments, which no
index covers, so each lookup would read all of them. Names of data and deletion files are never used again, so they
identify the rows of a fragment, and its ids are read once. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lance.fragment import FragmentMetadata

from omnigraph.base import limits
from omnigraph.base.recent import RecentValues
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.dataset import ADDRESS, Dataset, Texts
from omnigraph.storage.lance.durability import file_path

_Files = tuple[str, ...]
_IDS: Final[RecentValues[_Files, frozenset[str]]] = RecentValues(limits.SMALL_FRAGMENTS_MAX)


def fragments_with_ids(dataset: Dataset, ids: Texts) -> list[int]:
    """Return the small fragments that have a row with one of these ids, and all other fragments."""
    fragments: list[int] = []
    small: dict[int, _Files] = {}
    with translate_errors("find rows", dataset.uri):
        for fragment in dataset.native.get_fragments():
            metadata = fragment.metadata
            if metadata.physical_rows > limits.SMALL_FRAGMENT_ROWS_MAX:
                fragments.append(fragment.fragment_id)
            else:
                small[fragment.fragment_id] = _files(metadata)
    sought_ids = frozenset(ids.to_pylist())
    present_ids = {number: _IDS.find(files) for number, files in small.items()}
    unread = {number: small[number] for number, present in present_ids.items() if present is None}
    present_ids |= _read_ids(dataset, unread)
    fragments += [number for number, present in present_ids.items() if present and not sought_ids.isdisjoint(present)]
    return sorted(fragments)


def _read_ids(dataset: Dataset, fragments: Mapping[int, _Files]) -> dict[int, frozenset[str]]:
    if not fragments:
        return {}
    rows: dict[int, list[str]] = {number: [] for number in fragments}
    for batch in dataset.read_fragments(list(fragments), ["id"], with_identities=True):
        addresses: list[Any] = batch.column(ADDRESS).to_pylist()
        texts: list[Any] = batch.column("id").to_pylist()
        for address, text in zip(addresses, texts, strict=True):
            rows[address >> 32].append(text)
    ids = {number: frozenset(row_ids) for number, row_ids in rows.items()}
    for number, files in fragments.items():
        _IDS.put(files, ids[number])
    return ids


def _files(fragment: FragmentMetadata) -> _Files:
    """Return the names of the files that determine the rows of a fragment."""
    deletions = fragment.deletion_file
    deleted = () if deletions is None else (deletions.path(fragment.id, ""),)
    return (*map(file_path, fragment.files), *deleted)
