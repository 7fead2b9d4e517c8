"""Slices of live rows with their addresses, and blobs by address."""

from __future__ import annotations

import lance
import pyarrow as pa

from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.schema.tables import arrow_type
from omnigraph.storage.lance.dataset import ADDRESS, Dataset, create_dataset, open_dataset
from omnigraph.storage.lance.read import RowSlice, read_blobs, read_slice, slice_dataset
from omnigraph.storage.location import Location

BLOB = pa.field("b", arrow_type(ScalarType(Scalar.BLOB)), metadata={"ARROW:extension:name": "lance.blob.v2"})


def make(location: Location) -> Dataset:
    """Two fragments of ten rows each; every third row is deleted."""
    schema = pa.schema([pa.field("n", pa.int64()), BLOB])
    rows = [
        pa.table(
            [
                pa.array(range(start, start + 10)),
                pa.array(
                    [
                        None if n % 4 == 0 else {"data": bytes(n), "uri": None, "position": None, "size": None}
                        for n in range(start, start + 10)
                    ],
                    BLOB.type,
                ),
            ],
            schema=schema,
        )
        for start in (0, 10)
    ]
    create_dataset(location, rows[0])
    native = lance.dataset(location.lance_uri, storage_options=location.storage_options)
    native.insert(rows[1])
    native.delete("n % 3 = 0")
    return open_dataset(location)


def test_slices_count_live_rows(durable_location: Location) -> None:
    dataset = make(durable_location)
    live = [n for n in range(20) if n % 3]
    slices = slice_dataset(dataset, 4)
    assert [(piece.start, piece.rows, piece.index) for piece in slices] == [
        (0, 4, 0), (4, 2, 4), (0, 4, 6), (4, 3, 10),
    ]  # fmt: skip
    numbers: list[object] = []
    for piece in slices:
        batches = list(read_slice(dataset, piece, ["n"], batch_rows=3))
        some = [n for batch in batches for n in batch.column("n").to_pylist()]
        assert some == live[piece.index : piece.index + piece.rows]
        assert all(batch.num_rows <= 3 for batch in batches)
        numbers += some
    assert numbers == live
    assert dataset.take([12, 0, 7], ["n"])["n"].to_pylist() == [live[12], live[0], live[7]]


def test_blobs_by_address(durable_location: Location) -> None:
    dataset = make(durable_location)
    [piece, *_] = slice_dataset(dataset, 100)
    assert piece == RowSlice(piece.fragment, 0, 6, 0)
    [batch] = read_slice(dataset, piece, ["n", "b"], batch_rows=100)
    assert [None if value is None else value["size"] for value in batch.column("b").to_pylist()] == [
        1, 2, None, 5, 7, None,
    ]  # fmt: skip
    addresses: list[int] = [int(value) for value in batch.column(ADDRESS).to_numpy()]
    chosen = [addresses[4], addresses[0], addresses[2]]
    assert read_blobs(dataset, "b", chosen) == [bytes(7), bytes(1), None]
    assert read_blobs(dataset, "b", []) == []
