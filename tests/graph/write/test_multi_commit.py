"""Maintenance of a table fails if an external tool changed it since the base, so that nothing is overwritten."""

from __future__ import annotations

import lance
import pytest

from omnigraph.base.errors import ConflictError
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.write.multi_commit import TableMaintenance, make_maintenance_run
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from tests.graph.writers import PERSON, Change, create, plant_auto_cleanup, run


def test_maintenance_fails_after_an_external_delete(local_location: Location) -> None:
    create(local_location)
    run(local_location, [Change(PERSON, insert=("a", "b"))])
    plant_auto_cleanup(local_location, PERSON, interval=1_000_000)
    location = local_location.child(read_snapshot(local_location).tables[PERSON].path)
    handle = open_dataset(location)
    lance.dataset(location.uri).delete("id = 'a'")
    maintenance = make_maintenance_run(TableMaintenance(True, frozenset(), (), {}), {"omnigraph:op": "test"})
    with pytest.raises(ConflictError):
        maintenance(handle, lambda: None)
    assert handle.newest().count_rows("id = 'a'") == 0
