"""Builds and describes indexes: a plan on the driver, segments on any machine, one commit.

In: a dataset, a column and a kind. Out: an `IndexPlan` and segments, which can be pickled, and the dataset after the
commit. An index covers only the fragments over which it was built. A commit replaces the segments of its fragments and
keeps the others, so the same three steps build an index and extend one. `read_indexes` and `read_coverage` describe the
indexes of a version. A crash before the commit leaves only files that no version references.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import lance
import pyarrow as pa
from lance.dataset import Index

from omnigraph.base import limits
from omnigraph.base.failpoints import announce
from omnigraph.schema.property_types import PLAIN_TEXT, STEM_LANGUAGES, IndexKind, TextOptions
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import (
    delete_empty_version_files,
    index_files,
    make_durable,
    make_indexes_durable,
)
from omnigraph.storage.lance.stage import StagedTransaction
from omnigraph.storage.lance.words import WordRules

NO_ROWS: Final = "the table has no rows"
"""The reason why an index of an empty table cannot be built."""

NO_VECTORS: Final = "the column has no vectors"
"""The reason why an index of a vector column without values cannot be built."""

NOT_NEEDED: Final = "not needed: the vectors are below 64 MiB"
"""The reason why a small vector column has no index: to read all of it is as fast."""

NOT_POSSIBLE: Final = "not possible: the length of the vectors is not a multiple of 8"
"""The reason why Lance cannot compress the vectors of a column."""

PARAMETERS_DIFFER: Final = "parameters differ"
"""The reason why queries do not use an index: an earlier release built it, or its options changed in the schema."""

# Without this, Lance logs a warning and returns all centroids with the statistics of a vector index.
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")

_ROWS_PER_PARTITION: Final = 8_192
_BITS: Final = 4
_FLOAT_BYTES: Final = 4
_LENGTH_MULTIPLE: Final = 8
_VECTOR_TYPE: Final = "IVF_RQ"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index of one column. A column may have one index of each kind. `custom_name` replaces the default name."""

    column: str
    kind: IndexKind
    custom_name: str | None = None
    text: TextOptions = PLAIN_TEXT
    """The options of a text index."""

    @property
    def name(self) -> str:
        """The name of the index in the dataset."""
        return self.custom_name or f"{self.column}_{self.kind.value}"


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """How to build one index over some fragments; all its segments have the same settings."""

    spec: IndexSpec
    fragment_ids: tuple[int, ...]
    lance_type: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unbuildable:
    """An index that cannot be built yet, and the reason. Not an error."""

    spec: IndexSpec
    reason: str


@dataclass(frozen=True, slots=True)
class StagedSegment:
    """A built segment of an index, whose files no version references yet."""

    spec: IndexSpec
    fragment_ids: tuple[int, ...]
    native: Any


def plan_index(dataset: Dataset, spec: IndexSpec, fragment_ids: Sequence[int] | None = None) -> IndexPlan | Unbuildable:
    """Plan an index over some fragments (default: all)."""
    with translate_errors("plan an index", dataset.uri):
        existing_ids = {fragment.fragment_id for fragment in dataset.native.get_fragments()}
    covered = tuple(sorted(existing_ids if fragment_ids is None else existing_ids.intersection(fragment_ids)))
    if not covered:
        return Unbuildable(spec, NO_ROWS)
    if spec.kind is IndexKind.VECTOR and not has_vectors(dataset, spec.column):
        return Unbuildable(spec, NO_VECTORS)
    lance_type = _VECTOR_TYPE if spec.kind is IndexKind.VECTOR else spec.kind.name
    return IndexPlan(spec, covered, lance_type, _settings(spec.kind, spec.text))


def why_no_vector_index(rows: int, row_bytes: int) -> str:
    """Return why a column of vectors needs or gets no index; empty if `optimize` builds one. Pure."""
    if row_bytes % (_FLOAT_BYTES * _LENGTH_MULTIPLE):
        return NOT_POSSIBLE
    return "" if rows * row_bytes > limits.SEARCH_EXACT_BYTES else NOT_NEEDED


