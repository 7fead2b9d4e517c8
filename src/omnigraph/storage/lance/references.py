"""Reads which files the versions of a dataset reference.

In: a dataset and some of its versions, or files of a listing. Out: the paths of files below the dataset's root.
With `read_referenced_files`, Lance reads every version from a given one on. Each version names all of its files, so the
cost grows with the square of the history. `find_committed_files` is cheaper: to show that a listed file was committed,
it searches the bytes of a few version files for its name. Nothing here writes or deletes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.base.errors import FormatError
from omnigraph.base.hints import action, hint
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.files import StoredFile
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import version_file
from omnigraph.storage.lance.protobuf import number_field
from omnigraph.storage.lance.read import combine_batches
from omnigraph.storage.location import Location

_FIELD_DELETION_READ_VERSION: Final = 2
_FIELD_DELETION_ID: Final = 3


@dataclass(frozen=True, slots=True)
class ReferencedFiles:
    """The files that versions of a Lance branch reference, with manifests: retained versions, and any version."""

    by_retained: frozenset[str]
    by_any: frozenset[str]

    @classmethod
    def union(cls, parts: Iterable[ReferencedFiles]) -> ReferencedFiles:
        """Return what at least one of the parts has."""
        by_retained: set[str] = set()
        by_any: set[str] = set()
        for part in parts:
            by_retained |= part.by_retained
            by_any |= part.by_any
        return cls(frozenset(by_retained), frozenset(by_any))


def read_referenced_files(
    dataset: Dataset, deleted_versions: Iterable[int], version_min: int | None = None
) -> ReferencedFiles:
    """Read which files the versions of the handle's branch reference, without the deleted ones and with them.

    Versions below `version_min` are not read. Versions that the caller does not list, such as new ones, count as
    retained.
    """
    versions = pa.array(sorted(deleted_versions), pa.int64())
    by_retained: set[str] = set()
    by_any: set[str] = set()
    with translate_errors("read the referenced files", dataset.uri):
        # Lance yields one batch per version, which is too small to process alone.
        for batch in combine_batches(
            dataset.native.tracked_files(min_version=version_min), limits.REFERENCED_FILES_BATCH_ROWS
        ):
            by_any |= _paths(batch, dataset.location)
            is_deleted = pc.is_in(batch.column("version"), value_set=versions)
            by_retained |= _paths(batch.filter(pc.invert(is_deleted)), dataset.location)
    return ReferencedFiles(frozenset(by_retained), frozenset(by_any))


def base_directories(dataset: Dataset) -> Callable[[int | None], str]:
    """Return a function from a base to the directory of its files below the dataset's root."""
    bases = {number: base.path for number, base in dataset.native.base_paths().items()}
    own = "" if dataset.branch is None else f"tree/{dataset.branch}/"
    return lambda base: own if base is None else path_below(bases[base], dataset.location)


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
        hint=hint("If the graph was copied or moved, run {} to use it here.", action("doctor", fix_location=True)),
        facts={"uri": root.uri, "base": base},
    )


def find_committed_files(
    directory: Location, version_times: Mapping[int, int], files: Sequence[StoredFile]
) -> frozenset[str]:
    """Return the paths of files that one of these versions, or the transaction that created it, names.

    So they were committed. The versions and files are those of one Lance branch on a local disk, with paths below
    `directory`. Only versions that probably name a file are searched, so the result may lack files. It has no file that
    was never committed: names and numbers of files are random.
    """
    if not (directory.is_local and version_times):
        return frozenset()
    by_time = sorted((time_us, version) for version, time_us in version_times.items())
    newest = max(version_times)
    searches: dict[int, list[_Search]] = {}
    for file in files:
        with suppress(ValueError):  # an external tool named the file
            added_in, searched_bytes = _searched_bytes(file.path)
            # Most files are committed soon after they were written, those of a compaction in the second version.
            position = bisect_left(by_time, (file.modified_us, 0))
            soon_after = [version for _, version in by_time[position : position + 2]]
            versions = [newest, *reversed(soon_after), *([] if added_in is None else [added_in])]
            searches.setdefault(versions.pop(), []).append(_Search(file.path, searched_bytes, versions))
    mentioned: set[str] = set()
    while searches:
        version, version_searches = searches.popitem()
        data = _read_version(directory, version) if version in version_times else b""
        for search in version_searches:
            if search.searched_bytes in data:
                mentioned.add(search.path)
            elif search.versions:
                searches.setdefault(search.versions.pop(), []).append(search)
    return frozenset(mentioned)


_DATA_NAME_LENGTH_MIN: Final = 32
"""Lance's names of data files are random and longer. A shorter name could be a part of anything."""


@dataclass(frozen=True, slots=True)
class _Search:
    """A file, what a version that names it contains, and the versions to search, the last one first."""

    path: str
    searched_bytes: bytes
    versions: list[int]


def _searched_bytes(path: str) -> tuple[int | None, bytes]:
    """Return the version that added a file, if its path shows it, and bytes that a version with the file contains."""
    kind, _, rest = path.partition("/")
    name = rest.partition("/")[0]
    match kind:
        case "_transactions":
            return int(name.partition("-")[0]) + 1, name.encode()
        case "_deletions":
            _, read_version, number = (int(text) for text in name.partition(".")[0].split("-"))
            fields = ((_FIELD_DELETION_READ_VERSION, read_version), (_FIELD_DELETION_ID, number))
            return read_version + 1, b"".join(number_field(*field) for field in fields)
        case "_indices":
            return None, UUID(name).bytes
        case "data" if len(name) >= _DATA_NAME_LENGTH_MIN:
            return None, name.partition(".")[0].encode()
        case _:
            raise ValueError(path)


def _read_version(directory: Location, version: int) -> bytes:
    """Read a version file; nothing if it was deleted, or if an old release of Lance named it."""
    path = f"{directory.uri}/{version_file(version)}"
    with translate_errors("read a version", path):
        try:
            # A `Path` takes as long to create as the file takes to read.
            with open(path, "rb") as file:  # noqa: PTH123
                return file.read()
        except FileNotFoundError:
            return b""


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
