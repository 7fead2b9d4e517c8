"""Index status: how well the indexes of a branch cover its columns, from metadata.

In: a graph and a branch. Out: one row per declared index, and one per column on which `=` and ranges have no index:
columns without `@index`, vectors, lists and blobs. A vector column that no index covers is read up to its first vector,
and one with `@embed` is read to count the rows without a vector. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from omnigraph.base import limits
from omnigraph.base.display import DisplayedRow
from omnigraph.graph.manifest.records import TableId, TableRecord
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, open_table, read_snapshot
from omnigraph.maintenance.target import GraphTarget
from omnigraph.pipeline.embed.pending import count_pending
from omnigraph.pipeline.embed.plan import vector_properties
from omnigraph.pipeline.runner import in_threads
from omnigraph.schema.catalog import Entity, Property, display_order
from omnigraph.schema.property_types import IndexKind, index_kind
from omnigraph.schema.tables import ColumnIndex, declared_indexes
from omnigraph.storage.lance import indexes
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.indexes import Coverage

NO_INDEX: Final = "has no @index"
NO_KIND: Final = "is of a type that has no index"
_FLOAT_BYTES: Final = 4


class IndexState(StrEnum):
    """The state of the index of one column."""

    COMPLETE = "complete"
    """It covers every row."""
    BEHIND = "behind"
    """It exists, and some rows were added after it was built or last extended."""
    MISSING = "missing"
    """The schema declares it, and it was never built."""
    EMPTY = "empty"
    """The schema declares it, and the table has no rows."""
    NONE = "none"
    """The schema declares no index that serves `=` and ranges on this column, or a vector index is not needed."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class IndexCoverage(DisplayedRow):
    """How well one column is indexed."""

    table_key: str
    """The table, such as `node:Person`."""
    branch: str
    """The branch."""
    column: str
    """The column."""
    kind: IndexKind | None
    """The kind of the declared index; None for a column whose `=` and ranges read every row."""
    coverage: Coverage
    """Which rows the index does not cover, if any."""
    rows: int
    """The number of rows of the table."""
    is_built: bool = False
    """Whether the table has an index of this kind on the column."""
    reason: str = ""
    """Why the column has no index, or one that queries do not use; empty if `optimize` builds it."""
    lance_type: str | None = None
    """The type of the existing index in Lance, such as `BTree`, `Inverted` or `IVF_RQ`."""
    segments: int = 0
    """The number of segments of the existing index."""
    pending_rows: int = 0
    """The rows whose vector `embed` has not computed; 0 for a column without `@embed`."""

    @property
    def declared(self) -> bool:
        """Whether the schema declares an index for the column."""
        return self.kind is not None

    @property
    def used_by_queries(self) -> bool:
        """Whether queries use the existing index; `reason` says why not."""
        return self.is_built and not self.reason

    @property
    def is_degraded(self) -> bool:
        """Whether the index does not cover every row."""
        return isinstance(self.coverage, indexes.Degraded)

    @property
    def uncovered_fragments(self) -> int:
        """The number of fragments that the index does not cover."""
        return len(self.coverage.uncovered_fragments) if isinstance(self.coverage, indexes.Degraded) else 0

    @property
    def uncovered_rows(self) -> int:
        """The number of rows that the index does not cover."""
        return self.coverage.uncovered_rows if isinstance(self.coverage, indexes.Degraded) else 0

    @property
    def state(self) -> IndexState:
        """Whether the index is complete, behind or missing, or why there is none."""
        if not self.declared or self.reason in (indexes.NOT_NEEDED, indexes.NOT_POSSIBLE):
            return IndexState.NONE
        if self.reason == indexes.PARAMETERS_DIFFER:
            return IndexState.BEHIND
        if not self.is_degraded:
            return IndexState.COMPLETE
        if self.is_built:
            return IndexState.BEHIND
        return IndexState.MISSING if self.rows else IndexState.EMPTY

    @property
    def is_behind(self) -> bool:
        """Whether the index exists and does not cover every row."""
        return self.state is IndexState.BEHIND

    @property
    def is_far_behind(self) -> bool:
        """Whether the index exists and does not cover more than 5 % or 100,000 of the rows."""
        share_max = self.rows * limits.INDEX_UNCOVERED_PERCENT_MAX // 100
        return self.is_behind and self.uncovered_rows > min(share_max, limits.INDEX_UNCOVERED_ROWS_MAX)

    @property
    def is_missing(self) -> bool:
        """Whether the index is declared and was never built, although the table has rows."""
        return self.state is IndexState.MISSING

    def _summary(self) -> Mapping[str, object]:
        return {
            "table_key": self.table_key,
            "column": self.column,
            "kind": self.kind.value if self.kind else None,
            "state": self.state.value,
            "uncovered_rows": self.uncovered_rows,
            "reason": self.reason,
            "pending_rows": self.pending_rows or "",
        }


