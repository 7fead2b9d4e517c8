"""Compaction by hand: workers rewrite groups of fragments, and one exact transaction puts them in place of the old.

In: a dataset and the numbers of some fragments. Out: `Rewritten` groups that pickle, and the transaction that commits
several of them. Rows and row ids stay the same, and so does the order of rows within a group. Lance's own commit of a
compaction would rewrite every index within it; here the new fragments get numbers of their own beforehand, so that
their index segments can be built in a *rewritten clone* before anything is committed (decision 0011). A crash leaves
only files that nothing references.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import lance
from lance.fragment import FragmentMetadata
from lance.optimize import CompactionTask

from omnigraph.base.effects import announce
from omnigraph.storage.dataset import DATA_STORAGE_VERSION, Dataset
from omnigraph.storage.durability import fragment_files, make_durable
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.indexes import IndexSegment, stage_segment_drop
from omnigraph.storage.location import Location
from omnigraph.storage.objects import move_objects
from omnigraph.storage.staging import StagedTransaction

LANCE_SUPPORTS_BLOB_COMPACTION: Final = True
"""Whether the installed Lance compacts tables with blobs and keeps every byte; a test turns red when that changes."""

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


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Some fragments and what takes their place, as Lance describes them. No version knows the new ones yet."""

    old: tuple[FragmentMetadata, ...]
    new: tuple[FragmentMetadata, ...]

    @property
    def old_ids(self) -> tuple[int, ...]:
        return tuple(fragment.id for fragment in self.old)

    @property
    def new_ids(self) -> tuple[int, ...]:
        return tuple(fragment.id for fragment in self.new)

    def numbered(self, first_id: int) -> Rewritten:
        """The same with the new fragments numbered from `first_id` on. They are new to everybody until then."""
        new = tuple(replace(fragment, id=first_id + place) for place, fragment in enumerate(self.new))
        return Rewritten(self.old, new)


def rewrite_fragments(dataset: Dataset, fragment_ids: Sequence[int], rows_per_fragment: int) -> Rewritten:
    """Write the live rows of some fragments anew. Moves no head, is safe to repeat, runs anywhere."""
    announce("dataset.rewrite", dataset.uri)
    with substrate_errors("rewrite fragments", dataset.uri):
        wanted = set(fragment_ids)
        found = (part.metadata for part in dataset.native.get_fragments() if part.fragment_id in wanted)
        old = tuple(found)
        described = {
            "task": {"fragments": [fragment.to_json() for fragment in old]},
            "read_version": dataset.version,
            "options": {**_TASK_OPTIONS, "target_rows_per_fragment": rows_per_fragment},
        }
        tasks: Any = CompactionTask
        result = json.loads(tasks.from_json(json.dumps(described)).execute(dataset.native).json())
        new = tuple(FragmentMetadata.from_json(json.dumps(found)) for found in result["new_fragments"])
    make_durable(dataset.place, fragment_files(new))
    return Rewritten(old, new)


def stage_rewrite(dataset: Dataset, groups: Sequence[Rewritten]) -> StagedTransaction:
    """The one transaction that replaces the old fragments of all groups; indexes no longer cover them after it."""
    operation = _rewrite_operation([(group.old, group.new) for group in groups])
    return StagedTransaction.of(operation, dataset.version)


def clone_rewritten(
    dataset: Dataset, place: Location, groups: Sequence[Rewritten], dropped: Collection[str] = ()
) -> Dataset:
    """A new dataset of references at `place` that looks as this one will after the rewrite: to build indexes in.

    `dropped` are the segments of indexes that go before it.
    """
    announce("dataset.stage", place.uri)
    with substrate_errors("clone the dataset", place.uri):
        native = dataset.native
        clone = native.shallow_clone(
            place.lance_uri, reference=dataset.version, storage_options=place.storage_options
        )
        if dropped:
            drop = stage_segment_drop(Dataset(place, None, clone), dropped)
            clone = _commit_in_clone(clone, drop.native, place)
        (own,) = set(clone.base_paths()) - set(native.base_paths())
        here = {part.fragment_id: part.metadata for part in clone.get_fragments()}
        pairs = [
            ([here[number] for number in group.old_ids], [_based(fragment, own) for fragment in group.new])
            for group in groups
        ]
        rewrite = lance.Transaction(read_version=clone.version, operation=_rewrite_operation(pairs))
        return Dataset(place, None, _commit_in_clone(clone, rewrite, place))


def adopt_segment(segment: IndexSegment, clone: Location, dataset: Location) -> IndexSegment:
    """Move the files of a segment that was built in a clone to the dataset or its branch; no version knows them yet."""
    folder = f"{_INDICES}/{segment.native.uuid}"
    move_objects(clone.child(folder), dataset.child(folder))
    return replace(segment, native=replace(segment.native, base_id=None))


def _commit_in_clone(
    clone: lance.LanceDataset, transaction: lance.Transaction, place: Location
) -> lance.LanceDataset:
    return lance.LanceDataset.commit(clone, transaction, max_retries=0, storage_options=place.storage_options)


def _rewrite_operation(
    pairs: Sequence[tuple[Sequence[FragmentMetadata], Sequence[FragmentMetadata]]],
) -> lance.LanceOperation.Rewrite:
    groups = [lance.LanceOperation.RewriteGroup(list(old), list(new)) for old, new in pairs]
    return lance.LanceOperation.Rewrite(groups, [])


def _based(fragment: FragmentMetadata, base: int) -> FragmentMetadata:
    """A fragment of the source, whose files lie in the source itself, as the clone refers to it."""
    described: dict[str, Any] = fragment.to_json()
    for file in described["files"]:
        file["base_id"] = base
    return FragmentMetadata.from_json(json.dumps(described))
