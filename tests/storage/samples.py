"""Small tables for the storage tests."""

from __future__ import annotations

from collections.abc import Sequence

import lance
import pyarrow as pa

from omnigraph.storage.lance.dataset import Dataset, create_dataset
from omnigraph.storage.location import Location

PRIMARY_KEY = {b"lance-schema:unenforced-primary-key": b"true"}
_FIELDS: list[pa.Field[pa.DataType]] = [
    pa.field("id", pa.utf8(), nullable=False, metadata=PRIMARY_KEY),
    pa.field("count", pa.int64()),
]
SCHEMA = pa.schema(_FIELDS)


def people(ids: Sequence[str], count: int = 0) -> pa.Table:
    """Return rows with these ids, all with the same count."""
    return pa.table({"id": list(ids), "count": [count] * len(ids)}, schema=SCHEMA)


def make_people(location: Location, *groups: Sequence[str]) -> Dataset:
    """Create a dataset with one fragment and one version per group of ids."""
    dataset = create_dataset(location, people(groups[0]))
    for group in groups[1:]:
        dataset = external_append(dataset, group)
    return dataset


def external_append(dataset: Dataset, ids: Sequence[str], count: int = 0) -> Dataset:
    """Append like an external tool; return the newest handle."""
    lance.write_dataset(
        people(ids, count), dataset.newest().native, mode="append", storage_options=dataset.location.storage_options
    )
    return dataset.newest()


def ids_of(dataset: Dataset) -> list[str]:
    """Return the ids in the handle's version, ordered."""
    return sorted(str(value) for value in dataset.read(["id"]).column("id").to_pylist())
