"""What Lance does with rows, row ids, blobs, compaction and filters.

Each docstring describes what to change when the test fails.
"""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.optimize import Compaction

from omnigraph.storage.lance.commit import commit_compaction
from omnigraph.storage.lance.dataset import Dataset, create_dataset
from omnigraph.storage.location import Location
from tests.storage.samples import make_people, people


def _identity(dataset: Dataset) -> dict[str, tuple[int, int]]:
    """Return the row id and the creating version of each id."""
    columns = ["id", "_row_created_at_version"]
    rows = dataset.newest().native.scanner(columns=columns, with_row_id=True).to_table().to_pylist()
    return {str(row["id"]): (int(row["_rowid"]), int(row["_row_created_at_version"])) for row in rows}


def test_row_ids_survive_updates_and_compaction(local_location: Location) -> None:
    """If this fails: caches keyed by row id, and the change feed, must use only `id`."""
    dataset = make_people(local_location, ["a", "b"], ["c"], ["d"])
    before = _identity(dataset)
    native = dataset.native_copy()
    native.update({"count": "1"}, where="id = 'b'")
    native.merge_insert("id").when_matched_update_all().execute(people(["c"], 2))
    assert _identity(dataset) == before
    commit_compaction(dataset.newest(), 100)
    assert len(dataset.newest().native.get_fragments()) == 1
    assert _identity(dataset) == before


def test_compaction_does_not_change_rows(local_location: Location) -> None:
    """If this fails: optimize appears in the change feed; skip physical commits by their operation."""
    dataset = make_people(local_location, ["a"], ["b"])
    commit_compaction(dataset, 100)
    delta = dataset.newest().native.delta(compared_against=2)
    assert delta.get_inserted_rows().read_all().num_rows == 0
    assert delta.get_updated_rows().read_all().num_rows == 0


def test_delta_has_rows_removed_but_not_rows_restored_by_a_restore(local_location: Location) -> None:
    """If this fails: the change feed may use `delta` across a Restore instead of comparing rows."""
    dataset = make_people(local_location, ["a", "b"])
    native = dataset.native_copy()
    native.delete("id = 'a'")
    native.update({"count": "7"}, where="id = 'b'")
    lance.write_dataset(people(["c"]), native, mode="append")
    dataset.at_version(1).native_copy().restore()  # type: ignore[no-untyped-call]
    delta = dataset.newest().native.delta(compared_against=4)
    assert delta.get_inserted_rows().read_all().num_rows == 0
    assert delta.get_updated_rows().read_all().num_rows == 0
    assert delta.get_deleted_row_ids().read_all().num_rows == 1


@pytest.mark.parametrize("declared", [True, False])
def test_the_primary_key_stops_two_inserts_of_one_key(local_location: Location, declared: bool) -> None:
    """If this fails: two publishers that add the same row may both succeed; publish must check for itself."""
    rows = people(["x"]) if declared else pa.table({"id": ["x"], "count": [0]})
    dataset = create_dataset(local_location, rows.slice(0, 0))
    builders = [dataset.native_copy().merge_insert("id").when_not_matched_insert_all() for _ in range(2)]
    builders[0].conflict_retries(0).execute(rows)
    if declared:
        with pytest.raises(OSError, match=r"(?i)conflict|concurrent"):
            builders[1].conflict_retries(0).execute(rows)
    else:
        builders[1].conflict_retries(0).execute(rows)
    assert dataset.newest().count_rows("id = 'x'") == (1 if declared else 2)


def test_duplicate_keys_are_not_detected_by_lance(local_location: Location) -> None:
    """If this fails: Lance checks for duplicates. Until then integrity does, before `stage_upsert`."""
    dataset = make_people(local_location, ["a"])
    dataset.native_copy().merge_insert("id").when_not_matched_insert_all().execute(people(["x", "x"]))
    assert dataset.newest().count_rows("id = 'x'") == 2
    builder = dataset.newest().native_copy().merge_insert("id").when_matched_update_all()
    with pytest.raises(OSError, match=r"(?i)ambiguous|multiple|duplicate"):
        builder.execute(people(["a", "a"]))


def test_uncommitted_upserts_of_a_new_key_both_succeed(local_location: Location) -> None:
    """If this fails: `execute_uncommitted` detects equal new keys. Until then the lease and the check do."""
    dataset = make_people(local_location, ["a"])
    builders = [dataset.native_copy().merge_insert("id").when_not_matched_insert_all() for _ in range(2)]
    staged = [builder.execute_uncommitted(people(["x"]))[0] for builder in builders]
    for transaction in staged:
        lance.LanceDataset.commit(dataset.native, transaction, max_retries=0)
    assert dataset.newest().count_rows("id = 'x'") == 2


def test_deferred_index_remapping_is_rejected_with_stable_row_ids(local_location: Location) -> None:
    """If this fails: compaction of indexed tables may become six times faster by deferring the remap."""
    dataset = make_people(local_location, ["a"], ["b"])
    native = dataset.native_copy()
    native.create_scalar_index("id", "BTREE")
    with pytest.raises((OSError, ValueError), match=r"(?i)row id"):
        native.optimize.compact_files(defer_index_remap=True)


