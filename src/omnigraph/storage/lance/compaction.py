"""Rewrites fragments into larger ones, and builds the indexes of the result before it is committed.

In: a dataset and the ids of fragments. Out: a `FragmentRewrite`, whose new fragments no version references; the staged
transaction that replaces the old ones; a clone that looks like the dataset after it, in which indexes are built, and
their segments moved into the dataset. No head of the dataset moves here. A crash leaves unreferenced files and the
clone.
"""

from __future__ import annotations

import json
import posixpath
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import lance
import numpy as np
import numpy.typing as npt
import obstore
import pyarrow as pa
from lance.file import LanceFileSession
from lance.fragment import DeletionFile, FragmentMetadata, RowIdSequence
from lance.optimize import CompactionTask

from omnigraph.base.errors import InvariantError
from omnigraph.base.failpoints import announce
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.dataset import DATA_STORAGE_VERSION, IDENTITY, Dataset
from omnigraph.storage.lance.durability import StagedFile, fragment_files, make_durable
from omnigraph.storage.lance.indexes import StagedSegment, stage_segment_drop
from omnigraph.storage.lance.stage import StagedTransaction
from omnigraph.storage.location import Location, Scheme
from omnigraph.storage.objects import ObjectStore, open_backend, open_s3_store
from omnigraph.storage.sync import sync_entries

Positions = npt.NDArray[np.uint32]
"""Positions of rows in one fragment, ascending."""

LANCE_SUPPORTS_BLOB_COMPACTION: Final = True
"""Whether the installed Lance compacts tables with blobs without loss; a test fails when that changes."""

_TASK_OPTIONS: Final[Mapping[str, object]] = {
    "max_rows_per_group": 1024,
    "max_bytes_per_file": None,
    "materialize_deletions": True,
    "materialize_deletions_threshold": 0.0,
    "num_threads": None,
    "batch_size": None,
    "io_buffer_size": None,
    "defer_index_remap": False,
    "index_remap_mode": "Direct",
    "compaction_mode": None,
    "enable_binary_copy": False,
    "enable_binary_copy_force": False,
    "binary_copy_read_batch_bytes": 16 * 1024 * 1024,
    "max_source_fragments": None,
    "max_source_rows": None,
    "max_source_bytes": None,
    "excluded_fragment_ids": [],
    "max_overlays_per_fragment": 10,
    "data_storage_version": DATA_STORAGE_VERSION,
    "has_eager_remappable_index": False,
}
_INDICES: Final = "_indices"


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentRewrite:
    """Some fragments and their replacements, as Lance describes them. No version references the new ones yet.

    `sources` are the fragments as they were read, at `read_version`, in the order of their rows; `written` has their
    live rows in that order. Changes by other writers since: `emptied` are sources that no longer exist because all
    their rows were deleted or moved; `deleted` has, by the id of a written fragment, the positions of the rows that no
    source has any longer.
    """

    sources: tuple[FragmentMetadata, ...]
    written: tuple[FragmentMetadata, ...]
    read_version: int
    emptied: frozenset[int] = frozenset()
    deleted: Mapping[int, Positions] = field(default_factory=dict, compare=False)

    @property
    def old(self) -> tuple[FragmentMetadata, ...]:
        """The sources that still exist."""
        return tuple(fragment for fragment in self.sources if fragment.id not in self.emptied)

    @property
    def new(self) -> tuple[FragmentMetadata, ...]:
        """The written fragments that have rows."""
        return tuple(fragment for fragment in self.written if self.live_rows(fragment))

    @property
    def old_ids(self) -> tuple[int, ...]:
        return tuple(fragment.id for fragment in self.old)

    @property
    def new_ids(self) -> tuple[int, ...]:
        return tuple(fragment.id for fragment in self.new)

    def live_rows(self, fragment: FragmentMetadata) -> int:
        """Return how many rows of a written fragment were not deleted since."""
        return int(fragment.physical_rows) - len(self.deleted.get(fragment.id, ()))

    def numbered(self, first_id: int) -> FragmentRewrite:
        """Return the same rewrite with the ids of the new fragments counted from `first_id`."""
        written = tuple(replace(fragment, id=number) for number, fragment in enumerate(self.written, first_id))
        return replace(self, written=written)


