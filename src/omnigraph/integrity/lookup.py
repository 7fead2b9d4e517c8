"""What the rules must know of the graph that a commit starts from.

The rooms that can read the graph implement it: by indexed lookups for a mutation, by scans in buckets for a large
load. All answers are about the pinned snapshot, before the commit, and aligned with the question: one answer per value
asked for. Every question is about at least one value.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from omnigraph.base.ids import TypeId
from omnigraph.integrity.raw import Column


class GraphLookup(Protocol):
    """Questions about one type of the graph."""

    def present_ids(self, type_id: TypeId, ids: Column) -> Column:
        """For each id whether a row has it: booleans."""
        ...

    def unique_holders(self, type_id: TypeId, names: tuple[str, ...], rows: pa.RecordBatch) -> Column:
        """For each of the rows, which have the columns `names` and no null, the id of the row with those values.

        Null when no row has them. Equal means equal texts of `unique_keys`.
        """
        ...

    def edge_sources(self, type_id: TypeId, ids: Column) -> Column:
        """For each id of an edge its `src`, or null when there is no such edge."""
        ...

    def edge_counts(self, type_id: TypeId, sources: Column) -> Column:
        """For each id of a node how many edges of the type have it as their `src`: integers."""
        ...


class EmptyGraph:
    """A graph without rows: what a fresh graph is, and a type that is overwritten."""

    def present_ids(self, type_id: TypeId, ids: Column) -> Column:  # noqa: ARG002
        return pa.array(np.zeros(len(ids), dtype=np.bool_))

    def unique_holders(self, type_id: TypeId, names: tuple[str, ...], rows: pa.RecordBatch) -> Column:  # noqa: ARG002
        return pa.nulls(rows.num_rows, pa.utf8())

    def edge_sources(self, type_id: TypeId, ids: Column) -> Column:  # noqa: ARG002
        return pa.nulls(len(ids), pa.utf8())

    def edge_counts(self, type_id: TypeId, sources: Column) -> Column:  # noqa: ARG002
        return pa.array(np.zeros(len(sources), dtype=np.int64))
