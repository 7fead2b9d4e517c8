"""Answer what the integrity rules ask about a snapshot, by reading its tables at their pins.

A few values are looked up by a filter, which an index can serve; many values by one scan of the columns concerned.
The scan compares as many rows at a time as there are values, so that memory grows with the question and not with the
table. Nothing here writes.
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
from omnigraph.graph.manifest.snapshot import Snapshot, open_own_table
from omnigraph.integrity.set_rules import unique_keys
from omnigraph.storage.lance.dataset import any_of
from omnigraph.storage.lance.read import combine_batches
from omnigraph.storage.lance.small_fragments import fragments_with_ids

_TEXT: Final = pa.utf8()


@dataclass(frozen=True, slots=True)
class SnapshotLookup:
    """A `GraphLookup` over one snapshot."""

    snapshot: Snapshot

    def present_ids(self, type_id: TypeId, ids: Column) -> Column:
        table = self._table(type_id)
        if table is None or table.row_count == 0 or len(ids) > limits.LOOKUP_FILTER_VALUES_MAX:
            batches = self._rows_with(type_id, ["id"], "id", ids)
        else:
            dataset = open_own_table(self.snapshot, table)
            fragments = fragments_with_ids(dataset, ids)
            where = any_of("id", ids.drop_null().to_pylist())
            batches = dataset.read_fragments(fragments, ["id"], where) if fragments else iter(())
        id_columns = [batch.column("id") for batch in batches]
        answer: Column = pc.is_in(ids, value_set=_joined(id_columns), skip_nulls=True)
        return answer

    def ids_with_values(self, type_id: TypeId, names: tuple[str, ...], rows: pa.RecordBatch) -> Column:
        sought_keys = unique_keys([rows.column(name) for name in names])
        keys: list[Column] = []
        existing_ids: list[Column] = []
        for batch in self._batches(type_id, ["id", *names], len(sought_keys)):
            batch_keys = unique_keys([batch.column(name) for name in names])
            hits = pc.is_in(batch_keys, value_set=sought_keys, skip_nulls=True)
            keys.append(batch_keys.filter(hits))
            existing_ids.append(batch.column("id").filter(hits))
        return _mapped(sought_keys, _joined(keys), _joined(existing_ids))

    def edge_sources(self, type_id: TypeId, ids: Column) -> Column:
        batches = list(self._rows_with(type_id, ["id", "src"], "id", ids))
        keys = _joined([batch.column("id") for batch in batches])
        return _mapped(ids, keys, _joined([batch.column("src") for batch in batches]))

    def edge_endpoints(self, type_id: TypeId, name: str) -> tuple[str, str]:
        """Return the ids of the source and the target of an edge. The nodes need not exist."""
        rows = self._rows_with(type_id, ["id", "src", "dst"], "id", pa.array([name], pa.string()))
        first = next(row for batch in rows for row in batch.to_pylist())
        return str(first["src"]), str(first["dst"])

    def edge_counts(self, type_id: TypeId, sources: Column) -> Column:
        counts = np.zeros(len(sources), dtype=np.int64)
        for batch in self._rows_with(type_id, ["src"], "src", sources):
            indexes = pc.index_in(batch.column("src"), value_set=sources, skip_nulls=True).drop_null()
            counts += np.bincount(indexes.to_numpy(zero_copy_only=False), minlength=len(sources))
        return pa.array(counts)

    def edges_at(self, type_id: TypeId, end: str, nodes: Column) -> Column:
        """Return the ids of the edges whose `src` or `dst` is one of these nodes."""
        return _joined([batch.column("id") for batch in self._rows_with(type_id, ["id", end], end, nodes)])

    def edges_at_other_nodes(self, type_id: TypeId, end: str, nodes: Column) -> Column:
        """Return the ids of the edges whose `src` or `dst` is not one of these nodes."""
        edge_ids: list[Column] = []
        for batch in self._batches(type_id, ["id", end], len(nodes)):
            is_at_node = pc.is_in(batch.column(end), value_set=nodes, skip_nulls=True)
            edge_ids.append(batch.column("id").filter(pc.invert(is_at_node)))
        return _joined(edge_ids)

    def _rows_with(self, type_id: TypeId, columns: list[str], name: str, values: Column) -> Iterator[pa.RecordBatch]:
        """Yield the rows whose `name` is one of `values`."""
        if len(values) <= limits.LOOKUP_FILTER_VALUES_MAX:
            yield from self._batches(type_id, columns, 0, any_of(name, values.drop_null().to_pylist()))
            return
        for batch in self._batches(type_id, columns, len(values)):
            yield batch.filter(pc.is_in(batch.column(name), value_set=values, skip_nulls=True))

    def _batches(
        self, type_id: TypeId, columns: list[str], rows: int, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a type in batches of about `rows` rows."""
        table = self._table(type_id)
        if table is not None and table.row_count > 0:
            dataset = open_own_table(self.snapshot, table)
            yield from combine_batches(dataset.read_batches(columns, where), rows)

    def _table(self, type_id: TypeId) -> TableRecord | None:
        return next((table for table in self.snapshot.tables.values() if table.type_id == type_id), None)


def _joined(columns: list[Column]) -> Column:
    return pa.chunked_array(columns, type=_TEXT).combine_chunks()


def _mapped(sought_keys: Column, keys: Column, values: Column) -> Column:
    """Return the value for each sought key, or null."""
    return values.take(pc.index_in(sought_keys, value_set=keys, skip_nulls=True))