def rewrite_fragments(dataset: Dataset, fragment_ids: Sequence[int], rows_per_fragment: int) -> FragmentRewrite:
    """Write the live rows of some fragments again. Moves no head, can be repeated and runs on any machine."""
    announce("dataset.rewrite", dataset.uri)
    with translate_errors("rewrite fragments", dataset.uri):
        requested_ids = set(fragment_ids)
        parts = [part for part in dataset.native.get_fragments() if part.fragment_id in requested_ids]
        sources = tuple(part.metadata for part in parts)
        description = {
            "task": {"fragments": [fragment.to_json() for fragment in sources]},
            "read_version": dataset.version,
            "options": {**_TASK_OPTIONS, "target_rows_per_fragment": rows_per_fragment},
        }
        tasks: Any = CompactionTask
        result = json.loads(tasks.from_json(json.dumps(description)).execute(dataset.native).json())
        written = tuple(FragmentMetadata.from_json(json.dumps(new)) for new in result["new_fragments"])
        scanner = dataset.native.scanner(columns=[], fragments=parts, with_row_id=True)
        identities = scanner.to_table().column(IDENTITY).to_numpy()
        _require_same_rows(identities, written, dataset.uri)
    make_durable(dataset.directory, fragment_files(written))
    return FragmentRewrite(sources=sources, written=written, read_version=dataset.version)


def stage_rewrite(dataset: Dataset, groups: Sequence[FragmentRewrite]) -> StagedTransaction:
    """Stage the transaction that replaces the old fragments of all groups. Indexes do not cover the new ones."""
    with translate_errors("read the fragments", dataset.uri):
        return StagedTransaction.of(_rewrite_operation(dataset.native, groups), dataset.version)


def write_deletion_file(dataset: Dataset, fragment: FragmentMetadata, positions: Positions) -> FragmentMetadata:
    """Write the deletion file of a fragment that no version references; return the fragment with it.

    Lance writes deletion files only for fragments of a version. The format is the one that Lance writes for few rows
    and reads for any number of rows: an Arrow file with the positions as the column `row_id`.
    """
    announce("dataset.stage", dataset.uri)
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array(positions, pa.uint32())], schema=schema))
    deletion_file = DeletionFile(dataset.version, secrets.randbits(63), "array", len(positions), None)
    data = sink.getvalue().to_pybytes()
    file = StagedFile(deletion_file.path(fragment.id, ""), len(data))
    with translate_errors("write deletions", dataset.uri):
        _create_file(dataset.directory, file.path, data)
    make_durable(dataset.directory, [file])
    return replace(fragment, deletion_file=deletion_file)


def clone_rewritten(
    dataset: Dataset, location: Location, groups: Sequence[FragmentRewrite], dropped: Collection[str] = ()
) -> Dataset:
    """Create a dataset of references at `location` that looks like this one after the rewrite, to build indexes in.

    `dropped` are the index segments that are dropped before the rewrite.
    """
    announce("dataset.stage", location.uri)
    with translate_errors("clone the dataset", location.uri):
        native = dataset.native
        clone = native.shallow_clone(
            location.lance_uri, reference=dataset.version, storage_options=location.storage_options
        )
        if dropped:
            drop = stage_segment_drop(Dataset(location, None, clone), dropped)
            clone = _commit_in_clone(clone, drop.native, location)
        (base,) = set(clone.base_paths()) - set(native.base_paths())
        rewrite = lance.Transaction(read_version=clone.version, operation=_rewrite_operation(clone, groups, base))
        return Dataset(location, None, _commit_in_clone(clone, rewrite, location))


def adopt_segment(segment: StagedSegment, clone: Location, dataset: Location) -> StagedSegment:
    """Move the files of a segment from the clone to the dataset or its branch; no version references them yet."""
    directory = f"{_INDICES}/{segment.native.uuid}"
    _move_objects(clone.child(directory), dataset.child(directory))
    return replace(segment, native=replace(segment.native, base_id=None))


