"""Cleanup keeps the files of a writer that commits after the listing and before the versions are read."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.graph.manifest.records import Pin, WriteOperation
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.maintenance.cleanup.retention import Needs, RetentionPolicy, decide
from omnigraph.maintenance.cleanup.tasks import plan_files, read_facts
from omnigraph.storage.files import StoredFile, list_files
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from tests.graph.writers import PERSON, Change, create, run, stage_changes

DAY_US = 24 * 3600 * 1_000_000


def test_version_committed_after_the_listing_keeps_its_files(local_location: Location) -> None:
    create(local_location)
    for name in "abc":
        run(local_location, [Change(PERSON, insert=(name,))])
    snapshot = read_snapshot(local_location)
    table = local_location.child(snapshot.tables[PERSON].path)
    pin = snapshot.tables[PERSON].pin
    listing: list[StoredFile] = []

    def stage(area: StagingArea) -> StagedWrite:
        staged = stage_changes([Change(PERSON, insert=("late",))])(area)
        listing.extend(list_files(table))
        return staged

    assert (
        write(local_location, "main", WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage)) is not None
    )
    late = {f"data/{name}" for name in open_dataset(table).data_files()}
    assert late & {file.path for file in listing}, "the rows were staged before the listing"
    deletable = _deletable(table, listing, pin)
    assert deletable, "old versions are deleted"
    assert late.isdisjoint(deletable)


def _deletable(table: Location, listing: Sequence[StoredFile], pin: Pin) -> set[str]:
    policy = RetentionPolicy(
        now_us=max(file.modified_us for file in listing) + 10 * DAY_US,
        keep=1,
        older_than_us=None,
        grace_us=DAY_US,
        age_us_min=0,
    )
    needs = Needs(pins=frozenset({pin}), heads=frozenset({pin}), live=frozenset())
    decision = decide(read_facts(table, listing), needs, policy)
    return {file.path for file in plan_files(table, listing, decision, needs, policy)}
