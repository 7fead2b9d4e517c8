"""A graph whose schema declares every kind of index, rows for it, and ways to inspect what an index does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import lance
import numpy as np
import pyarrow as pa

from omnigraph.api.graph import init
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.stage import StagedTransaction, stage_upsert
from omnigraph.storage.location import Location
from tests.storage.raw_writes import stage_append, stage_delete

Task = TypeVar("Task")
Result = TypeVar("Result")

DIMENSIONS: Final = 8
SCHEMA: Final = f"""\
node Doc {{ slug: String @key  title: String @index  size: I32? @index  tag: enum(red, blue)? @index
  face: Vector({DIMENSIONS})? @index  note: String? }}
node Empty {{ name: String @key }}
edge Cites: Doc -> Doc {{ weight: F64? @index }}
"""
DOC: Final = "node:Doc"
EMPTY: Final = "node:Empty"
CITES: Final = "edge:Cites"


def in_place(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    return [function(task) for task in tasks]


def create(location: Location) -> None:
    init(location.uri, SCHEMA, storage_options=dict(location.options), actor="tester")


def docs(schema: pa.Schema, prefix: str, count: int, *, faces: bool = True) -> pa.Table:
    """Return documents `a0`, `a1`, …; `size` is the number, every second one is red."""
    vectors = np.random.default_rng(count).normal(size=(count, DIMENSIONS)).astype("float32")
    names = [f"{prefix}{number}" for number in range(count)]
    columns: dict[str, list[Any]] = {
        "id": names,
        "slug": names,
        "title": [f"the fox {name}" for name in names],
        "size": list(range(count)),
        "tag": ["red" if number % 2 else "blue" for number in range(count)],
        "face": list(vectors) if faces else [None] * count,
        "note": [f"note {name}" for name in names],
    }
    return _table(schema, columns)


def cites(schema: pa.Schema, prefix: str, count: int) -> pa.Table:
    names = [f"{prefix}{number}" for number in range(count)]
    weights = [float(number) for number in range(count)]
    return _table(schema, {"id": names, "src": names, "dst": names, "weight": weights})


def append(location: Location, prefix: str, count: int = 20, *, branch: str = MAIN, faces: bool = True) -> None:
    """Commit `count` documents and `count` citations."""
    change(
        location,
        {
            DOC: lambda dataset: stage_append(dataset, docs(dataset.schema, prefix, count, faces=faces)),
            CITES: lambda dataset: stage_append(dataset, cites(dataset.schema, prefix, count)),
        },
        branch=branch,
        rows=count,
    )


def upsert(location: Location, prefix: str, count: int) -> None:
    """Replace existing documents; the new sizes are above a million."""

    def stage(dataset: Dataset) -> StagedTransaction:
        rows = docs(dataset.schema, prefix, count)
        sizes = pa.array([1_000_000 + number for number in range(count)], pa.int32())
        position = rows.schema.get_field_index("size")
        return stage_upsert(dataset, rows.set_column(position, rows.schema.field(position), sizes))

    change(location, {DOC: stage}, rows=0)


def delete(location: Location, where: str) -> None:
    def stage(dataset: Dataset) -> StagedTransaction:
        staged = stage_delete(dataset, where)
        assert staged is not None
        return staged

    deleted = open_table(location, DOC).count_rows(where)
    change(location, {DOC: stage}, rows=-deleted)


def change(
    location: Location,
    stages: dict[str, Callable[[Dataset], StagedTransaction]],
    *,
    rows: int,
    branch: str = MAIN,
    environment: WriteEnvironment | None = None,
) -> None:
    """Commit once; each table gets `rows` more rows."""

    def stage(area: StagingArea) -> StagedWrite:
        effects = []
        for alias, stage_table in stages.items():
            target = area.open_for_write(alias)
            row_count = target.table.row_count + rows
            effects.append(area.transaction_effect(target, stage_table(target.dataset), row_count))
        return area.finish(tuple(effects), frozenset(), {})

    assert (
        write(location, branch, WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage), environment)
        is not None
    )


def open_table(location: Location, alias: str, branch: str = MAIN) -> Dataset:
    table = read_snapshot(location, branch).tables[alias]
    return open_dataset(location.child(table.path), branch=table.pin.branch, version=table.pin.version)


def count_scanned(dataset: Dataset, where: str) -> int:
    """Return the result of a full scan."""
    return int(dataset.native.scanner(filter=where, use_scalar_index=False, columns=["id"]).to_table().num_rows)


def rows_scanned(dataset: Dataset, where: str) -> int:
    """Return how many rows a filter reads, as Lance counts them; with a complete index only the matching ones."""
    report = dataset.native.scanner(filter=where, columns=["id"], late_materialization=False).analyze_plan()
    return sum(int(count) for count in re.findall(r"rows_scanned=(\d+)", report))


def nearest(dataset: Dataset, limit: int) -> lance.LanceScanner:
    query = {"column": "face", "q": np.ones(DIMENSIONS, "float32"), "k": limit, "metric": "cosine"}
    return dataset.native.scanner(nearest=query)


def _table(schema: pa.Schema, columns: dict[str, list[Any]]) -> pa.Table:
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