def partition_count(rows: int) -> int:
    """Return the number of partitions of a vector index over this many rows. Pure."""
    return min(limits.INDEX_PARTITIONS_MAX, max(1, rows // _ROWS_PER_PARTITION))


def has_vectors(dataset: Dataset, column: str, fragment_ids: Sequence[int] | None = None) -> bool:
    """Return whether any row (default: of all fragments) has a vector; read up to the first one."""
    with translate_errors("find vectors", dataset.uri):
        scanner = dataset.native.scanner(
            columns=[],
            filter=f"`{column}` IS NOT NULL",
            limit=1,
            with_row_id=True,
            fragments=None if fragment_ids is None else dataset.fragments(fragment_ids),
        )
        return bool(scanner.to_table().num_rows)


def build_index_segment(dataset: Dataset, plan: IndexPlan, fragment_ids: Sequence[int]) -> StagedSegment:
    """Write the index files of some of the plan's fragments. Can be repeated; runs on any machine."""
    announce("index.build", dataset.uri)
    settings = dict(plan.settings)
    if plan.spec.kind is IndexKind.VECTOR:
        settings |= _partition_settings(dataset, plan.spec.column, fragment_ids)
    with translate_errors("build an index", dataset.uri):
        native = dataset.native.create_index_uncommitted(
            plan.spec.column,
            plan.lance_type,
            name=plan.spec.name,
            fragment_ids=list(fragment_ids),
            replace=True,
            storage_options=dataset.location.storage_options,
            **settings,
        )
    make_durable(dataset.directory, index_files(native))
    return StagedSegment(plan.spec, tuple(fragment_ids), native)


def commit_index_segments(dataset: Dataset, spec: IndexSpec, segments: Sequence[StagedSegment]) -> Dataset:
    """Commit segments in one new version of the dataset; segments of other fragments are kept."""
    announce("dataset.index", dataset.uri)
    delete_empty_version_files(dataset.directory, dataset.version + 1)
    native = dataset.native_copy()
    with translate_errors("commit an index", dataset.uri):
        native.commit_existing_index_segments(spec.name, spec.column, [segment.native for segment in segments])
    make_indexes_durable(dataset.directory, native)
    return Dataset(dataset.location, dataset.branch, native)


def stage_segment_drop(dataset: Dataset, uuids: Collection[str]) -> StagedTransaction:
    """Stage the transaction that removes segments from their indexes; other segments of an index are kept."""
    with translate_errors("drop segments of an index", dataset.uri):
        removed = [
            Index(
                uuid=segment.uuid,
                name=index.name,
                fields=list(index.fields),
                dataset_version=segment.dataset_version_at_last_update,
                fragment_ids=segment.fragment_ids,
                index_version=segment.index_version,
            )
            for index in dataset.native.describe_indices()
            for segment in index.segments
            if segment.uuid in uuids
        ]
    operation = lance.LanceOperation.CreateIndex([], removed)
    return StagedTransaction.of(operation, dataset.version)


def _partition_settings(dataset: Dataset, column: str, fragment_ids: Sequence[int]) -> dict[str, Any]:
    """Return the partitions of one segment. Each segment is trained by itself, so it can be built anywhere."""
    rows = dataset.fragment_rows()
    partitions = partition_count(sum(rows[number] for number in fragment_ids))
    if partitions > 1 or has_vectors(dataset, column, fragment_ids):
        return {"num_partitions": partitions}
    # Without vectors nothing can be trained, and any centroid will do.
    dimensions = dataset.schema.field(column).type.list_size
    centroid = pa.FixedSizeListArray.from_arrays(pa.array([1.0] * dimensions, pa.float32()), dimensions)
    return {"num_partitions": 1, "ivf_centroids": centroid}


@dataclass(frozen=True, slots=True)
class CommittedSegment:
    """One segment of an index, and the fragments that it covers."""

    uuid: str
    fragment_ids: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDescription:
    """One index of a dataset. `kind` is None for a kind that Omnigraph does not build."""

    name: str
    column: str
    kind: IndexKind | None
    lance_type: str
    segments: int
    fragment_ids: frozenset[int]
    size_bytes: int
    parts: tuple[CommittedSegment, ...] = ()
    is_current: bool = True
    """Whether this release builds indexes with its parameters, apart from the options of a text index."""
    text: TextOptions = PLAIN_TEXT
    """The options of a text index."""
    entries: int = 0
    """The number of texts or vectors in it, with deleted ones; 0 if they were not counted."""

    def has_parameters(self, text: TextOptions) -> bool:
        """Return whether this release builds it the same way for these options. Queries use no other index."""
        return self.is_current and self.text == text


@dataclass(frozen=True, slots=True)
class Indexed:
    """The index covers every row."""


@dataclass(frozen=True, slots=True)
class Degraded:
    """The index does not cover some rows, which are found by scanning. Results of reads are still correct."""

    uncovered_fragments: tuple[int, ...]
    """The ids of the fragments that the index does not cover."""
    uncovered_rows: int
    """The number of rows in these fragments."""


Coverage = Indexed | Degraded


def count_entries(dataset: Dataset, indexes: Sequence[IndexDescription]) -> tuple[IndexDescription, ...]:
    """Return the indexes with the number of texts or vectors in each. Lance keeps those of deleted and old rows."""
    with translate_errors("read the statistics of an index", dataset.uri):
        return tuple(replace(index, entries=_count_entries(dataset.native, index)) for index in indexes)


def read_indexes(dataset: Dataset) -> tuple[IndexDescription, ...]:
    """Return every index of the version, ordered by name, without Lance's internal entries."""
    with translate_errors("read the indexes", dataset.uri):
        natives = dataset.native.describe_indices()
    indexes = (
        IndexDescription(
            name=index.name,
            column=index.field_names[0],
            kind=_kind_of(index.index_type),
            lance_type=index.index_type,
            segments=len(index.segments),
            fragment_ids=frozenset(number for segment in index.segments for number in segment.fragment_ids),
            size_bytes=index.total_size_bytes or 0,
            parts=tuple(CommittedSegment(segment.uuid, frozenset(segment.fragment_ids)) for segment in index.segments),
            is_current=_has_current_parameters(index),
            text=_text_options(index),
        )
        for index in natives
        if index.field_names
    )
    return tuple(sorted(indexes, key=lambda index: index.name))


def read_coverage(dataset: Dataset, specs: Sequence[IndexSpec]) -> Mapping[IndexSpec, Coverage]:
    """Return the coverage of each index in this version; an index that does not exist covers nothing."""
    indexes, rows = read_indexes(dataset), dataset.fragment_rows()
    return {spec: coverage_of(spec, indexes, rows) for spec in specs}


def coverage_of(spec: IndexSpec, indexes: Sequence[IndexDescription], rows_of_fragment: Mapping[int, int]) -> Coverage:
    """Return what the indexes of the spec's column and kind do not cover. Pure."""
    matching = [index for index in indexes if (index.column, index.kind) == (spec.column, spec.kind)]
    covered = frozenset[int]().union(*(index.fragment_ids for index in matching))
    uncovered = tuple(sorted(rows_of_fragment.keys() - covered))
    if matching and not uncovered:
        return Indexed()
    return Degraded(uncovered, sum(rows_of_fragment[number] for number in uncovered))


def _count_entries(native: lance.LanceDataset, index: IndexDescription) -> int:
    if index.kind is not IndexKind.INVERTED and index.kind is not IndexKind.VECTOR:
        return 0
    statistics: Any = native.stats.index_stats(index.name)
    entries = 0
    for segment in statistics["segments"]:  # without numbers if none of its fragments exists any more
        entries += segment.get("num_docs", 0) + sum(partition["size"] for partition in segment.get("partitions", ()))
    return int(entries)


def _kind_of(lance_type: str) -> IndexKind | None:
    name = lance_type.upper()
    if name.startswith("IVF_"):
        return IndexKind.VECTOR
    return next((kind for kind in IndexKind if kind.name == name), None)


def _settings(kind: IndexKind, text: TextOptions) -> dict[str, object]:
    match kind:
        case IndexKind.BTREE:
            return {}
        case IndexKind.INVERTED:
            # Phrase search needs positions.
            return {**WordRules(text).index_settings, "with_position": True}
        case IndexKind.VECTOR:
            return {"metric": "cosine", "num_bits": _BITS}


def _has_current_parameters(index: Any) -> bool:
    match _kind_of(index.index_type):
        case IndexKind.VECTOR:
            compression = index.details.get("compression") or {}
            parameters = (index.index_type, index.details.get("metric_type"), compression.get("num_bits"))
            return parameters == (_VECTOR_TYPE, "COSINE", _BITS)
        case IndexKind.INVERTED:
            settings = _settings(IndexKind.INVERTED, _text_options(index))
            return all(index.details.get(name) == value for name, value in settings.items())
        case _:
            return True


def _text_options(index: Any) -> TextOptions:
    """Return the options with which a text index was built, and of any other index those of plain text."""
    if _kind_of(index.index_type) is not IndexKind.INVERTED:
        return PLAIN_TEXT
    language = str(index.details.get("language")).lower()
    stem = language if index.details.get("stem") and language in STEM_LANGUAGES else None
    return TextOptions(index.details.get("ascii_folding") is True, stem)