def test_indexed_and_new_fragments_are_not_merged(local_location: Location) -> None:
    """If this fails: compaction merges both. Then optimize may compact before it extends indexes, in one pass."""
    dataset = make_people(local_location, ["a"], ["b"])
    dataset.native_copy().create_scalar_index("id", "BTREE")
    newest = dataset.newest()
    for name in ("c", "d"):
        lance.write_dataset(people([name]), newest.native, mode="append")
        newest = newest.newest()
    plan = Compaction.plan(newest.native, options={"target_rows_per_fragment": 100})
    assert [[fragment.id for fragment in task.fragments] for task in plan.tasks] == [[0, 1], [2, 3]]


BLOBS = {"a": b"", "b": None, "c": bytes(range(256)) * 4, "d": b"\0" * 100_000, "e": b"x" * 5_000_000}


def test_blobs_survive_compaction_byte_for_byte(local_location: Location) -> None:
    """If this fails: switch LANCE_SUPPORTS_BLOB_COMPACTION off, so that optimize skips tables with blobs."""
    field = lance.blob_field("blob")
    schema = pa.schema([pa.field("id", pa.utf8()), field])
    tables = [pa.table({"id": [key], "blob": lance.blob_array([value])}, schema=schema) for key, value in BLOBS.items()]
    dataset = create_dataset(local_location, tables[0])
    for table in tables[1:]:
        lance.write_dataset(table, dataset.newest().native, mode="append")
    assert _blobs(dataset.newest()) == BLOBS
    dataset.newest().native_copy().delete("id = 'c'")
    outcome = commit_compaction(dataset.newest(), 100)
    assert outcome.fragments_added == 1
    assert _blobs(outcome.dataset) == {key: value for key, value in BLOBS.items() if key != "c"}


def _blobs(dataset: Dataset) -> dict[str, bytes | None]:
    keys = [str(key) for key in dataset.read(["id"]).column("id").to_pylist()]
    blobs: dict[str, bytes | None] = dict.fromkeys(keys)
    rows = dataset.native.scanner(columns=["id"], filter="blob IS NOT NULL", with_row_id=True).to_table()
    ids = [int(row["_rowid"]) for row in rows.to_pylist()]
    for row, blob in zip(rows.to_pylist(), dataset.native.take_blobs("blob", ids=ids), strict=True):
        assert blob is not None
        with blob as opened:
            blobs[str(row["id"])] = opened.readall()
    return blobs


def test_search_filters_afterwards_by_default(local_location: Location) -> None:
    """If this fails: `prefilter=True` is the default, and the engine need not ask for it."""
    vectors = pa.array([[float(n), 1.0] for n in range(10)], pa.list_(pa.float32(), 2))
    dataset = create_dataset(local_location, pa.table({"n": range(10), "vector": vectors}))
    query = {"column": "vector", "q": np.array([0, 1], "float32"), "k": 2}
    late = dataset.native.scanner(nearest=query, filter="n >= 8").to_table()
    early = dataset.native.scanner(nearest=query, filter="n >= 8", prefilter=True).to_table()
    assert (late.num_rows, early.num_rows) == (0, 2)


@pytest.mark.parametrize("literal", ["'5'", "5.0", "3000000000"])
def test_literal_of_different_type_raises(local_location: Location, literal: str) -> None:
    """If this fails: the planner may pass such literals to Lance. Until then it casts or evaluates them."""
    dataset = create_dataset(local_location, pa.table({"n": pa.array([5, 6], pa.int32())}))
    with pytest.raises(ValueError, match=r"."):
        dataset.native.scanner(filter=f"n = {literal}").to_table()


@pytest.mark.parametrize("first", ["BTREE", "BLOOMFILTER", "ZONEMAP"])
def test_the_scalar_index_that_was_built_first_is_used(local_location: Location, first: Any) -> None:
    """If this fails: a column may have more than BTREE. Until then another index may hide it, even from ranges."""
    dataset = make_people(local_location, [f"k{number}" for number in range(100)])
    native = dataset.native_copy()
    for kind in (first, "BTREE"):
        native.create_scalar_index("id", kind, name=kind.lower())
    assert f"@{first.lower()}" in native.scanner(filter="id = 'k7'").explain_plan()
    assert ("@btree" in native.scanner(filter="id > 'k7'").explain_plan()) == (first == "BTREE")


def test_a_damaged_deletion_file_ends_the_process(local_location: Location) -> None:
    """If this fails: Lance raises an error. Then remove the warning in docs/user/doctor.md and
    docs/dev/lance-and-spark.md.

    A size in the file is not checked before that much memory is allocated. `doctor` reads deletion files without Lance.
    """
    dataset = make_people(local_location, ["a", "b", "c"])
    dataset.native_copy().delete("id = 'b'")
    (path,) = Path(local_location.uri, "_deletions").iterdir()
    data = path.read_bytes()
    size = data.rindex(struct.pack("<q", -1))
    path.write_bytes(data[:size] + struct.pack("<q", 2**63 - 1) + data[size + 8 :])
    code = "import lance, sys; lance.dataset(sys.argv[1]).to_table()"
    command = [sys.executable, "-c", code, local_location.uri]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGABRT
    assert "memory allocation" in done.stderr
