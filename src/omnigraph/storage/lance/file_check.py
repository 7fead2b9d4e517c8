"""Checks, from one listing, that the files that versions of a dataset reference exist with their recorded sizes.

In: a dataset's location and some of its versions. Out: one `FileProblem` per missing, truncated or damaged file.
Lance records the size of data files and the total size of each index segment, but not the size of deletion files, which
are therefore read completely, without Lance. `deep` also opens the footer of each data file and index file; if all
files are valid, it reads the descriptors of blobs and compares the blob files with them. Nothing here writes. A damaged
file is a result, not an exception.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from lance.blob import BlobType
from lance.file import LanceFileSession

from omnigraph.base import limits
from omnigraph.base.errors import FormatError, NotFoundError, OmnigraphError, RefusedError
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.files import list_tree
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.deletion_file import count_deleted_rows
from omnigraph.storage.lance.durability import version_file
from omnigraph.storage.lance.references import base_directories
from omnigraph.storage.local_tree import LINK_CODE
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import ObjectStore

VersionKey = tuple[str | None, int | None]
"""A Lance branch (None: Lance's main) and a version (None: the newest)."""

_STORED_BLOBS: Final = (1, 2)
"""The kinds of blob descriptors that reference a blob file: one for several blobs, and one for a single blob."""


class FileKind(StrEnum):
    """The kinds of files of a dataset."""

    VERSION = "version file"
    DATA = "data file"
    DELETIONS = "deletion file"
    INDEX = "index"
    BLOBS = "blob file"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProblem:
    """A file that a version needs and that differs from what is recorded. `path` is below the dataset's root.

    For an index, `path` is the directory of its segment if the damaged file is unknown.
    """

    path: str
    kind: FileKind
    problem: str
    expected_bytes: int | None = None
    actual_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CheckedDataset:
    """The problems of each version, and the symbolic links at or below the dataset's root ("" is the root)."""

    problems: Mapping[VersionKey, tuple[FileProblem, ...]]
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reference:
    """A file, or the directory of an index segment, that a version needs. `rows`: how many rows it must contain."""

    path: str
    kind: FileKind
    size_bytes: int | None
    rows: int | None = None
    rows_max: int = 0

    def problem(self, text: str, actual_bytes: int | None = None) -> FileProblem:
        """Return a problem of the file."""
        return FileProblem(
            path=self.path, kind=self.kind, problem=text, expected_bytes=self.size_bytes, actual_bytes=actual_bytes
        )


@dataclass(frozen=True, slots=True)
class _OpenedVersion:
    """A version, and the files that it needs."""

    dataset: Dataset
    references: tuple[_Reference, ...]


def check_files(location: Location, versions: Sequence[VersionKey], *, deep: bool) -> CheckedDataset:
    """Check the files of some versions of a dataset on disk or in S3, with one listing for all of them."""
    if location.scheme is Scheme.MEMORY:
        return CheckedDataset({})
    # Open the versions before the listing: a file that a version references is written before the version is.
    opened = {key: _open_version(location, key) for key in versions}
    sizes, links = _list_sizes(location)
    check = _DatasetCheck(location, sizes, _index_files(sizes), deep)
    problems = {key: check.check_version(key, version) for key, version in opened.items()}
    return CheckedDataset({key: of_version for key, of_version in problems.items() if of_version}, links)


def _open_version(location: Location, key: VersionKey) -> _OpenedVersion | OmnigraphError:
    try:
        dataset = open_dataset(location, branch=key[0], version=key[1])
        return _OpenedVersion(dataset, tuple(_references(dataset)))
    except (FormatError, NotFoundError) as error:
        return error


def _references(dataset: Dataset) -> Iterator[_Reference]:
    with translate_errors("read the fragments", dataset.uri):
        directory_of = base_directories(dataset)
        for fragment in dataset.native.get_fragments():
            metadata = fragment.metadata
            rows = metadata.physical_rows
            for file in metadata.files:
                path = f"{directory_of(file.base_id)}data/{file.path}"
                yield _Reference(path=path, kind=FileKind.DATA, size_bytes=file.file_size_bytes, rows=rows)
            deletions = metadata.deletion_file
            if deletions is not None:
                path = f"{directory_of(deletions.base_id)}{deletions.path(metadata.id)}"
                yield _Reference(
                    path=path, kind=FileKind.DELETIONS, size_bytes=None, rows=deletions.num_deleted_rows, rows_max=rows
                )
    with translate_errors("read the indexes", dataset.uri):
        for index in dataset.native.describe_indices():
            for segment in index.segments:
                path = f"{directory_of(segment.base_id)}_indices/{segment.uuid}"
                yield _Reference(path=path, kind=FileKind.INDEX, size_bytes=segment.size_bytes)


def _blob_columns(dataset: Dataset) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield the path of each data file with blob columns, its fragment, and the names of these columns."""
    names = {field.name for field in dataset.schema if isinstance(field.type, BlobType)}
    ids = {field.id(): field.name() for field in dataset.native.lance_schema.fields() if field.name() in names}
    directory_of = base_directories(dataset)
    for fragment in dataset.native.get_fragments() if ids else ():
        for file in fragment.metadata.files:
            if columns := [ids[number] for number in file.fields if number in ids]:
                yield f"{directory_of(file.base_id)}data/{file.path}", fragment, columns


def _blob_references(dataset: Dataset, path: str, fragment: Any, columns: Sequence[str]) -> Iterator[_Reference]:
    """Yield the blob files that live rows of a data file need, each with its minimum size."""
    sizes: dict[int, int] = {}
    for column in columns:
        scanner = dataset.native.scanner([column], fragments=[fragment], blob_handling="all_descriptions")
        for batch in scanner.to_batches():
            descriptors: Any = batch.column(0).drop_null()
            blobs = pa.Table.from_struct_array(descriptors)
            stored = blobs.filter(pc.is_in(blobs["kind"], pa.array(_STORED_BLOBS, pa.uint8())))
            ends = pc.add(stored["position"], stored["size"])
            grouped = pa.table({"blob": stored["blob_id"], "end": ends}).group_by("blob")
            for row in grouped.aggregate([("end", "max")]).to_pylist():
                sizes[row["blob"]] = max(row["end_max"], sizes.get(row["blob"], 0))
    for blob, size in sizes.items():
        # Lance names the file by the bits of its number, lowest bit first.
        name = f"{path.removesuffix('.lance')}/{f'{blob:032b}'[::-1]}.blob"
        yield _Reference(path=name, kind=FileKind.BLOBS, size_bytes=size)


def _list_sizes(location: Location) -> tuple[Mapping[str, int], tuple[str, ...]]:
    """Return the size of every file by its path, also of files behind links, which readers follow; and the links."""
    try:
        listing = list_tree(location)
    except RefusedError as error:
        if error.code != LINK_CODE:
            raise
        return _list_sizes(_link_target(location, ""))[0], ("",)
    sizes = {file.path: file.size_bytes for file in listing.files}
    for link in listing.links:
        target = _link_target(location, link)
        if Path(target.uri).is_dir():
            sizes.update((f"{link}/{file.path}", file.size_bytes) for file in list_tree(target).files)
        elif Path(target.uri).exists():
            sizes[link] = Path(target.uri).stat().st_size
    return sizes, listing.links


def _index_files(sizes: Mapping[str, int]) -> Mapping[str, Sequence[str]]:
    """Return the paths of index files by the directory of their segment, ordered."""
    paths_by_directory: dict[str, list[str]] = {}
    for path in sorted(sizes):
        if "_indices/" in path:
            paths_by_directory.setdefault(path.rpartition("/")[0], []).append(path)
    return paths_by_directory


def _link_target(location: Location, link: str) -> Location:
    return replace(location, uri=os.path.realpath(f"{location.uri}/{link}"), root="")


@dataclass(frozen=True, slots=True)
class _DatasetCheck:
    """One check of a dataset."""

    location: Location
    sizes: Mapping[str, int]
    index_files: Mapping[str, Sequence[str]]
    deep: bool

    def check_version(self, key: VersionKey, version: _OpenedVersion | OmnigraphError) -> tuple[FileProblem, ...]:
        if isinstance(version, OmnigraphError):
            return (self._version_problem(key, version),)
        with ThreadPoolExecutor(limits.FILE_CHECK_THREADS) as threads:
            checked = threads.map(self._check_file, version.references)
            problems = tuple(chain.from_iterable(checked))
        # Rows are read only if their files are valid: Lance ends the process for some damaged deletion files.
        return problems if problems or not self.deep else self._check_blobs(version.dataset)

    def _check_blobs(self, dataset: Dataset) -> tuple[FileProblem, ...]:
        needed: list[_Reference] = []
        problems: list[FileProblem] = []
        for path, fragment, columns in _blob_columns(dataset):
            references = _blob_references(dataset, path, fragment, columns)
            problems += self._read_problems(
                path, _Reference(path=path, kind=FileKind.DATA, size_bytes=None), partial(needed.extend, references)
            )
        for reference in needed:
            actual = self.sizes.get(reference.path)
            if actual is None:
                problems.append(reference.problem("is missing"))
            elif reference.size_bytes is not None and actual < reference.size_bytes:
                problems.append(reference.problem("has the wrong size", actual))
        return tuple(problems)

    def _version_problem(self, key: VersionKey, error: OmnigraphError) -> FileProblem:
        """Return the problem of a version that cannot be opened: its version file is missing or damaged."""
        branch, version = key
        base = "" if branch is None else f"tree/{branch}/"
        directory = f"{base}_versions/"
        version_files = (path for path in self.sizes if path.startswith(directory) and path.endswith(".manifest"))
        path = min(version_files, default=directory)
        if version is not None:
            path = f"{base}{version_file(version)}"
        if path not in self.sizes:
            return FileProblem(path=path, kind=FileKind.VERSION, problem="is missing")
        return FileProblem(path=path, kind=FileKind.VERSION, problem=_damage_text(error), actual_bytes=self.sizes[path])

    def _check_file(self, reference: _Reference) -> tuple[FileProblem, ...]:
        if reference.kind is FileKind.INDEX:
            return self._check_index(reference)
        actual = self.sizes.get(reference.path)
        if actual is None:
            return (reference.problem("is missing"),)
        if reference.size_bytes is not None and actual != reference.size_bytes:
            return (reference.problem("has the wrong size", actual),)
        if reference.kind is FileKind.DELETIONS:
            return self._read_problems(reference.path, reference, partial(self._read_deletions, reference))
        if self.deep:
            return self._read_problems(reference.path, reference, partial(self._read_rows, reference))
        return ()

    def _check_index(self, reference: _Reference) -> tuple[FileProblem, ...]:
        files = self.index_files.get(reference.path, ())
        if not files:
            return (reference.problem("is missing"),)
        damaged: list[FileProblem] = []
        for path in files if self.deep else ():
            damaged += self._read_problems(path, reference, partial(self._open_file, path))
        if damaged:
            return tuple(damaged)
        actual = sum(self.sizes[path] for path in files)
        # Additional bytes can be a file that a killed process left.
        if reference.size_bytes is not None and actual < reference.size_bytes:
            return (reference.problem("has the wrong size", actual),)
        return ()

    def _read_problems(self, path: str, reference: _Reference, read: Callable[[], object]) -> tuple[FileProblem, ...]:
        """Read a file and return the problem that this shows, if any. Raise an error of the store."""
        try:
            with translate_errors("read the file", f"{self.location.uri}/{path}"):
                read()
        except (FormatError, NotFoundError) as error:
            return (
                FileProblem(
                    path=path, kind=reference.kind, problem=_damage_text(error), actual_bytes=self.sizes.get(path)
                ),
            )
        return ()

    def _open_file(self, path: str) -> Any:
        session = LanceFileSession(self.location.lance_uri, storage_options=self.location.storage_options)
        return session.open_reader(path)

    def _read_rows(self, reference: _Reference) -> None:
        rows = self._open_file(reference.path).num_rows()
        if reference.rows not in (None, rows):
            raise ValueError(f"expected {reference.rows:,} rows, got {rows:,}")

    def _read_deletions(self, reference: _Reference) -> None:
        data = ObjectStore(self.location).read(reference.path) or b""
        count = count_deleted_rows(reference.path, data, reference.rows_max)
        if reference.rows not in (None, count):
            raise ValueError(f"expected {reference.rows:,} deleted rows, got {count:,}")


def _damage_text(error: OmnigraphError) -> str:
    return f"is damaged ({error.facts.get('cause') or error.message})"
