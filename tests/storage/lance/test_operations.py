from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import DatasetBasePath, LanceOperation
from lance.fragment import DataFile

from omnigraph.base.errors import FormatError
from omnigraph.storage.lance.commit import commit_branch, commit_compaction, commit_restore, commit_staged
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.transactions import (
    GapReason,
    Operation,
    TransactionGap,
    TransactionRecord,
    find_transaction,
    read_operation,
    read_operations,
)
from omnigraph.storage.location import Location, parse_location
from tests.storage.raw_writes import stage_append
from tests.storage.samples import external_append, ids_of, make_people, people


def _names(dataset: Dataset, after: int) -> list[str]:
    newest = dataset.newest()
    records = read_operations(newest, after, newest.version)
    return [r.operation.value if isinstance(r, TransactionRecord) else r.reason.value for r in records]


def _foreign_file(dataset: Dataset, values: list[int]) -> DataFile:
    """Write a data file for the last column of the dataset elsewhere, and copy it into the dataset."""
    other = f"{dataset.location.uri}-other"
    written = lance.write_dataset(pa.table({"x": values}), other, data_storage_version="2.2")
    file = written.get_fragments()[0].metadata.files[0]
    shutil.copy(Path(other, "data", file.path), Path(dataset.location.uri, "data", file.path))
    return DataFile(file.path, [2], [0], 2, 2, file.file_size_bytes)


def _replace_data(native: lance.LanceDataset, dataset: Dataset) -> None:
    native.add_columns({"extra": "count + 1"})
    group = LanceOperation.DataReplacementGroup(0, _foreign_file(dataset, [7, 8]))
    lance.LanceDataset.commit(native, LanceOperation.DataReplacement([group]), read_version=native.version)


def _overlay_data(native: lance.LanceDataset, dataset: Dataset) -> None:
    native.add_columns({"extra": "count + 1"})
    overlay = LanceOperation.DataOverlayFile(_foreign_file(dataset, [7]), [1])
    group = LanceOperation.DataOverlayGroup(0, [overlay])
    lance.LanceDataset.commit(native, LanceOperation.DataOverlay([group]), read_version=native.version)


def _alteration(**changes: object) -> Any:
    return {"path": "count", **changes}


Action = Callable[[lance.LanceDataset, Dataset], object]

