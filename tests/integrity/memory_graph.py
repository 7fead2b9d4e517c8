"""A graph in dictionaries, with the lookups of the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.base.ids import TypeId
from omnigraph.integrity.set_rules import unique_keys

Row = Mapping[str, object]


@dataclass(frozen=True)
class MemoryGraph:
    """Rows by type and id; `asked` has the lookups."""

    rows: Mapping[TypeId, Mapping[str, Row]]
    asked: list[str] = field(default_factory=list)

    def _of(self, type_id: TypeId, question: str) -> Mapping[str, Row]:
        self.asked.append(question)
        return self.rows.get(type_id, {})

    def present_ids(self, type_id: TypeId, ids: pa.Array[Any]) -> pa.Array[Any]:
        assert len(ids)
        rows = self._of(type_id, "present_ids")
        return pa.array([identity in rows for identity in ids.to_pylist()], pa.bool_())

    def ids_with_values(self, type_id: TypeId, names: tuple[str, ...], rows: pa.RecordBatch) -> pa.Array[Any]:
        assert rows.num_rows
        existing = self._of(type_id, "ids_with_values")
        held = {
            tuple(row.get(name) for name in names): identity
            for identity, row in existing.items()
            if all(row.get(name) is not None for name in names)
        }
        assert unique_keys([rows.column(name) for name in names]).null_count == 0
        return pa.array([held.get(tuple(row.values())) for row in rows.to_pylist()], pa.utf8())

    def edge_sources(self, type_id: TypeId, ids: pa.Array[Any]) -> pa.Array[Any]:
        assert len(ids)
        rows = self._of(type_id, "edge_sources")
        return pa.array([rows.get(identity or "", {}).get("src") for identity in ids.to_pylist()], pa.utf8())

    def edge_counts(self, type_id: TypeId, sources: pa.Array[Any]) -> pa.Array[Any]:
        assert len(sources)
        ends = [row["src"] for row in self._of(type_id, "edge_counts").values()]
        return pa.array([ends.count(source) for source in sources.to_pylist()], pa.int64())
