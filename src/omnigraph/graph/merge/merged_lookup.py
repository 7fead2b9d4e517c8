"""What the integrity rules ask of our side of a merge, by the names of the merged schema. Nothing here writes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.base.ids import TypeId
from omnigraph.graph.images import column_names
from omnigraph.graph.lookup import SnapshotLookup
from omnigraph.storage.row_reads import joined_batches


class MergedLookup(SnapshotLookup):
    """A lookup by the names of the merged schema in tables that still have those of ours."""

    def _batches(
        self, type_id: TypeId, columns: list[str], rows: int, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        table, entity = self._table(type_id), self.snapshot.schema.catalog.type_with_id(type_id)
        if table is None or entity is None or table.row_count == 0:
            return
        dataset = self._open(table)
        there = column_names(dataset, entity)
        if not all(name in there for name in columns):
            return  # a new column: every row of ours is looked at itself, unless it has null there
        found = dataset.read_batches([there[name] for name in columns], where)
        for batch in joined_batches(found, rows):
            yield pa.RecordBatch.from_arrays([batch.column(there[name]) for name in columns], columns)
