"""Upkeep of a table stops at a foreign change below its first commit, so that nothing is rewritten over it."""

from __future__ import annotations

import lance
import pytest

from omnigraph.base.errors import ConflictError
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.write.multi_commit import TableMaintenance, make_maintenance_run
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from tests.graph.writers import PERSON, Change, create, plant_auto_cleanup, run


def test_a_strip_does_not_slip_over_a_foreign_delete(local_location: Location) -> None:
    create(local_location)
    run(local_location, [Change(PERSON, insert=("a", "b"))])
    plant_auto_cleanup(local_location, PERSON, interval=1_000_000)
    place = local_location.child(read_snapshot(local_location).tables[PERSON].path)
    handle = open_dataset(place)
    lance.dataset(place.uri).delete("id = 'a'")
    strip = make_maintenance_run(TableMaintenance(True, frozenset(), (), {}), {"omnigraph:op": "test"})
    with pytest.raises(ConflictError):
        strip(handle, lambda: None)
    assert handle.newest().count_rows("id = 'a'") == 0
