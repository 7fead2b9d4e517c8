"""Small changes of a small dataset, of every kind, for tests that compare versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from omnigraph.storage.lance.commit import commit_compaction, commit_restore, commit_staged
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.read import locate_rows
from omnigraph.storage.lance.stage import (
    stage_replacement,
    stage_update,
    stage_upsert,
    write_deletions,
    write_moved_rows,
    write_rows,
)
from tests.storage.raw_writes import stage_append, stage_delete, stage_overwrite

KEY: Any = {"lance-schema:unenforced-primary-key": "true"}
FIELDS: list[Any] = [
    pa.field("id", pa.utf8(), nullable=False, metadata=KEY),
    pa.field("n", pa.int64()),
    pa.field("text", pa.utf8()),
]
SCHEMA = pa.schema(FIELDS)
IDS = [f"r{number}" for number in range(8)]


def rows(values: dict[str, int]) -> pa.Table:
    columns = [list(values), list(values.values()), [f"t{number}" for number in values.values()]]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


def contents(dataset: Dataset) -> dict[str, tuple[Any, ...]]:
    return {row["id"]: tuple(row.values()) for row in dataset.read().to_pylist()}


def upsert(dataset: Dataset, name: str, number: int) -> Dataset:
    return commit_staged(dataset, stage_upsert(dataset, rows({name: number})))


def update_column(dataset: Dataset, name: str, number: int) -> Dataset:
    if name not in contents(dataset):
        return dataset
    some = pa.table({"id": [name], "n": pa.array([number], pa.int64())})
    return commit_staged(dataset, stage_update(dataset, some))


def delete(dataset: Dataset, name: str, _: int) -> Dataset:
    staged = stage_delete(dataset, f"id = '{name}'")
    return dataset if staged is None else commit_staged(dataset, staged)


def append(dataset: Dataset, name: str, number: int) -> Dataset:
    if name in contents(dataset):
        return dataset
    return commit_staged(dataset, stage_append(dataset, rows({name: number})))


def overwrite(dataset: Dataset, name: str, number: int) -> Dataset:
    return commit_staged(dataset, stage_overwrite(dataset, rows({name: number, "kept": 0})))


def compact(dataset: Dataset, _: str, __: int) -> Dataset:
    return commit_compaction(dataset, 1000).dataset


def fence(dataset: Dataset, _: str, __: int) -> Dataset:
    return commit_restore(dataset, dataset.version, {})


def go_back(dataset: Dataset, _: str, number: int) -> Dataset:
    """Restore an earlier version, as only an external tool does."""
    version = dataset.version - 1 - number
    return commit_restore(dataset, version, {}) if version in dataset.versions() else dataset


def move(dataset: Dataset, name: str, number: int) -> Dataset:
    """Replace rows as a merge does: one row is moved, one is new."""
    located = locate_rows(dataset, pa.array([name]))
    if not located.num_rows:
        return dataset
    identities: Any = located.column("_rowid").to_pylist()
    addresses: Any = located.column("_rowaddr").to_pylist()
    moved = write_moved_rows(dataset, rows({name: number}), identities)
    new = f"new{dataset.version}"
    fragments = [*moved, *([] if new in contents(dataset) else write_rows(dataset, rows({new: 1})))]
    deletions = write_deletions(dataset, addresses)
    return commit_staged(dataset, stage_replacement(dataset, deletions, fragments))


OPERATIONS: list[Callable[[Dataset, str, int], Dataset]] = [
    *(upsert, update_column, delete, append, overwrite, compact, fence, go_back, move)
]
STEPS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.sampled_from(IDS), st.integers(0, 3)), min_size=0, max_size=6
)


def run(dataset: Dataset, steps: list[Any]) -> Dataset:
    for operation, name, number in steps:
        dataset = operation(dataset, name, number)
    return dataset