def index_status(graph: GraphTarget, branch: str = MAIN) -> list[IndexCoverage]:
    """Return the coverage of every table of the branch, nodes before edges, each by name."""
    return coverage_of_snapshot(read_snapshot(graph.location, branch))


def coverage_of_snapshot(snapshot: Snapshot, without: frozenset[TableId] = frozenset()) -> list[IndexCoverage]:
    """Return the coverage for a snapshot, without some tables."""
    entities = sorted(snapshot.schema.catalog.types, key=lambda entity: display_order(entity.alias))
    pairs = [(entity, snapshot.tables[entity.alias]) for entity in entities]
    tables = [(entity, table) for entity, table in pairs if table.id not in without]
    rows_by_table = in_threads(lambda pair: list(_coverage(snapshot, *pair)), tables)
    return [row for rows in rows_by_table for row in rows]


def _coverage(snapshot: Snapshot, entity: Entity, table: TableRecord) -> Iterator[IndexCoverage]:
    dataset = open_table(snapshot.root, table)
    fragments, present = dataset.fragment_rows(), indexes.read_indexes(dataset)
    rows = sum(fragments.values())
    name = snapshot.branch.name
    declared = declared_indexes(entity)
    pending = {prop.vector.name: count_pending(dataset, prop).rows for prop in vector_properties(entity)}
    for index in declared:
        coverage = indexes.coverage_of(indexes.IndexSpec(index.column, index.kind), present, fragments)
        built = next((built for built in present if (built.column, built.kind) == (index.column, index.kind)), None)
        yield IndexCoverage(
            table_key=entity.alias,
            branch=name,
            column=index.column,
            kind=index.kind,
            coverage=coverage,
            rows=rows,
            is_built=built is not None,
            reason=_why_unused(dataset, index, built, rows),
            lance_type=None if built is None else built.lance_type,
            segments=0 if built is None else built.segments,
            pending_rows=pending.get(index.column, 0),
        )
    served = {index.column for index in declared}
    nothing = indexes.Degraded(tuple(sorted(fragments)), rows)
    for column in entity.properties:
        if column.name not in served:
            yield IndexCoverage(
                table_key=entity.alias,
                branch=name,
                column=column.name,
                kind=None,
                coverage=nothing,
                rows=rows,
                reason=_why_unindexed(column),
                pending_rows=pending.get(column.name, 0),
            )


def _why_unused(dataset: Dataset, declared: ColumnIndex, built: indexes.IndexDescription | None, rows: int) -> str:
    """Return why queries cannot use a declared index, or why it cannot be built; empty if `optimize` builds it."""
    if declared.kind is IndexKind.VECTOR and rows:
        row_bytes = _FLOAT_BYTES * int(dataset.schema.field(declared.column).type.list_size)
        if reason := indexes.why_no_vector_index(rows, row_bytes):
            return reason
    if built is not None:
        return "" if built.has_parameters(declared.text) else indexes.PARAMETERS_DIFFER
    if not rows:
        return indexes.NO_ROWS
    is_vector = declared.kind is IndexKind.VECTOR
    return indexes.NO_VECTORS if is_vector and not indexes.has_vectors(dataset, declared.column) else ""


def _why_unindexed(column: Property) -> str:
    return NO_INDEX if index_kind(column.type) else NO_KIND
