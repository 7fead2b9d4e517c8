"""A pool of table variants, so that tests get snapshots of many small graphs cheaply.

Each table of the schema is created several times with different contents, as real datasets next to a real graph; a
snapshot combines one variant of each table. Some variants have indexes, several fragments or deleted rows.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from omnigraph.api.graph import init
from omnigraph.base.ids import Incarnation
from omnigraph.graph.manifest.records import Pin, TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.schema.property_types import IndexKind
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.lance.dataset import Dataset, create_dataset
from omnigraph.storage.lance.indexes import IndexPlan, IndexSpec, build_index_segment, commit_index_segments, plan_index
from tests.query.golden_files import GOLDEN, read_text
from tests.query.sample_graphs import VARIANTS, Rows, sample_rows


@dataclass(frozen=True, slots=True)
class Variant:
    """One table: its record, and its rows as the reference reads them."""

    record: TableRecord
    rows: Rows


class Pool:
    """All variants by alias, over one snapshot. Not a dataclass, because Hypothesis would print all of it."""

    def __init__(self, snapshot: Snapshot, variants: Mapping[str, Sequence[Variant]]) -> None:
        self.snapshot = snapshot
        self.variants = variants

    def choose(self, numbers: Mapping[str, int]) -> tuple[Snapshot, dict[str, Rows]]:
        """Return a snapshot with these variants, and its tables for the reference."""
        chosen = {alias: self.variants[alias][number] for alias, number in numbers.items()}
        tables = {alias: variant.record for alias, variant in chosen.items()}
        rows = {alias: variant.rows for alias, variant in chosen.items()}
        return replace(self.snapshot, tables=tables), rows


def make_pool(folder: Path, seed: int = 7) -> Pool:
    """Create all variants."""
    graph = init(str(folder / "pool.omni"), read_text(GOLDEN / "schema.pg"))
    snapshot = graph.snapshot()
    dice = random.Random(seed)
    variants = {
        alias: [_variant(snapshot, alias, number, dice) for number in range(count)] for alias, count in VARIANTS.items()
    }
    return Pool(snapshot, variants)


def _variant(snapshot: Snapshot, alias: str, number: int, dice: random.Random) -> Variant:
    record = snapshot.tables[alias]
    catalog = snapshot.schema.catalog
    types: tuple[NodeType | EdgeType, ...] = (*catalog.nodes, *catalog.edges)
    entity = next(entity for entity in types if entity.alias == alias)
    rows = sample_rows(alias, number, dice)
    schema = arrow_schema(entity)
    path = f"{record.path}-v{number}"
    dataset = create_dataset(snapshot.root.child(path), _table(rows, schema))
    if number % 2:
        dataset = _add_indexes(dataset, ("src", "dst") if alias.startswith("edge:") else ("id",))
    incarnation = Incarnation(f"{number:016x}")
    pin = Pin(None, dataset.version)
    new = replace(record, path=path, incarnation=incarnation, pin=pin, row_count=len(rows))
    return Variant(new, rows)


def _add_indexes(dataset: Dataset, columns: Sequence[str]) -> Dataset:
    for column in columns:
        spec = IndexSpec(column, IndexKind.BTREE)
        plan = plan_index(dataset, spec)
        if isinstance(plan, IndexPlan):
            segment = build_index_segment(dataset, plan, plan.fragment_ids)
            dataset = commit_index_segments(dataset, spec, [segment])
    return dataset


def _table(rows: Rows, schema: pa.Schema) -> pa.Table:
    columns = [pa.array([row[field.name] for row in rows], type=field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)
