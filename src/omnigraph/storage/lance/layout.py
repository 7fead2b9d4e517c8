"""Which files of one dataset go, and in which order: a join of a listing with what versions reach. Pure.

In: the files there are, the decision about versions and forks, and the files that retained and other versions need.
Out: `DeletableFile`s in the order in which they have to go: forks, children before parents; then the manifests of old
versions; then what only those needed; then orphans, which no version needs and which are beyond the grace. Within
whatever goes, manifests go first, so nothing half deleted looks whole. A file that is none of Lance's is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.base.errors import FormatError
from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.location import Location

_VERSIONS: Final = "_versions/"
_TREE: Final = "tree/"
_REFS: Final = "_refs/branches/"
_JSON: Final = ".json"
_MANIFEST: Final = re.compile(r"_versions/(\d+)\.manifest")
_INVERTED_DIGITS: Final = 20
_VERSION_MAX: Final = 2**64 - 1
_DATA: Final = re.compile(r"(data/[^/]+?)(?:\.lance(?:#\d+)?|/.+)")
_INDEX: Final = re.compile(r"(_indices/[^/]+)/.+")
_OTHERS: Final = ("_transactions/", "_deletions/")
_UNFINISHED: Final = re.compile(r".+#\d+")
_REF_LAST: Final = 2


def split_branch(path: str) -> tuple[str | None, str]:
    """The Lance branch of a file, and its path below that branch. A branch of a foreign tool may have slashes."""
    if not path.startswith(_TREE):
        return None, path
    below = path.removeprefix(_TREE)
    for folder in ("_versions/", "_transactions/", "_deletions/", "_indices/", "data/"):
        name, found, rest = below.partition(f"/{folder}")
        if found:
            return name, folder + rest
    name, _, rest = below.partition("/")
    return name, rest


def unit_of(rest: str) -> str | None:
    """What a file belongs to and goes with: its data file, its index, itself; None for what is not ours to judge."""
    if rest.startswith(_OTHERS):
        return rest
    found = _DATA.fullmatch(rest) or _INDEX.fullmatch(rest)
    return None if found is None else found[1]


def _units(paths: frozenset[str]) -> frozenset[str]:
    return frozenset(_units_of(paths))


def _units_of(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        branch, rest = split_branch(path)
        yield _key(branch, unit_of(rest) or rest)


def _key(branch: str | None, unit: str) -> str:
    return unit if branch is None else f"{_TREE}{branch}/{unit}"


def _version_of(rest: str) -> int | None:
    found = _MANIFEST.fullmatch(rest) if rest.startswith(_VERSIONS) else None
    if found is None:
        return None
    number = int(found[1])
    return _VERSION_MAX - number if len(found[1]) == _INVERTED_DIGITS else number


def _ref_of(path: str) -> str | None:
    if not (path.startswith(_REFS) and path.endswith(_JSON)):
        return None
    return path.removeprefix(_REFS).removesuffix(_JSON)


def _manifests_first(rest: str) -> int:
    return 0 if rest.startswith(_VERSIONS) else 1


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
class ReferencedFiles:
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


def read_reached(dataset: Dataset, leaving: Iterable[int]) -> ReferencedFiles:
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
    return ReferencedFiles(frozenset(by_staying), frozenset(by_any))


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
