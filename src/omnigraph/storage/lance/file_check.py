"""Checks the files that versions of a dataset reference, from one listing: do they exist, with the recorded size?

In: a dataset's location and some of its versions. Out: one `FileProblem` per file that is missing, cut off or damaged.
Lance records the size of data files and the total size of each index segment. It records no size of deletion files, so
those are read as a whole, without Lance. `deep` opens the footer of each data file and index file as well. If all files
are in order, it reads the descriptors of blobs, and compares the blob files next to the data files with them. Nothing
here writes, and a damaged file is never an exception.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from lance.blob import BlobType
from lance.file import LanceFileSession

from omnigraph.base import limits
from omnigraph.base.errors import FormatError, NotFoundError, OmnigraphError, RefusedError
from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.files import list_tree
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.deletion_file import count_deleted_rows
from omnigraph.storage.lance.layout import folder_below
from omnigraph.storage.local_tree import LINK_CODE
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import ObjectStore

VersionKey = tuple[str | None, int | None]
"""A Lance branch (None: Lance's main) and a version (None: the newest)."""

_VERSION_MAX: Final = 2**64 - 1
_STORED_BLOBS: Final = (1, 2)
"""The kinds of blob descriptors that name a blob file: one for several blobs, and one for a single blob."""


class FileKind(StrEnum):
    """What a file is to a dataset."""

    VERSION = "version file"
    DATA = "data file"
    DELETIONS = "deletion file"
    INDEX = "index"
    BLOBS = "blob file"


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A file that a version needs and that is not as recorded. `path` is below the dataset's root.

    The path of an index is the directory of its segment, unless the file is known.
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


@dataclass(frozen=True, slots=True)
class _Reference:
    """A file, or the directory of an index segment, that a version needs. `rows`: those that its content must have."""

    path: str
    kind: FileKind
    size_bytes: int | None
    rows: int | None = None
    rows_max: int = 0


@dataclass(frozen=True, slots=True)
class _Opened:
    """A version, and what it needs."""

    dataset: Dataset
    references: tuple[_Reference, ...]


def check_files(location: Location, versions: Sequence[VersionKey], *, deep: bool) -> CheckedDataset:
    """Check the files of some versions of a dataset on disk or in S3, with one listing for all of them."""
    if location.scheme is Scheme.MEMORY:
        return CheckedDataset({})
    # Opened before the listing: a file that a version references is written before the version is.
    opened = {key: _open(location, key) for key in versions}
    sizes, links = _list_sizes(location)
    run = _DatasetCheck(location, sizes, _by_folder(sizes), deep)
    problems = {key: run.check(key, found) for key, found in opened.items()}
    return CheckedDataset({key: found for key, found in problems.items() if found}, links)


def _open(location: Location, key: VersionKey) -> _Opened | OmnigraphError:
    try:
        dataset = open_dataset(location, branch=key[0], version=key[1])
        return _Opened(dataset, tuple(_references(dataset)))
    except (FormatError, NotFoundError) as error:
        return error


def _references(dataset: Dataset) -> Iterator[_Reference]:
    with substrate_errors("read the fragments", dataset.uri):
        folder = _folders(dataset)
        for fragment in dataset.native.get_fragments():
            metadata = fragment.metadata
            rows = metadata.physical_rows
            for file in metadata.files:
                path = f"{folder(file.base_id)}data/{file.path}"
                yield _Reference(path, FileKind.DATA, file.file_size_bytes, rows)
            deletions = metadata.deletion_file
            if deletions is not None:
                path = f"{folder(deletions.base_id)}{deletions.path(metadata.id)}"
                yield _Reference(path, FileKind.DELETIONS, None, deletions.num_deleted_rows, rows)
    with substrate_errors("read the indexes", dataset.uri):
        for index in dataset.native.describe_indices():
            for segment in index.segments:
                path = f"{folder(segment.base_id)}_indices/{segment.uuid}"
                yield _Reference(path, FileKind.INDEX, segment.size_bytes)


def _folders(dataset: Dataset) -> Callable[[int | None], str]:
    """Where the files of a base are, below the dataset's root."""
    bases = {number: base.path for number, base in dataset.native.base_paths().items()}
    own = "" if dataset.branch is None else f"tree/{dataset.branch}/"
    return lambda base: own if base is None else folder_below(bases[base], dataset.location)


def _blob_columns(dataset: Dataset) -> Iterator[tuple[str, Any, list[str]]]:
    """The path of each data file that has columns of blobs, its fragment, and the names of these columns."""
    names = {field.name for field in dataset.schema if isinstance(field.type, BlobType)}
    ids = {
        field.id(): field.name() for field in dataset.native.lance_schema.fields() if field.name() in names
    }
    folder = _folders(dataset)
    for fragment in dataset.native.get_fragments() if ids else ():
        for file in fragment.metadata.files:
            if columns := [ids[number] for number in file.fields if number in ids]:
                yield f"{folder(file.base_id)}data/{file.path}", fragment, columns


def _blob_references(
    dataset: Dataset, path: str, fragment: Any, columns: Sequence[str]
) -> Iterator[_Reference]:
    """The blob files that live rows of a data file need, each with the number of bytes that it has at least."""
    sizes: dict[int, int] = {}
    for column in columns:
        scanner = dataset.native.scanner([column], fragments=[fragment], blob_handling="all_descriptions")
        for batch in scanner.to_batches():
            described: Any = batch.column(0).drop_null()
            found = pa.Table.from_struct_array(described)
            stored = found.filter(pc.is_in(found["kind"], pa.array(_STORED_BLOBS, pa.uint8())))
            ends = pc.add(stored["position"], stored["size"])
            grouped = pa.table({"blob": stored["blob_id"], "end": ends}).group_by("blob")
            for row in grouped.aggregate([("end", "max")]).to_pylist():
                sizes[row["blob"]] = max(row["end_max"], sizes.get(row["blob"], 0))
    for blob, size in sizes.items():
        # Lance names the file after the bits of its number, the lowest first.
        name = f"{path.removesuffix('.lance')}/{f'{blob:032b}'[::-1]}.blob"
        yield _Reference(name, FileKind.BLOBS, size)


def _list_sizes(location: Location) -> tuple[Mapping[str, int], tuple[str, ...]]:
    """The size of every file by its path, also of those behind links, since readers follow them."""
    try:
        listing = list_tree(location)
    except RefusedError as refused:
        if refused.code != LINK_CODE:
            raise
        return _list_sizes(_behind(location, ""))[0], ("",)
    sizes = {file.path: file.size_bytes for file in listing.files}
    for link in listing.links:
        target = _behind(location, link)
        if Path(target.uri).is_dir():
            sizes.update((f"{link}/{file.path}", file.size_bytes) for file in list_tree(target).files)
        elif Path(target.uri).exists():
            sizes[link] = Path(target.uri).stat().st_size
    return sizes, listing.links


def _by_folder(sizes: Mapping[str, int]) -> Mapping[str, Sequence[str]]:
    """The paths of index files by the directory of their segment, ordered."""
    found: dict[str, list[str]] = {}
    for path in sorted(sizes):
        if "_indices/" in path:
            found.setdefault(path.rpartition("/")[0], []).append(path)
    return found


def _behind(location: Location, link: str) -> Location:
    return replace(location, uri=os.path.realpath(f"{location.uri}/{link}"), root="")


@dataclass(slots=True)
class _DatasetCheck:
    """One check of a dataset."""

    location: Location
    sizes: Mapping[str, int]
    index_files: Mapping[str, Sequence[str]]
    deep: bool

    def check(self, key: VersionKey, found: _Opened | OmnigraphError) -> tuple[FileProblem, ...]:
        if isinstance(found, OmnigraphError):
            return (self._unopened(key, found),)
        with ThreadPoolExecutor(limits.FILE_CHECK_THREADS) as threads:
            checked = threads.map(self._check, found.references)
            problems = tuple(problem for some in checked for problem in some)
        # Rows are read only if their files are in order: Lance ends the process for some damaged deletion files.
        return problems if problems or not self.deep else self._check_blobs(found.dataset)

    def _check_blobs(self, dataset: Dataset) -> tuple[FileProblem, ...]:
        needed: list[_Reference] = []
        problems: list[FileProblem] = []
        for path, fragment, columns in _blob_columns(dataset):
            read = _blob_references(dataset, path, fragment, columns)
            problems += self._damage(
                path, _Reference(path, FileKind.DATA, None), partial(needed.extend, read)
            )
        for one in needed:
            actual = self.sizes.get(one.path)
            if actual is None:
                problems.append(_missing(one))
            elif one.size_bytes is not None and actual < one.size_bytes:
                problems.append(_wrong_size(one, actual))
        return tuple(problems)

    def _unopened(self, key: VersionKey, error: OmnigraphError) -> FileProblem:
        """The version cannot be opened: its version file is missing or damaged, as far as can be told."""
        branch, version = key
        folder = f"{'' if branch is None else f'tree/{branch}/'}_versions/"
        newest = min((path for path in self.sizes if _is_version(path, folder)), default=None)
        path = f"{folder}{_VERSION_MAX - version:020d}.manifest" if version is not None else newest or folder
        if path not in self.sizes:
            return FileProblem(path, FileKind.VERSION, "is missing")
        cause = str(error.facts.get("cause") or error.message)
        return FileProblem(path, FileKind.VERSION, f"is damaged ({cause})", None, self.sizes[path])

    def _check(self, reference: _Reference) -> tuple[FileProblem, ...]:
        if reference.kind is FileKind.INDEX:
            return self._check_index(reference)
        actual = self.sizes.get(reference.path)
        if actual is None:
            return (_missing(reference),)
        if reference.size_bytes is not None and actual != reference.size_bytes:
            return (_wrong_size(reference, actual),)
        if reference.kind is FileKind.DELETIONS:
            return self._damage(reference.path, reference, partial(self._read_deletions, reference))
        if self.deep:
            return self._damage(reference.path, reference, partial(self._read_rows, reference))
        return ()

    def _check_index(self, reference: _Reference) -> tuple[FileProblem, ...]:
        files = self.index_files.get(reference.path, ())
        if not files:
            return (_missing(reference),)
        damaged: list[FileProblem] = []
        for path in files if self.deep else ():
            damaged += self._damage(path, reference, partial(self._open_file, path))
        if damaged:
            return tuple(damaged)
        actual = sum(self.sizes[path] for path in files)
        # More bytes than recorded can be a file that a killed process left.
        if reference.size_bytes is not None and actual < reference.size_bytes:
            return (_wrong_size(reference, actual),)
        return ()

    def _damage(
        self, path: str, reference: _Reference, read: Callable[[], object]
    ) -> tuple[FileProblem, ...]:
        """The problem that reading a file shows, if any. An error of the store is raised."""
        try:
            with substrate_errors("read the file", f"{self.location.uri}/{path}"):
                read()
        except (FormatError, NotFoundError) as error:
            cause = str(error.facts.get("cause") or error.message)
            return (FileProblem(path, reference.kind, f"is damaged ({cause})", None, self.sizes.get(path)),)
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


def _is_version(path: str, folder: str) -> bool:
    return path.startswith(folder) and path.endswith(".manifest")


def _missing(reference: _Reference) -> FileProblem:
    return FileProblem(reference.path, reference.kind, "is missing", reference.size_bytes)


def _wrong_size(reference: _Reference, actual: int) -> FileProblem:
    return FileProblem(reference.path, reference.kind, "has the wrong size", reference.size_bytes, actual)
