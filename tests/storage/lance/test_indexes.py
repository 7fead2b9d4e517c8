from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.commit import commit_branch, commit_staged
from omnigraph.storage.lance.dataset import Dataset, create_dataset, open_dataset
from omnigraph.storage.lance.indexes import (
    NOT_NEEDED,
    NOT_POSSIBLE,
    Degraded,
    Indexed,
    IndexPlan,
    IndexSpec,
    Unbuildable,
    build_index_segment,
    commit_index_segments,
    plan_index,
    read_coverage,
    read_indexes,
    why_no_vector_index,
)
from omnigraph.storage.lance.stage import stage_upsert
from omnigraph.storage.location import Location
from tests.storage.raw_writes import commit_index, stage_append, stage_delete

DIMENSIONS = 16
BTREE = IndexSpec("id", IndexKind.BTREE)
TEXT = IndexSpec("text", IndexKind.INVERTED)
VECTOR = IndexSpec("vector", IndexKind.VECTOR)
SPECS = (BTREE, TEXT, VECTOR)


def _documents(prefix: str, count: int, *, vectors: bool = True) -> pa.Table:
    values = np.random.default_rng(len(prefix)).normal(size=(count, DIMENSIONS)).astype("float32")
    kind = pa.list_(pa.float32(), DIMENSIONS)
    return pa.table(
        {
            "id": [f"{prefix}{number}" for number in range(count)],
            "text": [f"the running fox {prefix}{number}" for number in range(count)],
            "vector": pa.array(list(values) if vectors else [None] * count, kind),
        }
    )


def _make(location: Location, *counts: int) -> Dataset:
    dataset = create_dataset(location, _documents("a", counts[0]))
    for prefix, count in zip("bcdef", counts[1:], strict=False):
        dataset = commit_staged(dataset, stage_append(dataset, _documents(prefix, count)))
    return dataset


def _build(dataset: Dataset, spec: IndexSpec) -> Dataset:
    built = commit_index(dataset, spec)
    assert isinstance(built, Dataset)
    return built


def _add(dataset: Dataset, spec: IndexSpec, fragment: int) -> Dataset:
    plan = plan_index(dataset, spec, [fragment])
    assert isinstance(plan, IndexPlan)
    return commit_index_segments(dataset, spec, [build_index_segment(dataset, plan, [fragment])])


def _nearest(dataset: Dataset, limit: int) -> int:
    query = {"column": "vector", "q": np.ones(DIMENSIONS, "float32"), "k": limit, "metric": "cosine"}
    return int(dataset.native.scanner(nearest=query).to_table().num_rows)


def test_every_kind_is_built_on_a_tiny_table(store_location: Location) -> None:
    dataset = _make(store_location, 1, 2)
    for spec in SPECS:
        dataset = _build(dataset, spec)
    assert [(index.name, index.kind, index.segments) for index in read_indexes(dataset)] == [
        ("id_btree", IndexKind.BTREE, 1),
        ("text_inverted", IndexKind.INVERTED, 1),
        ("vector_vector", IndexKind.VECTOR, 1),
    ]
    assert read_coverage(dataset, SPECS) == dict.fromkeys(SPECS, Indexed())
    assert _nearest(dataset, 3) == 3
    assert dataset.native.to_table(full_text_query="running").num_rows == 3
    assert dataset.count_rows("id = 'b1'") == 1


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind.value)
def test_segments_are_built_separately_and_committed_together(local_location: Location, spec: IndexSpec) -> None:
    dataset = _make(local_location, 10, 20, 30)
    plan = plan_index(dataset, spec)
    assert isinstance(plan, IndexPlan)
    assert plan.fragment_ids == (0, 1, 2)
    carried = pickle.loads(pickle.dumps(plan))
    segments = [build_index_segment(dataset, carried, part) for part in ([0, 1], [2])]
    assert dataset.newest().version == dataset.version
    indexed = commit_index_segments(dataset, spec, pickle.loads(pickle.dumps(segments)))
    assert indexed.version == dataset.version + 1
    assert read_coverage(indexed, [spec]) == {spec: Indexed()}
    assert read_indexes(indexed)[0].segments == 2
    match spec.kind:
        case IndexKind.BTREE:
            assert indexed.count_rows("id IN ('a1', 'c29')") == 2
        case IndexKind.INVERTED:
            assert indexed.native.to_table(full_text_query="running").num_rows == 60
        case IndexKind.VECTOR:
            assert _nearest(indexed, 60) == 60


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind.value)
def test_uncovered_fragments_are_added(local_location: Location, spec: IndexSpec) -> None:
    dataset = _build(_make(local_location, 10), spec)
    dataset = commit_staged(dataset, stage_append(dataset, _documents("b", 5)))
    assert read_coverage(dataset, [spec]) == {spec: Degraded((1,), 5)}
    dataset = _add(dataset, spec, 1)
    assert read_coverage(dataset, [spec]) == {spec: Indexed()}


