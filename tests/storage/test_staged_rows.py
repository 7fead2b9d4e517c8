"""Staged changes of single rows: some columns set, some rows deleted, other values and identities unchanged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.integrity.check import check_batch
from omnigraph.integrity.raw import RawBatch
from omnigraph.storage.lance.commit import commit_staged
from omnigraph.storage.lance.dataset import ADDRESS, Dataset, create_dataset
from omnigraph.storage.lance.read import read_blobs
from omnigraph.storage.lance.stage import stage_delete_rows, stage_update
from omnigraph.storage.location import Location
from tests.schema.incarnations import catalog_of
from tests.storage.samples import ids_of, make_people


def make_photos(location: Location) -> Dataset:
    entity = catalog_of("node P { k: String @key  n: I32?  photo: Blob?  v: Vector(2)? }").nodes[0]
    records: list[dict[str, object]] = [
        {"k": "a", "n": 1, "photo": "base64:aGk=", "v": [1, 2]},
        {"k": "b", "n": 2},
        {"k": "c", "photo": "base64:"},
    ]
    checked = check_batch(entity, RawBatch.from_records(records))
    assert not checked.violations
    return create_dataset(location.child("t"), pa.Table.from_batches([checked.rows]))


def test_update_sets_only_its_columns(store_location: Location) -> None:
    dataset = make_photos(store_location)
    identities = dataset.native.to_table(columns=["id"], with_row_id=True).to_pylist()
    rows = pa.table({"id": ["a", "c"], "n": pa.array([None, 7], pa.int32())})
    after = commit_staged(dataset, stage_update(dataset, rows))
    assert after.version == dataset.version + 1
    rows_by_id = {row["id"]: row for row in after.read(["id", "n", "v"], with_addresses=True).to_pylist()}
    assert {name: row["n"] for name, row in rows_by_id.items()} == {"a": None, "b": 2, "c": 7}
    assert rows_by_id["a"]["v"] == [1.0, 2.0]
    addresses = [rows_by_id[name][ADDRESS] for name in "abc"]
    assert read_blobs(after, "photo", addresses) == [b"hi", None, b""]
    identities_after = after.native.to_table(columns=["id"], with_row_id=True).to_pylist()
    assert sorted(map(str, identities_after)) == sorted(map(str, identities))


def test_rows_are_deleted_by_address(store_location: Location) -> None:
    dataset = make_people(store_location.child("t"), ["a", "b"], ["c"], ["d", "e"])
    rows = dataset.read(["id"], "id IN ('b', 'c', 'e')", with_addresses=True)
    addresses = [int(address) for address in rows.column(ADDRESS).to_numpy()]
    after = commit_staged(dataset, stage_delete_rows(dataset, addresses))
    assert ids_of(after) == ["a", "d"]
    assert after.version == dataset.version + 1


@pytest.mark.parametrize("by_filter", [True, False])
def test_rows_are_found_by_text(store_location: Location, monkeypatch: pytest.MonkeyPatch, by_filter: bool) -> None:
    if not by_filter:
        monkeypatch.setattr("omnigraph.base.limits.LOOKUP_FILTER_VALUES_MAX", 0)
    dataset = make_people(store_location.child("t"), ["a", "it's"], ["c"])
    ids = pa.array(["it's", "c", "never there"], pa.utf8())
    rows = dataset.read_by_text("id", ids, ["count"])
    assert sorted(map(str, rows.column("id").to_pylist())) == ["c", "it's"]
    assert set(rows.schema.names) == {"count", "id", ADDRESS}
    assert dataset.read_by_text("id", pa.array([], pa.utf8()), ["id"]).num_rows == 0
