"""Builds and describes indexes: a plan on the driver, segments on any machine, one commit.

In: a dataset, a column and a kind. Out: an `IndexPlan` and segments, which can be pickled, and the dataset after the
commit. An index covers only the fragments over which it was built. A commit replaces the segments of its fragments and
keeps the others, so the same three steps build an index and extend one. `read_indexes` and `read_coverage` describe the
indexes of a version. A crash before the commit leaves only files that no version references.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import lance
import pyarrow as pa
from lance.dataset import Index
from lance.indices import IndicesBuilder

from omnigraph.base.failpoints import announce
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import delete_empty_versions, index_files, make_durable, make_indexes_durable
from omnigraph.storage.lance.stage import StagedTransaction

NO_ROWS: Final = "the table has no rows"
"""The reason why an index of an empty table cannot be built."""

NO_VECTORS: Final = "the column has no vectors"
"""The reason why an index of a vector column without values cannot be built."""

PQ_ROWS_MIN: Final = 65_536
"""With fewer vectors, one flat partition is searched exactly, and no training is needed."""

_ROWS_PER_PARTITION: Final = 8_192
_PARTITIONS_MAX: Final = 4_096
_DIMENSIONS_PER_SUBVECTOR: Final = 8
_PQ_CODES: Final = 256
_SAMPLE_RATE_MAX: Final = 256
_METRIC: Final = "cosine"
_SCALAR_SETTINGS: Final[Mapping[IndexKind, Mapping[str, object]]] = {
    IndexKind.BTREE: {},
    # With stemming, fuzzy search would miss words that are one edit apart; phrase search needs positions.
    IndexKind.INVERTED: {"stem": False, "remove_stop_words": False, "with_position": True},
}


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index of one column. A column may have one index of each kind. `custom_name` replaces the default name."""

    column: str
    kind: IndexKind
    custom_name: str | None = None

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
class IndexSegment:
    """The finished files of one part of an index, which no version references yet."""

    spec: IndexSpec
    fragment_ids: tuple[int, ...]
    native: Any


def plan_index(
    dataset: Dataset, spec: IndexSpec, fragment_ids: Sequence[int] | None = None, *, pq_rows_min: int = PQ_ROWS_MIN
) -> IndexPlan | Unbuildable:
    """Plan an index over some fragments (default: all). Large vector indexes are trained here."""
    with translate_errors("plan an index", dataset.uri):
        existing_ids = {fragment.fragment_id for fragment in dataset.native.get_fragments()}
        covered = tuple(sorted(existing_ids if fragment_ids is None else existing_ids.intersection(fragment_ids)))
        if not covered:
            return Unbuildable(spec, NO_ROWS)
        if spec.kind is IndexKind.VECTOR:
            return _plan_vector(dataset, spec, covered, pq_rows_min)
    return IndexPlan(spec, covered, spec.kind.name, dict(_SCALAR_SETTINGS[spec.kind]))


def has_vectors(dataset: Dataset, column: str) -> bool:
    """Return whether any row has a vector; read up to the first one."""
    with translate_errors("find vectors", dataset.uri):
        scanner = dataset.native.scanner(columns=[], filter=f"`{column}` IS NOT NULL", limit=1, with_row_id=True)
        return bool(scanner.to_table().num_rows)


def build_index_segment(dataset: Dataset, plan: IndexPlan, fragment_ids: Sequence[int]) -> IndexSegment:
    """Write the index files of some of the plan's fragments. Can be repeated; runs on any machine."""
    announce("index.build", dataset.uri)
    with translate_errors("build an index", dataset.uri):
        native = dataset.native.create_index_uncommitted(
            plan.spec.column,
            plan.lance_type,
            name=plan.spec.name,
            fragment_ids=list(fragment_ids),
            replace=True,
            storage_options=dataset.location.storage_options,
            **plan.settings,
        )
    make_durable(dataset.directory, index_files(native))
    return IndexSegment(plan.spec, tuple(fragment_ids), native)


def commit_index_segments(dataset: Dataset, spec: IndexSpec, segments: Sequence[IndexSegment]) -> Dataset:
    """Commit segments in one new version of the dataset; segments of other fragments are kept."""
    announce("dataset.index", dataset.uri)
    delete_empty_versions(dataset.directory, dataset.version + 1)
    native = dataset.native_copy()
    with translate_errors("commit an index", dataset.uri):
        native.commit_existing_index_segments(spec.name, spec.column, [segment.native for segment in segments])
    make_indexes_durable(dataset.directory, native)
    return Dataset(dataset.location, dataset.branch, native)


def stage_segment_drop(dataset: Dataset, uuids: Collection[str]) -> StagedTransaction:
    """Stage the transaction that removes segments from their indexes; other segments of an index are kept."""
    with translate_errors("drop a part of an index", dataset.uri):
        removed = [
            Index(
                uuid=part.uuid,
                name=index.name,
                fields=list(index.fields),
                dataset_version=part.dataset_version_at_last_update,
                fragment_ids=part.fragment_ids,
                index_version=part.index_version,
            )
            for index in dataset.native.describe_indices()
            for part in index.segments
            if part.uuid in uuids
        ]
    operation = lance.LanceOperation.CreateIndex([], removed)
    return StagedTransaction.of(operation, dataset.version)


def _plan_vector(
    dataset: Dataset, spec: IndexSpec, fragment_ids: tuple[int, ...], pq_rows_min: int
) -> IndexPlan | Unbuildable:
    vectors = dataset.count_rows(f"`{spec.column}` IS NOT NULL")
    if not vectors:
        return Unbuildable(spec, NO_VECTORS)
    dimensions = dataset.schema.field(spec.column).type.list_size
    if vectors < max(pq_rows_min, _PQ_CODES) or dimensions % _DIMENSIONS_PER_SUBVECTOR:
        # With one partition, every vector belongs to it, so any centroid will do.
        centroid = pa.FixedSizeListArray.from_arrays(pa.array([1.0] * dimensions, pa.float32()), dimensions)
        settings = {"metric": _METRIC, "num_partitions": 1, "ivf_centroids": centroid}
        return IndexPlan(spec, fragment_ids, "IVF_FLAT", settings)
    partitions = min(_PARTITIONS_MAX, max(1, vectors // _ROWS_PER_PARTITION))
    subvectors = dimensions // _DIMENSIONS_PER_SUBVECTOR
    model = IndicesBuilder(dataset.native, spec.column).prepare_global_ivf_pq(
        partitions,
        subvectors,
        distance_type=_METRIC,
        sample_rate=min(_SAMPLE_RATE_MAX, vectors // max(partitions, _PQ_CODES)),
    )
    settings = {"metric": _METRIC, "num_partitions": partitions, "num_sub_vectors": subvectors, **model}
    return IndexPlan(spec, fragment_ids, "IVF_PQ", settings)


@dataclass(frozen=True, slots=True)
class IndexPart:
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
    parts: tuple[IndexPart, ...] = ()


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
            fragment_ids=frozenset(number for part in index.segments for number in part.fragment_ids),
            size_bytes=index.total_size_bytes or 0,
            parts=tuple(IndexPart(part.uuid, frozenset(part.fragment_ids)) for part in index.segments),
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


def _kind_of(lance_type: str) -> IndexKind | None:
    name = lance_type.upper()
    if name.startswith("IVF_"):
        return IndexKind.VECTOR
    return next((kind for kind in _SCALAR_SETTINGS if kind.name == name), None)