def _move_objects(source: Location, target: Location) -> None:
    """Move every object below one location to the same path below another of the same store, which must be empty."""
    announce("object.move", target.uri)
    with translate_errors("move files", source.uri):
        match source.scheme:
            case Scheme.LOCAL:
                Path(target.uri).parent.mkdir(parents=True, exist_ok=True)
                Path(source.uri).rename(target.uri)
                if target.is_synced:
                    sync_entries([Path(target.uri)], Path(target.uri).parent.parent)
            case Scheme.S3:
                root = replace(source, uri=posixpath.commonpath((source.uri, target.uri)).replace(":/", "://", 1))
                store = open_s3_store(root)
                for entry in ObjectStore(source).list(""):
                    paths = (f"{end.uri.removeprefix(root.uri)}/{entry.path}" for end in (source, target))
                    obstore.rename(store, *(path.lstrip("/") for path in paths))
            case Scheme.MEMORY:
                _move_in_memory(source, target)


def _move_in_memory(source: Location, target: Location) -> None:
    """Copy through Lance, which has its own memory store."""
    source_files, target_files = (LanceFileSession(location.lance_uri) for location in (source, target))
    with TemporaryDirectory() as directory:
        for path in source_files.list():
            draft = str(Path(directory) / "moved")
            source_files.download_file(path, draft)
            target_files.upload_file(draft, path)


def _create_file(directory: Location, path: str, data: bytes) -> None:
    """Create a file of a dataset, which the caller announces; fail if it exists."""
    if directory.scheme is Scheme.MEMORY:  # Lance has its own memory store
        with TemporaryDirectory() as temporary:
            draft = Path(temporary) / "draft"
            draft.write_bytes(data)
            LanceFileSession(directory.lance_uri).upload_file(str(draft), path)
        return
    obstore.put(open_backend(directory), path, data, mode="create", use_multipart=False)


def _require_same_rows(identities: npt.NDArray[np.uint64], written: Sequence[FragmentMetadata], uri: str) -> None:
    """Require that the written fragments have the rows with these identities in this order: positions depend on it."""
    sequences = [
        RowIdSequence.from_inline_metadata(fragment.row_id_meta).to_pyarrow().to_numpy()
        for fragment in written
        if fragment.row_id_meta is not None
    ]
    written_rows = sum(int(fragment.physical_rows) for fragment in written)
    has_same_count = sum(map(len, sequences)) == written_rows == len(identities)
    if not (has_same_count and np.array_equal(np.concatenate([*sequences, identities[:0]]), identities)):
        raise InvariantError(
            f"rewritten fragments of {uri} do not have the rows of their sources in the same order: "
            f"expected {len(identities):,} rows, got {written_rows:,}",
            code="rewrite_changed_rows",
        )


def _commit_in_clone(
    clone: lance.LanceDataset, transaction: lance.Transaction, location: Location
) -> lance.LanceDataset:
    return lance.LanceDataset.commit(clone, transaction, max_retries=0, storage_options=location.storage_options)


def _rewrite_operation(
    native: lance.LanceDataset, groups: Sequence[FragmentRewrite], base: int | None = None
) -> lance.LanceOperation.Rewrite:
    """Return the operation that replaces old fragments by new ones, whose files are in `base` if this is a clone."""
    present = {part.fragment_id: part.metadata for part in native.get_fragments()}
    rewrites = []
    for group in groups:
        old = [present[number] for number in group.old_ids]
        new = group.new if base is None else [_with_base(fragment, base) for fragment in group.new]
        rewrites.append(lance.LanceOperation.RewriteGroup(old, list(new)))
    return lance.LanceOperation.Rewrite(rewrites, [])


def _with_base(fragment: FragmentMetadata, base: int) -> FragmentMetadata:
    """Return a fragment of the source, whose files are in the source itself, as the clone references it."""
    description: dict[str, Any] = fragment.to_json()
    for file in (*description["files"], *filter(None, [description["deletion_file"]])):
        file["base_id"] = base
    return FragmentMetadata.from_json(json.dumps(description))
