"""Builds indexes: plan on the driver, segments anywhere, one commit.

In: a dataset, a column and a kind. Out: an `IndexPlan` that pickles, segments that pickle, and the dataset after
the commit. An index covers only the fragments it was built over; a commit replaces the segments of the fragments
it brings and leaves the others, so the same three steps build an index and extend one. A crash before the commit
leaves only files that nothing references.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import lance
import pyarrow as pa
from lance.dataset import Index
from lance.indices import IndicesBuilder

from omnigraph.base.failpoints import announce
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import (
    delete_torn_versions,
    index_files,
    make_durable,
    make_indexes_durable,
)
from omnigraph.storage.lance.stage import StagedTransaction

NO_ROWS: Final = "the table has no rows"
"""Why no index of an empty table can be built."""

NO_VECTORS: Final = "the column has no vectors"
"""Why no index of a vector column without values can be built."""

PQ_ROWS_MIN: Final = 65_536
"""Below this many vectors one flat partition is searched exactly, and there is nothing to train."""

_ROWS_PER_PARTITION: Final = 8_192
_PARTITIONS_MAX: Final = 4_096
_DIMENSIONS_PER_SUBVECTOR: Final = 8
_PQ_CODES: Final = 256
_SAMPLE_RATE_MAX: Final = 256
_METRIC: Final = "cosine"
_SCALAR_SETTINGS: Final[Mapping[IndexKind, Mapping[str, object]]] = MappingProxyType(
    {
        IndexKind.BTREE: MappingProxyType({}),
        # Stemming would make fuzzy search miss words that are one edit apart; positions serve phrases.
        IndexKind.INVERTED: MappingProxyType(
            {"stem": False, "remove_stop_words": False, "with_position": True}
        ),
    }
)


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index of one column. A column may have one index of each kind. `called`: its name, when it has another."""

    column: str
    kind: IndexKind
    called: str | None = None

    @property
    def name(self) -> str:
        """What the index is called in the dataset."""
        return self.called or f"{self.column}_{self.kind.value}"


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """How to build one index over some fragments; the settings are shared by all of its segments."""

    spec: IndexSpec
    fragment_ids: tuple[int, ...]
    lance_type: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unbuildable:
    """An index that cannot be built yet, and why. Not an error."""

    spec: IndexSpec
    reason: str


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """The finished files of one part of an index, which no version knows yet."""

    spec: IndexSpec
    fragment_ids: tuple[int, ...]
    native: Any


def plan_index(
    dataset: Dataset,
    spec: IndexSpec,
    fragment_ids: Sequence[int] | None = None,
    *,
    pq_rows_min: int = PQ_ROWS_MIN,
) -> IndexPlan | Unbuildable:
    """Decide how to build the index over the fragments (all when None); large vector indexes train here."""
    with substrate_errors("plan an index", dataset.uri):
        present = {fragment.fragment_id for fragment in dataset.native.get_fragments()}
    chosen = tuple(sorted(present if fragment_ids is None else present.intersection(fragment_ids)))
    if not chosen:
        return Unbuildable(spec, NO_ROWS)
    with substrate_errors("plan an index", dataset.uri):
        if spec.kind is IndexKind.VECTOR:
            return _plan_vector(dataset, spec, chosen, pq_rows_min)
    return IndexPlan(spec, chosen, spec.kind.name, dict(_SCALAR_SETTINGS[spec.kind]))


def has_vectors(dataset: Dataset, column: str) -> bool:
    """Whether any row has a vector; reads up to the first one."""
    with substrate_errors("look for vectors", dataset.uri):
        scanner = dataset.native.scanner(
            columns=[], filter=f"`{column}` IS NOT NULL", limit=1, with_row_id=True
        )
        return bool(scanner.to_table().num_rows)


