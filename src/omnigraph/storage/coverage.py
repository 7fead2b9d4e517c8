"""Which indexes a dataset has, and which of its fragments they do not cover.

In: a dataset. Out: descriptions and, per column, `Indexed` or `Degraded`. Reads one version's metadata and never an
index itself, so the cost does not grow with the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph.schema.indexable import IndexKind
from omnigraph.storage.dataset import Dataset
from omnigraph.storage.failures import substrate_errors
from omnigraph.storage.indexes import IndexSpec


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
