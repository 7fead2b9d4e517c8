"""Deletes files of datasets. No other module does; `maintenance` decides which files to delete.

In: a dataset and paths or Lance branches. Out: nothing. Each function can be repeated after a crash: files that no
longer exist are skipped. A caller that deletes versions deletes their manifests first, in a separate call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import obstore
import pyarrow as pa
from lance.file import LanceFileSession
from lance.fragment import FragmentMetadata

from omnigraph.base import limits
from omnigraph.base.errors import InvariantError, NotFoundError
from omnigraph.base.failpoints import announce
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import delete_empty_references
from omnigraph.storage.local_tree import require_no_link, unlink_files
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import ObjectStore, open_s3_store

_DATA_SUFFIX: Final = ".lance"
_BLOBS: Final = "lance.blob.v2"
_DATA_NAME: Final = re.compile(r"[0-9A-Za-z_-]+\.lance")


def delete_branch(dataset: Dataset, name: str) -> bool:
    """Delete a Lance branch and its files; return False if it does not exist. Raise if it has children or tags."""
    delete_empty_references(dataset.location)
    with translate_errors("delete a Lance branch", dataset.uri):
        if dataset.location.is_local:
            require_no_link(dataset.location, f"tree/{name}")
        if name not in dataset.native.branches.list():
            return False
        announce("dataset.delete_branch", f"{dataset.uri}#{name}")
        dataset.native.branches.delete(name)
    return True


def delete_files(location: Location, paths: Sequence[str]) -> None:
    """Delete files below a dataset's root, in no order. No version may reference them."""
    for path in paths:
        if path.startswith("/") or ".." in path.split("/"):
            raise InvariantError(f"{path} is not below {location.uri}", code="path_outside")
    match location.scheme:
        case Scheme.LOCAL:
            _unlink_files(location, paths)
        case Scheme.S3:
            for start in range(0, len(paths), limits.DELETE_BATCH_FILES):
                _delete_objects(location, paths[start : start + limits.DELETE_BATCH_FILES])
        case Scheme.MEMORY:
            session = LanceFileSession(location.lance_uri, storage_options=location.storage_options)
            for path in paths:
                _delete_file(session, location, path)


def delete_fragments(dataset: Dataset, fragments: Sequence[FragmentMetadata]) -> None:
    """Delete the data files of fragments that were staged for this dataset but not committed, with their blobs."""
    delete_data_files(dataset, file_names(fragments))


def file_names(fragments: Sequence[FragmentMetadata]) -> list[str]:
    """Return the names of the data files of fragments."""
    return [str(file.path) for fragment in fragments for file in fragment.files]


def delete_data_files(dataset: Dataset, names: Sequence[str]) -> None:
    """Delete staged data files of this dataset by their names, with their blobs; raise for a name that is a path."""
    for name in names:
        if not _DATA_NAME.fullmatch(name):
            raise InvariantError(f"'{name}' is not the name of a data file", code="path_outside")
    paths = [f"data/{name}" for name in names]
    delete_files(dataset.directory, paths)
    if _has_blobs(dataset) and dataset.location.scheme is not Scheme.MEMORY:
        for path in paths:
            ObjectStore(dataset.directory).delete_below(path.removesuffix(_DATA_SUFFIX))


def _has_blobs(dataset: Dataset) -> bool:
    """Return whether large values may be stored in a directory next to their data file, with its name."""
    types = (field.type for field in dataset.schema)
    return any(isinstance(kind, pa.BaseExtensionType) and kind.extension_name == _BLOBS for kind in types)


def _unlink_files(location: Location, paths: Sequence[str]) -> None:
    """Delete with several threads, because a busy disk is slow to answer; in any order."""
    with translate_errors("delete files", location.uri), ThreadPoolExecutor(limits.DELETE_THREADS) as threads:
        tasks = []
        for start in range(0, len(paths), limits.DELETE_CHUNK_FILES):
            chunk = paths[start : start + limits.DELETE_CHUNK_FILES]
            for path in chunk:
                announce("dataset.delete_file", f"{location.uri}/{path}")
            tasks.append(threads.submit(unlink_files, location, chunk))
        for task in tasks:
            task.result()


def _delete_objects(location: Location, paths: Sequence[str]) -> None:
    """Delete objects with one request, in any order."""
    for path in paths:
        announce("dataset.delete_file", f"{location.uri}/{path}")
    with translate_errors("delete files", location.uri):
        obstore.delete(open_s3_store(location), list(paths))


def _delete_file(session: LanceFileSession, location: Location, path: str) -> None:
    announce("dataset.delete_file", f"{location.uri}/{path}")
    try:
        with translate_errors("delete a file", f"{location.uri}/{path}"):
            session.delete_file(path)
    except NotFoundError as missing:
        if missing.code != "object_missing":
            raise
