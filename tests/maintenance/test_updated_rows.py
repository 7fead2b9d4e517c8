"""No index finds the old values of updated rows, after any step of maintenance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.api.graph import Graph
from omnigraph.maintenance.optimize.options import OptimizeOptions
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.stage import StagedTransaction, stage_upsert
from omnigraph.storage.location import Location
from tests.maintenance.graphs import DIMENSIONS, DOC, append, change, create, docs, in_place, open_table

COUNT = 40


@pytest.mark.parametrize("rows_per_task", [1, 1_000_000], ids=["fold alone", "with compaction"])
def test_indexed_and_scanned_answers_are_equal(local_location: Location, rows_per_task: int) -> None:
    create(local_location)
    append(local_location, "a", COUNT)
    append(local_location, "b", COUNT + 1)
    _optimize(local_location, rows_per_task)
    first = open_table(local_location, DOC).read(["face"], "id = 'a0'")
    old = np.array(first.column("face").to_pylist()[0], "float32")
    for seed in (1, 2):
        _update(local_location, 3, seed)
        _optimize(local_location, rows_per_task)
        dataset = open_table(local_location, DOC)
        for word in ("fox", "cat"):
            assert _count_matches(dataset, word) == dataset.count_rows(f"contains(title, '{word}')")
        assert _nearest(dataset, old, use_index=True) == _nearest(dataset, old, use_index=False)


def _optimize(location: Location, rows_per_task: int) -> None:
    optimize_all_tables(Graph(location), OptimizeOptions(rows_per_task=rows_per_task), in_place)


def _update(location: Location, count: int, seed: int) -> None:
    """Give the first documents another title and another face."""

    def stage(dataset: Dataset) -> StagedTransaction:
        rows = docs(dataset.schema, "a", COUNT).slice(0, count)
        faces = np.random.default_rng(seed).normal(size=(count, DIMENSIONS)).astype("float32")
        values = {"title": [f"cat {seed} {number}" for number in range(count)], "face": list(faces)}
        for name, column in values.items():
            position = rows.schema.get_field_index(name)
            field = rows.schema.field(position)
            rows = rows.set_column(position, field, pa.array(column, field.type))
        return stage_upsert(dataset, rows)

    change(location, {DOC: stage}, rows=0)


def _count_matches(dataset: Dataset, word: str) -> int:
    return dataset.native.to_table(full_text_query=word, columns=["id"]).num_rows


def _nearest(dataset: Dataset, vector: Any, *, use_index: bool) -> list[str]:
    query = {"column": "face", "q": vector, "k": 5, "metric": "cosine", "use_index": use_index, "refine_factor": 20}
    matches = dataset.native.to_table(nearest=query, columns=["id", "_distance"])
    return [str(row_id) for row_id in matches.column("id").to_pylist()]
