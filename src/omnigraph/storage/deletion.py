"""The one place where files of datasets are deleted. What may go is decided elsewhere.

Each function can be repeated after a crash: what is gone already is no error, and manifests go before the files they
name, so that nothing half deleted looks whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import obstore
import pyarrow as pa
from lance.file import LanceFileSession
from lance.fragment import FragmentMetadata
from lance.lance import CleanupStats

from omnigraph.base.effects import announce
from omnigraph.base.errors import InvariantError, NotFoundError
from omnigraph.base.limits import DELETE_BATCH_FILES
from omnigraph.storage.dataset import Dataset, branch_location
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import ObjectStore, open_s3_store

PREVIEW_FILES_MAX: Final = 1_000_000
_MANIFESTS: Final = "_versions/"
_DATA_SUFFIX: Final = ".lance"
_BLOBS: Final = "lance.blob.v2"


@dataclass(frozen=True, slots=True)
class VersionsRemoved:
    """What went, or would go, with some old versions."""

    versions: int
    files: int
    size_bytes: int
    failures: int


@dataclass(frozen=True, slots=True)
class DoomedFile:
    """A file that would be deleted; the path is below the dataset."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class VersionsPreview:
    """What deleting some versions would remove, file by file, and the branches that hold others back."""

    removed: VersionsRemoved
    files: tuple[DoomedFile, ...]
    truncated: bool
    branches: tuple[str, ...]


def preview_versions(dataset: Dataset, versions: Sequence[int]) -> VersionsPreview:
    """What `delete_versions` would do now; changes nothing."""
    if not versions:
        return VersionsPreview(VersionsRemoved(0, 0, 0, 0), (), truncated=False, branches=())
    with substrate_errors("preview a cleanup", dataset.uri):
        found = dataset.native.explain_cleanup_old_versions(
            versions=list(versions),
            error_if_tagged_old_versions=False,
            include_files=True,
            max_files=PREVIEW_FILES_MAX,
        )
    files = (DoomedFile(_relative(file.path, dataset), file.size_bytes) for file in found.candidate_files)
    return VersionsPreview(
        removed=_removed(found.stats),
        files=tuple(sorted(files, key=lambda file: file.path)),
        truncated=found.candidate_files_truncated,
        branches=tuple(sorted(branch.name for branch in found.referenced_branches)),
    )


def delete_versions(dataset: Dataset, versions: Sequence[int]) -> VersionsRemoved:
    """Delete versions of the handle's branch and the files that only they reach.

    Lance keeps the newest version, tagged ones, and those that a branch was made from.
    """
    if not versions:
        return VersionsRemoved(0, 0, 0, 0)
    announce("dataset.delete_versions", dataset.uri)
    with substrate_errors("clean up old versions", dataset.uri):
        stats = dataset.native.cleanup_old_versions(
            versions=list(versions), error_if_tagged_old_versions=False
        )
    return _removed(stats)


def delete_branch(dataset: Dataset, name: str) -> bool:
    """Delete a Lance branch and its files; False when it is gone. Refused for one that has children or tags."""
    with substrate_errors("delete a Lance branch", dataset.uri):
        if name not in dataset.native.branches.list():
            return False
        announce("dataset.delete_branch", f"{dataset.uri}#{name}")
        dataset.native.branches.delete(name)
    return True


def delete_dataset(location: Location) -> int:
    """Delete everything below a dataset's root; how many files went."""
    paths = sorted(_list_files(location), key=lambda path: (_MANIFESTS not in path, path))
    delete_files(location, paths)
    ObjectStore(location).delete_below("")
    return len(paths)


def delete_files(location: Location, paths: Sequence[str]) -> None:
    """Delete the named files below a dataset's root, which no version may need, in this order."""
    for path in paths:
        if path.startswith("/") or ".." in path.split("/"):
            raise InvariantError(f"{path} is not below {location.uri}", code="path_outside")
    match location.scheme:
        case Scheme.LOCAL:
            with substrate_errors("delete files", location.uri):
                for path in paths:
                    announce("dataset.delete_file", f"{location.uri}/{path}")
                    with suppress(FileNotFoundError):
                        os.unlink(f"{location.uri}/{path}")  # noqa: PTH108  # there are many, and a Path costs more
        case Scheme.S3:
            for start in range(0, len(paths), DELETE_BATCH_FILES):
                _delete_objects(location, paths[start : start + DELETE_BATCH_FILES])
        case Scheme.MEMORY:
            session = LanceFileSession(location.lance_uri, storage_options=location.storage_options)
            for path in paths:
                _delete_file(session, location, path)


def delete_fragments(dataset: Dataset, fragments: Sequence[FragmentMetadata]) -> None:
    """Delete the data files of fragments that were staged for this dataset and never committed, with their blobs."""
    place = branch_location(dataset.location, dataset.branch)
    paths = [f"data/{file.path}" for fragment in fragments for file in fragment.files]
    delete_files(place, paths)
    if _has_blobs(dataset) and place.scheme is not Scheme.MEMORY:
        for path in paths:
            ObjectStore(place).delete_below(path.removesuffix(_DATA_SUFFIX))


def _has_blobs(dataset: Dataset) -> bool:
    """Whether large values may lie in a folder beside the data file of their row, which has its name."""
    types = (field.type for field in dataset.schema)
    return any(isinstance(kind, pa.BaseExtensionType) and kind.extension_name == _BLOBS for kind in types)


def _delete_objects(location: Location, paths: Sequence[str]) -> None:
    """In one request; the store takes them in any order."""
    for path in paths:
        announce("dataset.delete_file", f"{location.uri}/{path}")
    with substrate_errors("delete files", location.uri):
        obstore.delete(open_s3_store(location), list(paths))


def _delete_file(session: LanceFileSession, location: Location, path: str) -> None:
    announce("dataset.delete_file", f"{location.uri}/{path}")
    try:
        with substrate_errors("delete a file", f"{location.uri}/{path}"):
            session.delete_file(path)
    except NotFoundError as missing:
        if missing.code != "object_missing":
            raise


def _list_files(location: Location) -> list[str]:
    if location.scheme is not Scheme.MEMORY:
        return [entry.path for entry in ObjectStore(location).list("")]
    with substrate_errors("list files", location.uri):
        return list(LanceFileSession(location.lance_uri).list())


def _removed(stats: CleanupStats) -> VersionsRemoved:
    files = stats.data_files_removed + stats.transaction_files_removed
    files += stats.index_files_removed + stats.deletion_files_removed
    return VersionsRemoved(
        versions=stats.old_versions,
        files=stats.old_versions + files,
        size_bytes=stats.bytes_removed,
        failures=stats.failed_deletes,
    )


def _relative(path: str, dataset: Dataset) -> str:
    root = dataset.location.uri.split("://", 1)[-1].strip("/")
    key = root if dataset.location.is_local else root.split("/", 1)[-1]
    return path.strip("/").removeprefix(f"{root}/").removeprefix(f"{key}/")