def build_index_segment(dataset: Dataset, plan: IndexPlan, fragment_ids: Sequence[int]) -> IndexSegment:
    """Write the index files of some of the plan's fragments. Safe to repeat; runs on any machine."""
    announce("index.build", dataset.uri)
    with substrate_errors("build an index", dataset.uri):
        native = dataset.native.create_index_uncommitted(
            plan.spec.column,
            plan.lance_type,
            name=plan.spec.name,
            fragment_ids=list(fragment_ids),
            replace=True,
            storage_options=dataset.location.storage_options,
            **plan.settings,
        )
    make_durable(dataset.place, index_files(native))
    return IndexSegment(plan.spec, tuple(fragment_ids), native)


def commit_index_segments(dataset: Dataset, spec: IndexSpec, segments: Sequence[IndexSegment]) -> Dataset:
    """Publish segments in the dataset; segments of other fragments stay. One version of its own."""
    announce("dataset.index", dataset.uri)
    delete_torn_versions(dataset.place, dataset.version + 1)
    native = dataset.movable()
    with substrate_errors("commit an index", dataset.uri):
        native.commit_existing_index_segments(
            spec.name, spec.column, [segment.native for segment in segments]
        )
    make_indexes_durable(dataset.place, native)
    return Dataset(dataset.location, dataset.branch, native)


def stage_segment_drop(dataset: Dataset, uuids: Collection[str]) -> StagedTransaction:
    """The transaction that takes segments out of their indexes; the others of the same index stay."""
    with substrate_errors("drop a part of an index", dataset.uri):
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
        settings = {"metric": _METRIC, "num_partitions": 1, "ivf_centroids": _any_centroid(dimensions)}
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


def _any_centroid(dimensions: int) -> Any:
    """With one partition every vector belongs to it, wherever its centre is."""
    return pa.FixedSizeListArray.from_arrays(pa.array([1.0] * dimensions, pa.float32()), dimensions)


@dataclass(frozen=True, slots=True)
class IndexPart:
    """One segment of an index, and the fragments that it covers."""

    uuid: str
    fragment_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """One index as the dataset knows it. `kind` is None for a kind that we never build."""

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
    """Every row is covered."""


@dataclass(frozen=True, slots=True)
class Degraded:
    """Some rows are found only by scanning. Reads stay correct."""

    uncovered_fragments: tuple[int, ...]
    """The numbers of the fragments that it does not cover."""
    uncovered_rows: int
    """How many rows are in them."""


Coverage = Indexed | Degraded


def read_indexes(dataset: Dataset) -> tuple[IndexDescription, ...]:
    """Every index of the version, ordered by name; Lance's own bookkeeping entries are left out."""
    with substrate_errors("read the indexes", dataset.uri):
        found = dataset.native.describe_indices()
    described = (
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
        for index in found
        if index.field_names
    )
    return tuple(sorted(described, key=lambda index: index.name))


def read_coverage(dataset: Dataset, specs: Sequence[IndexSpec]) -> Mapping[IndexSpec, Coverage]:
    """How well each index serves its column in this version; one that does not exist covers nothing."""
    with substrate_errors("read the fragments", dataset.uri):
        rows = {part.fragment_id: part.metadata.num_rows for part in dataset.native.get_fragments()}
    indexes = read_indexes(dataset)
    return {spec: coverage_of(spec, indexes, rows) for spec in specs}


def coverage_of(
    spec: IndexSpec, indexes: Sequence[IndexDescription], rows_of_fragment: Mapping[int, int]
) -> Coverage:
    """The decision alone: what the indexes of the spec's column and kind leave out."""
    serving = [index for index in indexes if (index.column, index.kind) == (spec.column, spec.kind)]
    covered = frozenset[int]().union(*(index.fragment_ids for index in serving))
    uncovered = tuple(sorted(rows_of_fragment.keys() - covered))
    if serving and not uncovered:
        return Indexed()
    return Degraded(uncovered, sum(rows_of_fragment[number] for number in uncovered))


def _kind_of(lance_type: str) -> IndexKind | None:
    match lance_type.upper():
        case "BTREE":
            return IndexKind.BTREE
        case "INVERTED":
            return IndexKind.INVERTED
        case name if name.startswith("IVF_"):
            return IndexKind.VECTOR
        case _:
            return None
