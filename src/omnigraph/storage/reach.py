"""What the versions of a dataset reach: the refs that name versions, and the files that versions name.

In: a dataset. Out: its Lance branches and tags, and for one Lance branch the files that its versions need, but for some
that leave, beside those that any version does. Paths are below the dataset's root, so those of a branch start with
`tree/`. A branch also reads files of the branch it was made from; Lance lists those of them that are data, but not
indexes, so whoever decides keeps the version that the branch was made from. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.base.errors import FormatError
from omnigraph.storage.dataset import Dataset, open_dataset
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True)
class LanceBranch:
    """A Lance branch and the version that it was made from; `parent` None is Lance's main."""

    name: str
    parent: str | None
    parent_version: int


@dataclass(frozen=True, slots=True)
class Refs:
    """What names versions of a dataset beside their numbers. A tag is a Lance branch and a version."""

    branches: tuple[LanceBranch, ...]
    tags: frozenset[tuple[str | None, int]]


@dataclass(frozen=True, slots=True)
class Reached:
    """The files of a Lance branch's versions, manifests included: of those that stay, and of all of them."""

    by_staying: frozenset[str]
    by_any: frozenset[str]


def read_refs(location: Location) -> Refs:
    """The branches and tags of a dataset."""
    dataset = open_dataset(location)
    with substrate_errors("read the branches", dataset.uri):
        branches = dataset.native.branches.list()
        tags = dataset.native.tags.list()
    found = (
        LanceBranch(name, entry["parent_branch"], int(entry["parent_version"]))
        for name, entry in sorted(branches.items())
    )
    return Refs(tuple(found), frozenset((tag["branch"], int(tag["version"])) for tag in tags.values()))


def read_reached(dataset: Dataset, leaving: Iterable[int]) -> Reached:
    """Which files the versions of the handle's branch need, but for those that leave, and which any version does.

    A version that the caller has not heard of yet stays.
    """
    gone = pa.array(sorted(leaving), pa.int64())
    by_staying: set[str] = set()
    by_any: set[str] = set()
    with substrate_errors("read what versions need", dataset.uri):
        for table in _tables(dataset):
            by_any |= _paths(table, dataset.location)
            leaves = pc.is_in(table.column("version"), value_set=gone)
            by_staying |= _paths(table.filter(pc.invert(leaves)), dataset.location)
    return Reached(frozenset(by_staying), frozenset(by_any))


def _tables(dataset: Dataset) -> Iterator[pa.Table]:
    """In one piece each: Lance gives a batch per version, which is too little to work on at a time."""
    batches: list[pa.RecordBatch] = []
    rows = 0
    for batch in dataset.native.tracked_files():
        batches.append(batch)
        rows += batch.num_rows
        if rows >= limits.REACH_ROWS:
            yield _one_piece(batches)
            batches, rows = [], 0
    if batches:
        yield _one_piece(batches)


def _one_piece(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()


def _paths(table: pa.Table, root: Location) -> set[str]:
    """The distinct paths, below the root."""
    found: set[str] = set()
    if table.num_rows == 0:
        return found
    bases: Any = table.column("base_uri")
    names = bases.chunk(0).dictionary.to_pylist()
    for place, base in enumerate(names):
        rows = table
        if len(names) > 1:
            rows = table.filter(pc.equal(bases.chunk(0).indices, place))
        paths = pc.unique(rows.column("path")).to_pylist()
        folder = folder_below(str(base), root) if paths else ""
        found.update((f"{folder}{path}" for path in paths) if folder else map(str, paths))
    return found


def folder_below(base: str, root: Location) -> str:
    """The folder of a base below the dataset's root, with a slash at its end; empty for the root itself."""
    place, top = _plain(base), _plain(root.uri)
    if place == top:
        return ""
    if place.startswith(f"{top}/"):
        return f"{place.removeprefix(f'{top}/')}/"
    raise FormatError(
        f"{root.uri} has versions that read files at {base}",
        code="base_outside",
        hint="a copied or moved graph cannot be cleaned up; export it and load it anew",
        facts={"uri": root.uri, "base": base},
    )


def _plain(uri: str) -> str:
    return uri.removeprefix("file://").rstrip("/")
