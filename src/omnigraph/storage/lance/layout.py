"""The directories and files of a Lance dataset: what each path is, and which files its versions reference.

In: paths below a dataset's root, or a dataset. Out: the Lance branch, version or group that a path belongs to; the
files that versions reference. A file group is the unit that is deleted together: a data file with its
blobs, or an index with its files. Files that are not Lance's have no group. Nothing here writes or deletes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.base.errors import FormatError
from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import VERSION_DIGITS, VERSION_MAX
from omnigraph.storage.lance.read import combine_batches
from omnigraph.storage.location import Location

VERSIONS_DIRECTORY: Final = "_versions/"
BRANCHES_DIRECTORY: Final = "tree/"
UNFINISHED_FILE: Final = re.compile(r".+#\d+")
REFERENCES_LAST: Final = 2
"""The sort key, next to `manifests_first`, of a reference to a Lance branch."""

_REFERENCES: Final = "_refs/branches/"
_REFERENCE_SUFFIX: Final = ".json"
_SINGLE_FILES: Final = ("_transactions/", "_deletions/")
_DIRECTORIES: Final = (VERSIONS_DIRECTORY, *_SINGLE_FILES, "_indices/", "data/")
_MANIFEST: Final = re.compile(r"_versions/(\d+)\.manifest")
_DATA: Final = re.compile(r"(data/[^/]+?)(?:\.lance(?:#\d+)?|/.+)")
_INDEX: Final = re.compile(r"(_indices/[^/]+)/.+")


@dataclass(frozen=True, slots=True)
class ReferencedFiles:
    """The files that versions of a Lance branch reference, with manifests: retained versions, and any version."""

    by_retained: frozenset[str]
    by_any: frozenset[str]


def split_branch(path: str) -> tuple[str | None, str]:
    """Return the Lance branch of a file, and its path below that branch. Names by external tools may have slashes."""
    if not path.startswith(BRANCHES_DIRECTORY):
        return None, path
    below = path.removeprefix(BRANCHES_DIRECTORY)
    for directory in _DIRECTORIES:
        name, separator, rest = below.partition(f"/{directory}")
        if separator:
            return name, directory + rest
    name, _, rest = below.partition("/")
    return name, rest


def file_group(path: str) -> str | None:
    """Return the group of a file by its path below its branch; None for a file that is not Lance's."""
    if path.startswith(_SINGLE_FILES):
        return path
    match = _DATA.fullmatch(path) or _INDEX.fullmatch(path)
    return None if match is None else match[1]


def file_group_key(branch: str | None, group: str) -> str:
    """Return the path of a group below the dataset's root."""
    return group if branch is None else f"{BRANCHES_DIRECTORY}{branch}/{group}"


def file_group_keys(paths: Iterable[str]) -> frozenset[str]:
    """Return the groups of files, by their paths below the dataset's root."""
    pairs = (split_branch(path) for path in paths)
    return frozenset(file_group_key(branch, file_group(rest) or rest) for branch, rest in pairs)


def manifest_version(path: str) -> int | None:
    """Return the version of a manifest by its path below its branch; None for another file."""
    match = _MANIFEST.fullmatch(path) if path.startswith(VERSIONS_DIRECTORY) else None
    if match is None:
        return None
    number = int(match[1])
    return VERSION_MAX - number if len(match[1]) == VERSION_DIGITS else number


def referenced_branch(path: str) -> str | None:
    """Return the Lance branch that a reference file names; None for another file."""
    if not (path.startswith(_REFERENCES) and path.endswith(_REFERENCE_SUFFIX)):
        return None
    return path.removeprefix(_REFERENCES).removesuffix(_REFERENCE_SUFFIX)


def manifests_first(path: str) -> int:
    """Return a sort key that puts manifests first: a partially deleted version must not look complete."""
    return 0 if path.startswith(VERSIONS_DIRECTORY) else 1


def read_referenced_files(dataset: Dataset, deleted_versions: Iterable[int]) -> ReferencedFiles:
    """Read which files the versions of the handle's branch reference, without the deleted ones and with them.

    Versions that the caller does not list, such as new ones, count as retained.
    """
    versions = pa.array(sorted(deleted_versions), pa.int64())
    by_retained: set[str] = set()
    by_any: set[str] = set()
    with substrate_errors("read the referenced files", dataset.uri):
        # Lance yields one batch per version, which is too small to process alone.
        for batch in combine_batches(dataset.native.tracked_files(), limits.REACH_ROWS):
            by_any |= _paths(batch, dataset.location)
            is_deleted = pc.is_in(batch.column("version"), value_set=versions)
            by_retained |= _paths(batch.filter(pc.invert(is_deleted)), dataset.location)
    return ReferencedFiles(frozenset(by_retained), frozenset(by_any))


def path_below(base: str, root: Location) -> str:
    """Return the directory of a base below the dataset's root, with a slash at its end; empty for the root itself."""
    directory, top = _plain_path(base), _plain_path(root.uri)
    if directory == top:
        return ""
    if directory.startswith(f"{top}/"):
        return f"{directory.removeprefix(f'{top}/')}/"
    raise FormatError(
        f"versions of {root.uri} reference files outside of it: {base}",
        code="base_outside",
        hint="A copied or moved graph cannot be cleaned up. Export it and load the export into a new graph.",
        facts={"uri": root.uri, "base": base},
    )


def _paths(batch: pa.RecordBatch, root: Location) -> set[str]:
    """Return the distinct paths, below the root."""
    distinct: set[str] = set()
    bases: Any = batch.column("base_uri")
    names = bases.dictionary.to_pylist()
    for index, base in enumerate(names):
        rows = batch.filter(pc.equal(bases.indices, index)) if len(names) > 1 else batch
        paths = pc.unique(rows.column("path")).to_pylist()
        directory = path_below(str(base), root) if paths else ""
        distinct.update((f"{directory}{path}" for path in paths) if directory else map(str, paths))
    return distinct


def _plain_path(uri: str) -> str:
    return uri.removeprefix("file://").rstrip("/")
