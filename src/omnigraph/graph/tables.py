"""The tables of a graph where a branch publishes them, open or on their way to workers. Nothing here writes."""

from __future__ import annotations

from omnigraph.graph.records import Pin, TableRecord
from omnigraph.storage.dataset import Dataset, DatasetVersion, open_dataset
from omnigraph.storage.location import Location


def open_table(root: Location, table: TableRecord) -> Dataset:
    """A table at its pin."""
    return open_pin(root.child(table.path), table.pin)


def open_pin(location: Location, pin: Pin) -> Dataset:
    """The dataset of a table at any of its pins."""
    return open_dataset(location, branch=pin.branch, version=pin.version)


def pinned_version(root: Location, table: TableRecord) -> DatasetVersion:
    """A table at its pin, for whoever opens it elsewhere."""
    return DatasetVersion(root.child(table.path), table.pin.branch, table.pin.version)
