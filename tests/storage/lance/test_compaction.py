"""Our compaction, and the behaviour of Lance that it needs, on every store, on main and on a fork (decision 0011)."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.optimize import Compaction

from omnigraph.base.errors import InvariantError, OmnigraphError
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.commit import commit_branch, commit_staged
from omnigraph.storage.lance.compaction import (
    LANCE_SUPPORTS_BLOB_COMPACTION,
    _require_same_rows,
    adopt_segment,
    clone_rewritten,
    rewrite_fragments,
    stage_rewrite,
    write_deletion_file,
)
from omnigraph.storage.lance.dataset import Dataset, branch_location, create_dataset
from omnigraph.storage.lance.fragments import describe_fragments, has_same_data, read_live_offsets
from omnigraph.storage.lance.indexes import (
    Degraded,
    Indexed,
    IndexPlan,
    IndexSpec,
    StagedSegment,
    build_index_segment,
    commit_index_segments,
    plan_index,
    read_coverage,
    read_indexes,
    stage_segment_drop,
)
from omnigraph.storage.lance.stage import stage_update, stage_upsert
from omnigraph.storage.lance.transactions import Operation, TransactionRecord, read_operations
from omnigraph.storage.location import Location
from tests.storage.raw_writes import stage_append, stage_delete
from tests.storage.samples import ids_of, make_people

GAP = 4096
ROWS = 300
DIMENSIONS = 16
NUMBER, WORDS, FACE = (
    IndexSpec("number", IndexKind.BTREE),
    IndexSpec("words", IndexKind.INVERTED),
    IndexSpec("face", IndexKind.VECTOR),
)
SPECS = (NUMBER, WORDS, FACE)
Built = list[tuple[IndexSpec, StagedSegment]]


def things(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    faces = np.random.default_rng(first).normal(size=count * DIMENSIONS).astype("float32")
    return pa.table(
        {
            "id": [f"k{number}" for number in numbers],
            "number": pa.array(numbers, pa.int64()),
            "words": [f"the fox w{number}" for number in numbers],
            "face": pa.FixedSizeListArray.from_arrays(pa.array(faces), DIMENSIONS),
        }
    )


def delete(dataset: Dataset, where: str) -> Dataset:
    staged = stage_delete(dataset, where)
    assert staged is not None
    return commit_staged(dataset, staged)


def append(dataset: Dataset, first: int, count: int = ROWS) -> Dataset:
    return commit_staged(dataset, stage_append(dataset, things(first, count)))


def plan(dataset: Dataset, spec: IndexSpec) -> IndexPlan:
    planned = plan_index(dataset, spec)
    assert isinstance(planned, IndexPlan)
    return planned


def answers_are_right(dataset: Dataset) -> None:
    """Check that every index gives the result of a full scan."""
    native = dataset.native
    numbers = set(native.to_table(columns=["number"])["number"].to_pylist())
    for number in (7, 450, 1051, 1203):
        expected = [number] if number in numbers else []
        assert native.to_table(filter=f"number = {number}")["number"].to_pylist() == expected
        numbers_found = native.to_table(full_text_query=f"w{number}")["number"].to_pylist()
        assert numbers_found == expected, f"w{number}"
    assert not numbers & {7, 1050, 1051}
    assert dataset.count_rows("number >= 0") == len(numbers)
    query = {"column": "face", "q": np.ones(DIMENSIONS, "float32"), "k": 50, "metric": "cosine"}
    near = native.to_table(nearest={**query, "nprobes": 64, "refine_factor": 100})
    exact = native.to_table(nearest={**query, "use_index": False})
    assert set(near["number"].to_pylist()) == set(exact["number"].to_pylist())
    checked: Any = native
    checked.validate()


def row_ids(dataset: Dataset) -> dict[str, int]:
    rows = dataset.native.scanner(columns=["id"], with_row_id=True).to_table().to_pylist()
    return {str(row["id"]): int(row["_rowid"]) for row in rows}


def indexed(location: Location, *, on_branch: bool) -> Dataset:
    """Create five fragments.

    The first three are indexed; on a fork, the last two are its own. Some rows are deleted.
    """
    dataset = create_dataset(location, things(0, ROWS))
    dataset = append(append(dataset, ROWS), 2 * ROWS)
    for spec in SPECS:
        segment = build_index_segment(dataset, plan(dataset, spec), (0, 1, 2))
        dataset = commit_index_segments(dataset, spec, [segment])
    if on_branch:
        dataset = commit_branch(dataset, "g-1")
    dataset = append(append(dataset, 3 * ROWS), 4 * ROWS)
    return delete(dataset, "number IN (7, 1050, 1051)")


def built_in_clone(clone: Dataset, dataset: Dataset) -> Built:
    """Build segments over every fragment that no segment covers in the clone, and move them to the dataset."""
    built = []
    present = {index.name: index.fragment_ids for index in read_indexes(clone)}
    for spec in SPECS:
        uncovered = sorted(describe_fragments(clone).keys() - present.get(spec.name, frozenset()))
        segment = build_index_segment(clone, plan(clone, spec), uncovered)
        directory = branch_location(dataset.location, dataset.branch)
        built.append((spec, adopt_segment(pickle.loads(pickle.dumps(segment)), clone.location, directory)))
    return built


def committed(dataset: Dataset, built: Built) -> Dataset:
    for spec, segment in built:
        dataset = commit_index_segments(dataset, spec, [segment])
    return dataset


def test_indexes_are_built_before_the_rewrite_is_committed(local_location: Location) -> None:
    rewrite_two_groups(local_location, on_branch=False)


@pytest.mark.soak
def test_indexes_are_built_before_the_rewrite_on_s3(s3_location: Location) -> None:
    rewrite_two_groups(s3_location, on_branch=True)


def test_indexes_are_built_before_the_rewrite_on_a_branch(local_location: Location) -> None:
    rewrite_two_groups(local_location, on_branch=True)


def rewrite_two_groups(store_location: Location, *, on_branch: bool) -> None:
    """Rewrite fragments 0, 1 and 3, 4; fragment 2 is kept, with the segment that covered 0, 1 and 2."""
    dataset = indexed(store_location.child("table"), on_branch=on_branch)
    before = row_ids(dataset)
    groups = [
        pickle.loads(pickle.dumps(rewrite_fragments(dataset, ids, 10_000))).numbered(GAP + ids[0])
        for ids in ((0, 1), (3, 4))
    ]
    assert [group.new_ids for group in groups] == [(GAP,), (GAP + 3,)]
    clone = clone_rewritten(dataset, store_location.child("scratch/clone"), groups)
    assert set(describe_fragments(clone)) == {2, GAP, GAP + 3}
    answers_are_right(clone)
    built = built_in_clone(clone, dataset)
    assert dataset.newest_version() == dataset.version, "no head moved"
    moved = append(dataset, 5 * ROWS)
    moved = commit_staged(moved, stage_rewrite(moved, groups).with_properties({"omnigraph:op": "x"}))
    (record,) = read_operations(moved, moved.version - 1, moved.version)
    assert isinstance(record, TransactionRecord)
    assert (record.operation, record.properties) == (Operation.REWRITE, {"omnigraph:op": "x"})
    answers_are_right(moved)
    by_address, by_identity = frozenset({2}), frozenset({2, GAP})
    assert {index.kind: index.fragment_ids for index in read_indexes(moved)} == {
        IndexKind.BTREE: by_address,
        IndexKind.INVERTED: by_identity,
        IndexKind.VECTOR: by_identity,
    }
    moved = committed(moved, built)
    answers_are_right(moved)
    assert set(read_coverage(moved, SPECS).values()) == {Degraded((5,), ROWS)}
    assert {name: row_ids(moved)[name] for name in before} == before
    later = append(moved, 6 * ROWS)
    assert max(describe_fragments(later)) == GAP + 4, "Lance continues after the highest fragment id"
    later.native_copy().optimize.optimize_indices()
    later.newest().native_copy().optimize.compact_files()
    answers_are_right(later.newest())
    answers_are_right(dataset)


def test_rewrite_of_a_partially_covered_group_requires_a_segment_drop(durable_location: Location) -> None:
    """Also: a segment whose fragments were all removed is replaced."""
    dataset = indexed(durable_location.child("table"), on_branch=False)
    group = rewrite_fragments(dataset, (0, 1, 2, 3, 4), 10_000).numbered(GAP)
    with pytest.raises(OmnigraphError):
        commit_staged(dataset, stage_rewrite(dataset, [group]))
    split = {part.uuid for index in read_indexes(dataset) if index.kind is not IndexKind.BTREE for part in index.parts}
    assert len(split) == 2
    clone = clone_rewritten(dataset, durable_location.child("clone"), [group], split)
    built = built_in_clone(clone, dataset)
    dropped = commit_staged(dataset, stage_segment_drop(dataset, split).with_properties({"omnigraph:op": "x"}))
    assert [index.name for index in read_indexes(dropped)] == [NUMBER.name]
    moved = committed(commit_staged(dropped, stage_rewrite(dropped, [group])), built)
    assert set(read_coverage(moved, SPECS).values()) == {Indexed()}
    assert {(index.segments, index.fragment_ids) for index in read_indexes(moved)} == {(1, frozenset({GAP}))}
    answers_are_right(moved)


def test_changed_fragments_are_detected(local_location: Location) -> None:
    dataset = make_people(local_location, ["a", "a2"], ["b"], ["c"])
    then = describe_fragments(dataset)
    assert describe_fragments(dataset.newest()) == then
    now = describe_fragments(delete(dataset, "id = 'a'"))
    assert [number for number in then if now[number] != then[number]] == [0]
    assert now[0].files == then[0].files
    assert (now[0].rows, now[0].deleted_rows) == (1, 1)
    assert then[0].size_bytes > 0


def test_rewrite_keeps_row_ids_and_drops_deleted_rows(local_location: Location) -> None:
    dataset = make_people(local_location, ["a", "a2"], ["b"], ["c"], ["d"])
    dataset = delete(dataset, "id = 'a'")
    before = row_ids(dataset)
    group = rewrite_fragments(dataset, (0, 1), 100).numbered(GAP)
    assert group.new[0].physical_rows == 2
    moved = commit_staged(dataset, stage_rewrite(dataset, [group]))
    assert list(describe_fragments(moved)) == [2, 3, GAP], "in the order of their ids"
    assert ids_of(moved) == ["a2", "b", "c", "d"]
    assert row_ids(moved) == before
    assert ids_of(dataset) == ["a2", "b", "c", "d"]


def test_deleted_rows_are_not_rewritten(local_location: Location) -> None:
    dataset = make_people(local_location, ["a", "a2"], ["b"])
    dataset = delete(dataset, "id = 'a'")
    group = rewrite_fragments(dataset, (0,), 100)
    assert [fragment.physical_rows for fragment in group.new] == [1]


def test_rewrite_may_have_deletion_files(durable_location: Location) -> None:
    """On every store and on a fork: rows, identities, versions of rows and later changes are correct."""
    location = durable_location.child("table")
    dataset = commit_branch(create_dataset(location, things(0, 10)), "g-1")
    dataset = delete(append(dataset, 10, 10), "number IN (2, 3)")
    group = rewrite_fragments(dataset, (0, 1), 100).numbered(GAP)
    now = commit_staged(dataset, stage_upsert(dataset, things(5, 1)))
    now = delete(now, "number = 12")
    before = _versioned_rows(now)
    (masked,) = [write_deletion_file(now, new, np.array([3, 10], np.uint32)) for new in group.written]
    assert masked.num_deletions == 2
    group = replace(group, written=(masked,), deleted={GAP: np.array([3, 10], np.uint32)})
    clone = clone_rewritten(dataset, durable_location.child("clone"), [group])
    assert clone.count_rows() == 16, "the clone of a masked group reads the deletion file where it is"
    moved = commit_staged(now, stage_rewrite(now, [group]))
    assert _versioned_rows(moved) == before
    assert {number: f.deleted_rows for number, f in describe_fragments(moved).items()} == {2: 0, GAP: 2}
    assert read_live_offsets(moved, GAP).tolist() == [row for row in range(18) if row not in (3, 10)]
    checked: Any = moved.native
    checked.validate()
    later = delete(commit_staged(moved, stage_upsert(moved, things(0, 1))), "number = 19")
    assert describe_fragments(later)[GAP].deleted_rows == 4
    assert set(later.read(["number"])["number"].to_pylist()) == {0, 1, *range(4, 12), *range(13, 19)}
    assert later.count_rows() == 16
    again = rewrite_fragments(later, sorted(describe_fragments(later)), 100).numbered(2 * GAP)
    assert _versioned_rows(commit_staged(later, stage_rewrite(later, [again]))) == _versioned_rows(later)


def test_large_deletion_file_as_an_array_is_read(local_location: Location) -> None:
    """Lance writes a bitmap for many rows; what we write is always an array."""
    dataset = create_dataset(local_location, things(0, 20_000))
    group = rewrite_fragments(dataset, (0,), 100_000).numbered(GAP)
    rows = np.arange(0, 20_000, 2, dtype=np.uint32)
    written = (write_deletion_file(dataset, group.written[0], rows),)
    moved = commit_staged(dataset, stage_rewrite(dataset, [replace(group, written=written)]))
    assert moved.count_rows("number % 2 = 1") == moved.count_rows() == 10_000
    assert read_live_offsets(moved, GAP).tolist() == list(range(1, 20_000, 2))
    assert read_live_offsets(dataset, 0).tolist() == list(range(20_000))


def test_an_update_and_a_delete_change_only_the_deletion_file_of_a_fragment(local_location: Location) -> None:
    """And a fragment without live rows no longer exists; its id is not reused."""
    dataset = append(create_dataset(local_location, things(0, 10)), 10, 1)
    then = describe_fragments(dataset)
    now = delete(commit_staged(dataset, stage_upsert(dataset, things(5, 1))), "number = 6")
    now = commit_staged(now, stage_update(now, things(7, 1).select(["id", "words"])))
    assert now.count_rows("number = 7") == 1
    assert has_same_data(then[0].native, describe_fragments(now)[0].native)
    assert read_live_offsets(now, 0).tolist() == [0, 1, 2, 3, 4, 8, 9]
    now = commit_staged(now, stage_upsert(now, things(10, 1)))
    numbers = set(describe_fragments(now))
    assert 1 not in numbers
    now = append(delete(now, "number = 10"), 20, 1)
    assert max(numbers) not in describe_fragments(now)
    assert max(describe_fragments(now)) == max(numbers) + 1


def test_segment_may_have_fragments_without_rows(local_location: Location) -> None:
    dataset = append(append(create_dataset(local_location, things(0, 10)), 10, 1), 11, 10)
    built = [(spec, build_index_segment(dataset, plan(dataset, spec), (0, 1, 2))) for spec in SPECS]
    now = delete(commit_staged(dataset, stage_upsert(dataset, things(10, 1))), "number = 7")
    assert 1 not in describe_fragments(now)
    now = committed(now, built)
    answers_are_right(now)
    assert now.count_rows("number = 10") == 1


def test_rows_in_different_order_are_detected(local_location: Location) -> None:
    """Positions depend on the order of rows, so a worker compares the identities."""
    dataset = append(create_dataset(local_location, things(0, 3)), 3, 3)
    group = rewrite_fragments(dataset, (0, 1), 100)
    for identities in ([0, 1, 2, 3, 5, 4], [0, 1, 2, 3, 4], []):
        with pytest.raises(InvariantError, match="expected"):
            _require_same_rows(np.array(identities, np.uint64), group.written, dataset.uri)
    _require_same_rows(np.arange(6, dtype=np.uint64), group.written, dataset.uri)


def _versioned_rows(dataset: Dataset) -> list[dict[str, Any]]:
    columns = ["id", "number", "words", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = dataset.native.scanner(columns=columns, with_row_id=True).to_table()
    return list(rows.sort_by("id").to_pylist())


def test_lance_rejects_a_rewrite_after_a_concurrent_delete(local_location: Location) -> None:
    """Our own check runs under the lease; this is a second protection."""
    dataset = make_people(local_location, ["a", "a2"], ["b"])
    group = rewrite_fragments(dataset, (0, 1), 100).numbered(GAP)
    delete(dataset, "id = 'a'")
    with pytest.raises(OmnigraphError):
        commit_staged(dataset, stage_rewrite(dataset, [group]))
    assert ids_of(dataset.newest()) == ["a2", "b"]


def test_the_options_of_a_task_are_those_of_the_installed_lance(local_location: Location) -> None:
    """We write the description of a task. If Lance's own has other options, update `_TASK_OPTIONS`."""
    dataset = make_people(local_location, ["a"], ["b"])
    tasks: list[Any] = list(Compaction.plan(dataset.native, options={}).tasks)
    from omnigraph.storage.lance.compaction import _TASK_OPTIONS

    options = json.loads(tasks[0].json())["options"]
    assert options.keys() == _TASK_OPTIONS.keys() | {"target_rows_per_fragment"}
    ours = {"materialize_deletions_threshold", "has_eager_remappable_index", "target_rows_per_fragment"}
    assert {name: options[name] for name in options.keys() - ours} == {
        name: _TASK_OPTIONS[name] for name in _TASK_OPTIONS.keys() - ours
    }