def test_vector_segments_are_trained_by_themselves(local_location: Location) -> None:
    """Each segment has its own centroids and rotation, also one with few vectors and one without any."""
    dataset = _make(local_location, 600, 3)
    dataset = commit_staged(dataset, stage_append(dataset, _documents("n", 4, vectors=False)))
    plan = plan_index(dataset, VECTOR)
    assert isinstance(plan, IndexPlan)
    segments = [build_index_segment(dataset, plan, [part]) for part in plan.fragment_ids]
    indexed = commit_index_segments(dataset, VECTOR, segments)
    (index,) = read_indexes(indexed)
    assert (index.lance_type, index.segments, index.is_current) == ("IVF_RQ", 3, True)
    assert _nearest(indexed, 700) == 603


@pytest.mark.parametrize(
    ("rows", "row_bytes", "reason"),
    [(10, 64, NOT_NEEDED), (2**20, 64, NOT_NEEDED), (2**20 + 1, 64, ""), (2**30, 24, NOT_POSSIBLE)],
)
def test_a_vector_index_is_built_where_it_helps(rows: int, row_bytes: int, reason: str) -> None:
    assert why_no_vector_index(rows, row_bytes) == reason


@pytest.mark.parametrize(
    ("column", "lance_type", "settings"),
    [
        ("vector", "IVF_FLAT", {"metric": "cosine", "num_partitions": 1}),
        ("vector", "IVF_RQ", {"metric": "l2", "num_partitions": 1, "num_bits": 4}),
        ("vector", "IVF_RQ", {"metric": "cosine", "num_partitions": 1, "num_bits": 2}),
        ("text", "INVERTED", {"stem": False, "remove_stop_words": False, "with_position": True}),
    ],
)
def test_other_parameters_are_recognized(
    local_location: Location, column: str, lance_type: str, settings: dict[str, Any]
) -> None:
    """As earlier builds had them: folding, a length limit of 40, flat and other vector indexes."""
    native: Any = _make(local_location, 40).native
    create = native.create_scalar_index if lance_type == "INVERTED" else native.create_index
    create(column, lance_type, **settings)
    (index,) = read_indexes(open_dataset(local_location))
    assert not index.is_current


def test_unbuildable_index_has_a_reason(local_location: Location) -> None:
    empty = create_dataset(local_location.child("empty"), _documents("a", 0))
    assert commit_index(empty, BTREE) == Unbuildable(BTREE, "the table has no rows")
    bare = create_dataset(local_location.child("bare"), _documents("a", 3, vectors=False))
    assert commit_index(bare, VECTOR) == Unbuildable(VECTOR, "the column has no vectors")
    assert (empty.newest().version, bare.newest().version) == (1, 1)


def test_fragments_without_vectors_do_not_stop_a_build(local_location: Location) -> None:
    dataset = create_dataset(local_location, _documents("a", 5))
    dataset = commit_staged(dataset, stage_append(dataset, _documents("b", 5, vectors=False)))
    plan = plan_index(dataset, VECTOR)
    assert isinstance(plan, IndexPlan)
    segments = [build_index_segment(dataset, plan, [part]) for part in (0, 1)]
    assert _nearest(commit_index_segments(dataset, VECTOR, segments), 10) == 5


def test_an_index_serves_a_branch_of_a_branch(local_location: Location) -> None:
    dataset = _build(_make(local_location, 3), BTREE)
    branch = commit_branch(commit_branch(dataset, "g-1"), "g-2")
    assert read_coverage(branch, [BTREE]) == {BTREE: Indexed()}
    assert "ScalarIndexQuery" in branch.native.scanner(filter="id = 'a1'").explain_plan()
    branch = commit_staged(branch, stage_append(branch, _documents("b", 2)))
    branch = _add(branch, BTREE, 1)
    assert read_coverage(branch, [BTREE]) == {BTREE: Indexed()}
    assert read_coverage(dataset.newest(), [BTREE]) == {BTREE: Indexed()}


def test_updates_reduce_coverage_and_deletes_do_not(local_location: Location) -> None:
    dataset = _build(_build(_make(local_location, 10), BTREE), TEXT)
    removed = stage_delete(dataset, "id = 'a9'")
    assert removed is not None
    dataset = commit_staged(dataset, removed)
    assert read_coverage(dataset, [BTREE]) == {BTREE: Indexed()}
    dataset = commit_staged(dataset, stage_upsert(dataset, _documents("a", 2)))
    assert read_coverage(dataset, [BTREE, TEXT]) == {BTREE: Degraded((1,), 2), TEXT: Degraded((1,), 2)}
    assert dataset.count_rows("id = 'a1'") == 1


def test_a_column_may_have_one_index_of_each_kind(local_location: Location) -> None:
    """A String key has a full-text and an equality index; the planner uses the right one."""
    both = IndexSpec("text", IndexKind.BTREE)
    dataset = _build(_build(_make(local_location, 50), TEXT), both)
    plan = dataset.native.scanner(filter="text = 'the running fox a7'").explain_plan()
    assert "text_btree" in plan
    assert dataset.native.to_table(full_text_query="fox", limit=5).num_rows == 5
    assert read_coverage(dataset, [TEXT, both]) == {TEXT: Indexed(), both: Indexed()}
