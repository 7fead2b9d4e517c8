"""What the integrity rules ask of a snapshot, answered by reading its tables at their pins.

A few values are looked up by filter, which an index serves; many are found by one scan of the columns concerned.
As many rows are compared at a time as values are asked for, so that memory follows the question and not the table,
and the time both of them once. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column
from omnigraph.base import limits
from omnigraph.base.ids import TypeId
from omnigraph.graph.manifest.records import TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot, open_table
from omnigraph.integrity.set_rules import unique_keys
from omnigraph.storage.lance.dataset import Dataset, any_of
from omnigraph.storage.lance.read import combine_batches

_TEXT: Final = pa.utf8()


@dataclass(frozen=True, slots=True)
class SnapshotLookup:
    """A `GraphLookup` over one snapshot."""

    snapshot: Snapshot

    def present_ids(self, type_id: TypeId, ids: Column) -> Column:
        found = [batch.column("id") for batch in self._rows_with(type_id, ["id"], "id", ids)]
        answer: Column = pc.is_in(ids, value_set=_joined(found), skip_nulls=True)
        return answer

    def unique_holders(self, type_id: TypeId, names: tuple[str, ...], rows: pa.RecordBatch) -> Column:
        asked = unique_keys([rows.column(name) for name in names])
        keys: list[Column] = []
        holders: list[Column] = []
        for batch in self._batches(type_id, ["id", *names], len(asked)):
            there = unique_keys([batch.column(name) for name in names])
            hits = pc.is_in(there, value_set=asked, skip_nulls=True)
            keys.append(there.filter(hits))
            holders.append(batch.column("id").filter(hits))
        return _mapped(asked, _joined(keys), _joined(holders))

    def edge_sources(self, type_id: TypeId, ids: Column) -> Column:
        found = list(self._rows_with(type_id, ["id", "src"], "id", ids))
        keys = _joined([batch.column("id") for batch in found])
        return _mapped(ids, keys, _joined([batch.column("src") for batch in found]))

    def edge_ends(self, type_id: TypeId, name: str) -> tuple[str, str]:
        """The nodes that an edge joins, which need not be there."""
        rows = self._rows_with(type_id, ["id", "src", "dst"], "id", pa.array([name], pa.string()))
        first = next(row for batch in rows for row in batch.to_pylist())
        return str(first["src"]), str(first["dst"])

    def edge_counts(self, type_id: TypeId, sources: Column) -> Column:
        counts = np.zeros(len(sources), dtype=np.int64)
        for batch in self._rows_with(type_id, ["src"], "src", sources):
            at = pc.index_in(batch.column("src"), value_set=sources, skip_nulls=True).drop_null()
            counts += np.bincount(at.to_numpy(zero_copy_only=False), minlength=len(sources))
        return pa.array(counts)

    def edges_at(self, type_id: TypeId, end: str, nodes: Column) -> Column:
        """The ids of the edges whose `src` or `dst` is one of these nodes."""
        return _joined([batch.column("id") for batch in self._rows_with(type_id, ["id", end], end, nodes)])

    def edges_beyond(self, type_id: TypeId, end: str, kept: Column) -> Column:
        """The ids of the edges whose `src` or `dst` is not one of `kept`."""
        found: list[Column] = []
        for batch in self._batches(type_id, ["id", end], len(kept)):
            known = pc.is_in(batch.column(end), value_set=kept, skip_nulls=True)
            found.append(batch.column("id").filter(pc.invert(known)))
        return _joined(found)

    def _rows_with(
        self, type_id: TypeId, columns: list[str], name: str, values: Column
    ) -> Iterator[pa.RecordBatch]:
        """The rows whose `name` is one of `values`."""
        if len(values) <= limits.LOOKUP_FILTER_VALUES_MAX:
            yield from self._batches(type_id, columns, 0, any_of(name, values.drop_null().to_pylist()))
            return
        for batch in self._batches(type_id, columns, len(values)):
            yield batch.filter(pc.is_in(batch.column(name), value_set=values, skip_nulls=True))

    def _batches(
        self, type_id: TypeId, columns: list[str], rows: int, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a type, about so many at a time."""
        table = self._table(type_id)
        if table is not None and table.row_count > 0:
            yield from combine_batches(self._open(table).read_batches(columns, where), rows)

    def _table(self, type_id: TypeId) -> TableRecord | None:
        return next((table for table in self.snapshot.tables.values() if table.type_id == type_id), None)

    def _open(self, table: TableRecord) -> Dataset:
        return open_table(self.snapshot.root, table)


def _joined(columns: list[Column]) -> Column:
    return pa.chunked_array(columns, type=_TEXT).combine_chunks()


def _mapped(asked: Column, keys: Column, values: Column) -> Column:
    """For each key that was asked for its value, or null."""
    return values.take(pc.index_in(asked, value_set=keys, skip_nulls=True))