@pytest.mark.parametrize("size", [100, 100_000, 5_000_000], ids=["inline", "packed_file", "dedicated"])
def test_lance_compacts_blobs(local_location: Location, size: int) -> None:
    """`LANCE_SUPPORTS_BLOB_COMPACTION` is the expected result. If this fails, change the constant."""
    schema = pa.schema([pa.field("id", pa.utf8()), lance.blob_field("data")])
    rng = np.random.default_rng(3)
    values = {name: rng.bytes(size + item) for item, name in enumerate(["a", "b", "c", "d"])}

    def rows(*names: str) -> pa.Table:
        blobs = lance.blob_array([values[name] for name in names])
        return pa.table([pa.array(names, pa.utf8()), blobs], schema=schema)

    dataset = create_dataset(local_location, rows("a", "b"))
    for name in ("c", "d"):
        dataset = commit_staged(dataset, stage_append(dataset, rows(name)))
    dataset = delete(dataset, "id = 'b'")
    group = rewrite_fragments(dataset, (0, 1, 2), 100).numbered(GAP)
    clone = clone_rewritten(dataset, local_location.child("clone"), [group])
    moved = commit_staged(dataset, stage_rewrite(dataset, [group]))
    expected = {name: values[name] for name in ("a", "c", "d")}
    same = all(_blobs(item) == expected for item in (clone, moved, dataset))
    assert same is LANCE_SUPPORTS_BLOB_COMPACTION


def _blobs(dataset: Dataset) -> dict[str, bytes]:
    names = dataset.read(["id"])["id"].to_pylist()
    files: list[Any] = dataset.native.take_blobs("data", indices=list(range(len(names))))
    return {str(name): file.readall() for name, file in zip(names, files, strict=True)}