ACTIONS: dict[str, tuple[Action, list[str]]] = {
    "append": (lambda n, d: lance.write_dataset(people(["x"]), n, mode="append"), ["Append"]),
    "overwrite": (lambda n, d: lance.write_dataset(people(["x"]), n, mode="overwrite"), ["Overwrite"]),
    "delete": (lambda n, d: n.delete("id = 'a'"), ["Delete"]),
    "truncate": (lambda n, d: n.truncate_table(), ["Delete"]),
    "update": (lambda n, d: n.update({"count": "7"}), ["Update"]),
    "merge_insert": (lambda n, d: n.merge_insert("id").when_matched_update_all().execute(people(["a"], 1)), ["Update"]),
    "create index": (lambda n, d: n.create_scalar_index("id", "BTREE"), ["CreateIndex"]),
    "config": (lambda n, d: n.update_config({"a": "b"}), ["UpdateConfig"]),
    "metadata": (lambda n, d: n.update_metadata({"a": "b"}), ["UpdateConfig"]),
    "schema metadata": (lambda n, d: n.update_schema_metadata({"a": "b"}), ["UpdateConfig"]),
    "compact": (lambda n, d: n.optimize.compact_files(), ["ReserveFragments", "Rewrite"]),
    "add column": (lambda n, d: n.add_columns({"extra": "count + 1"}), ["Merge"]),
    "add null column": (lambda n, d: n.add_columns(pa.field("extra", pa.int32())), ["Merge"]),
    "cast column": (lambda n, d: n.alter_columns(_alteration(data_type=pa.int32())), ["Merge"]),
    "drop column": (lambda n, d: n.drop_columns(["count"]), ["Project"]),
    "rename column": (lambda n, d: n.alter_columns(_alteration(name="c")), ["Project"]),
    "restore": (lambda n, d: commit_restore(d, 1, {}), ["Restore"]),
    "add base": (lambda n, d: n.add_bases([DatasetBasePath(d.location.uri + "-b", name="b")]), ["UpdateBases"]),
    "replace data": (_replace_data, ["Merge", "DataReplacement"]),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_every_operation_is_named(local_location: Location, name: str) -> None:
    action, expected = ACTIONS[name]
    dataset = make_people(local_location, ["a", "b"], ["c", "d"])
    action(dataset.native_copy(), dataset)
    assert _names(dataset, 2) == expected


def test_every_reachable_operation_is_tested() -> None:
    """Other tests cover Clone and DataOverlay; no call of Lance's Python package creates the other two."""
    tried = {name for _, names in ACTIONS.values() for name in names} | {"Clone", "DataOverlay"}
    assert {operation.value for operation in Operation} - tried == {"UpdateMemWalState", "Unknown"}


def test_operation_of_an_unreadable_version_is_reported(local_location: Location) -> None:
    """Lance commits an overlay and then cannot open the dataset; the transaction can still be read."""
    dataset = make_people(local_location, ["a", "b"])
    _overlay_data(dataset.native_copy(), dataset)
    with pytest.raises(FormatError) as caught:
        dataset.newest()
    assert caught.value.code == "dataset_too_new"
    operations = [r.operation for r in read_operations(dataset, 1, 3) if isinstance(r, TransactionRecord)]
    assert operations == [Operation.MERGE, Operation.DATA_OVERLAY]


def test_the_records_are_the_same_on_every_store(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"])
    staged = stage_append(dataset, people(["b"])).with_properties({"omnigraph:op": "1", "k": ""})
    committed = commit_staged(dataset, staged)
    restored = commit_restore(committed, 1, {})
    assert read_operations(restored, 1, 4) == (
        TransactionRecord(
            version=2,
            operation=Operation.APPEND,
            uuid=staged.uuid,
            read_version=1,
            properties={"omnigraph:op": "1", "k": ""},
        ),
        TransactionRecord(
            version=3,
            operation=Operation.RESTORE,
            uuid=_uuid_of(restored, 3),
            read_version=2,
            properties={},
            restored_version=1,
        ),
        TransactionGap(4, GapReason.MISSING, "the version or its transaction was deleted"),
    )
    assert read_operations(restored, 3, 3) == ()


def test_branch_starts_with_a_clone_and_has_its_own_records(store_location: Location) -> None:
    main = make_people(store_location, ["a"])
    branch = commit_branch(main, "g-1")
    external_append(main, ["main"])
    staged = stage_append(branch, people(["x"]))
    commit_staged(branch, staged)
    assert _names(branch, 0) == ["Clone", "Append"]
    assert _uuid_of(branch, 2) == staged.uuid
    assert _uuid_of(main, 2) != staged.uuid


def test_a_compaction_that_rewrote_an_index_is_read(store_location: Location) -> None:
    """Lance's own reader raises a TypeError here."""
    dataset = make_people(store_location, ["a"], ["b"])
    dataset.native_copy().create_scalar_index("id", "BTREE")
    moved = commit_compaction(dataset.newest(), 100).dataset
    with pytest.raises(TypeError):
        moved.native.read_transaction(moved.version)
    assert _names(moved, 2) == ["CreateIndex", "ReserveFragments", "Rewrite"]


def test_the_transaction_file_is_not_needed(local_location: Location) -> None:
    dataset = make_people(local_location, ["a"], ["b"])
    shutil.rmtree(Path(local_location.uri, "_transactions"))
    assert _names(dataset, 0) == ["Overwrite", "Append"]


def test_a_collected_version_is_missing(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"], ["b"], ["c"])
    dataset.native.cleanup_old_versions(versions=[2], error_if_tagged_old_versions=False)
    assert _names(dataset, 0) == ["Overwrite", "missing", "Append"]


@pytest.mark.parametrize("keep", [0, 5, 40, -1, -20])
def test_damaged_manifest_is_unreadable_with_a_reason(local_location: Location, keep: int) -> None:
    dataset = make_people(local_location, ["a"], ["b"])
    path = Path(local_location.uri, "_versions", f"{2**64 - 3:020d}.manifest")
    path.write_bytes(path.read_bytes()[:keep])
    gap = read_operation(dataset, 2)
    assert isinstance(gap, TransactionGap)
    assert gap.reason is GapReason.UNREADABLE
    assert path.name in gap.detail or "expected" in gap.detail


def test_long_manifest_is_read_completely(s3_location: Location) -> None:
    """The manifest is larger than the tail that one request reads."""
    dataset = make_people(s3_location, ["a"])
    dataset = commit_staged(dataset, stage_append(dataset, people(["b"])).with_properties({"k": "v" * 200_000}))
    record = read_operation(dataset, 2)
    assert isinstance(record, TransactionRecord)
    assert record.properties == {"k": "v" * 200_000}
    assert ids_of(dataset) == ["a", "b"]


def test_find_uuid(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"])
    staged = stage_append(dataset, people(["b"]))
    external_append(dataset, ["x"])
    lance.LanceDataset.commit(
        dataset.native, staged.native, storage_options=store_location.storage_options, max_retries=0
    )
    record = find_transaction(dataset.newest(), staged.uuid, 1, 3)
    assert record is not None
    assert record.version == 3
    assert find_transaction(dataset.newest(), staged.uuid, 1, 2) is None


def test_clone_at_another_location_starts_with_a_clone(local_location: Location, tmp_path: Path) -> None:
    make_people(local_location, ["a"]).native_copy().shallow_clone(str(tmp_path / "clone"), 1)
    clone = Dataset(parse_location(str(tmp_path / "clone")), None, lance.dataset(str(tmp_path / "clone")))
    assert _names(clone, 0) == ["Clone"]


def _uuid_of(dataset: Dataset, version: int) -> str:
    record = read_operation(dataset, version)
    assert isinstance(record, TransactionRecord)
    return record.uuid
