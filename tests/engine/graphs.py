"""Small graphs for one test: a snapshot of real tables with the rows of the test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.api.graph import init
from omnigraph.engine.cache import Cache
from omnigraph.engine.context import Trace
from omnigraph.engine.options import EngineOptions
from omnigraph.engine.run import QueryRunOptions
from omnigraph.graph.manifest.records import Pin
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.schema.property_types import IndexKind
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.lance.dataset import Dataset, create_dataset
from omnigraph.storage.lance.indexes import IndexPlan, IndexSpec, build_index_segment, commit_index_segments, plan_index
from tests.engine.running import PlannedText

Rows = list[dict[str, Any]]


def make_snapshot(
    folder: Path,
    schema: str,
    tables: Mapping[str, Rows | pa.Table],
    indexes: Mapping[str, tuple[str, ...]] | None = None,
) -> Snapshot:
    """Return a graph with these rows. The default `id` of a node is its first key, that of an edge a number."""
    snapshot = init(str(folder / "graph.omni"), schema).snapshot()
    catalog = snapshot.schema.catalog
    types: tuple[NodeType | EdgeType, ...] = (*catalog.nodes, *catalog.edges)
    records = dict(snapshot.tables)
    for entity in types:
        rows = tables.get(entity.alias, [])
        table = rows if isinstance(rows, pa.Table) else _table(rows, entity)
        record = records[entity.alias]
        path = f"{record.path}-filled"
        dataset = create_dataset(snapshot.root.child(path), table)
        for column in (indexes or {}).get(entity.alias, ()):
            dataset = add_index(dataset, column)
        pin = Pin(None, dataset.version)
        records[entity.alias] = replace(record, path=path, pin=pin, row_count=table.num_rows)
    return replace(snapshot, tables=records)


def add_index(dataset: Dataset, column: str) -> Dataset:
    """Return the dataset with a BTREE index on one column."""
    spec = IndexSpec(column, IndexKind.BTREE)
    plan = plan_index(dataset, spec)
    assert isinstance(plan, IndexPlan)
    return commit_index_segments(dataset, spec, [build_index_segment(dataset, plan, plan.fragment_ids)])


def ask(
    snapshot: Snapshot,
    body: str,
    options: EngineOptions | None = None,
    *,
    cache: Cache | None = None,
    trace: Trace | None = None,
) -> list[tuple[Any, ...]]:
    """Return the rows of `query q() { body }` as tuples."""
    run_options = QueryRunOptions(options or EngineOptions(), cache or Cache(), trace)
    result = PlannedText(f"query q() {{ {body} }}").run(snapshot, None, run_options)
    return [tuple(row.values()) for row in result.to_pylist()]


def _table(rows: Rows, entity: NodeType | EdgeType) -> pa.Table:
    schema = arrow_schema(entity)
    full = []
    for number, row in enumerate(rows):
        key = entity.key[0] if entity.key and isinstance(entity, NodeType) else None
        default = str(row[key]) if key else f"e{number}"
        full.append({"id": default} | row)
    return pa.Table.from_arrays(
        [pa.array([row.get(field.name) for row in full], type=field.type) for field in schema], schema=schema
    )
