"""Which rows of a table may differ between two pins, at the cost of the change. For merge, diff, the feed and revert.

In: a table and two pins of it, on any Lance branches. Out: ids that contain every row that differs; who wants the
exact ones compares the rows. When the version at which two Lance branches parted is gone, it is every id. Nothing here
writes.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.records import Pin
from omnigraph.storage.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.row_changes import (
    NO_TEXTS,
    Place,
    Texts,
    changed_ids,
    every_id,
    find_parting,
    open_place,
)


def changed_between(location: Location, left: Pin, right: Pin) -> Texts:
    """The ids of rows that may differ between two pins of the table at `location`, each once."""
    if left == right:
        return NO_TEXTS
    sides = [Place(left.branch, left.version), Place(right.branch, right.version)]
    parting = find_parting(location, *sides)
    ancestor = None if parting is None else open_place(location, parting)
    found = []
    for side in sides:
        if side == parting:
            continue
        dataset = open_dataset(location, branch=side.branch, version=side.version)
        found.append(every_id(dataset) if ancestor is None else changed_ids(ancestor, dataset))
    return union(*found)


def union(*columns: Texts) -> Texts:
    """Every text once."""
    joined: Texts = pa.concat_arrays([NO_TEXTS, *columns])
    distinct: Texts = pc.unique(joined)
    return distinct
