"""A crash at every durable call of ensure indices: rows are unchanged, and the next run finishes the work."""

from __future__ import annotations

import pytest

from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.maintenance.optimize.index_plan import IndexStatus
from omnigraph.maintenance.optimize.run import ensure_indices
from omnigraph.storage.lance.indexes import read_indexes
from omnigraph.storage.location import Location
from tests.graph.crash.death import PatientClock, Victim, short_lease_environment
from tests.graph.crash.observe import find_leftovers
from tests.maintenance.graphs import CITES, DOC, append, change, create, docs, in_place, open_table
from tests.storage.raw_writes import stage_append

# Eleven segments are built, the lease is taken (with two objects of the one before it), the intent is written,
# eleven indexes are committed, the manifest is staged and published, the intent is deleted, and the lease is released.
CALLS = 30
LAST_INDEX = 26


@pytest.mark.parametrize("k", range(1, CALLS + 2))
def test_next_run_finishes_after_a_crash_at_any_call(local_location: Location, k: int) -> None:
    create(local_location)
    append(local_location, "a")
    rows = open_table(local_location, DOC).read().sort_by("id")
    victim = Victim(k)
    environment = short_lease_environment(PatientClock())
    assert victim.run(lambda: ensure_indices(local_location, MAIN, in_place, environment=environment)) == (k > CALLS)
    assert len(victim.done) == min(k - 1, CALLS)
    outcome = ensure_indices(local_location, MAIN, in_place, environment=short_lease_environment(PatientClock()))
    assert (outcome.commit is None) == (k > LAST_INDEX)
    again = ensure_indices(local_location, MAIN, in_place, environment=short_lease_environment(PatientClock()))
    assert again.commit is None
    assert {row.status for row in again.indexes if row.table_key in (DOC, CITES)} == {IndexStatus.COMPLETE}
    assert open_table(local_location, DOC).read().sort_by("id") == rows
    built = [index for alias in (DOC, CITES) for index in read_indexes(open_table(local_location, alias))]
    assert [index.segments for index in built] == [1] * 11
    # A run without work takes no lease, so the next writer finds an intent that was not deleted.
    later = {DOC: lambda dataset: stage_append(dataset, docs(dataset.schema, "b", 3))}
    change(local_location, later, rows=3, environment=short_lease_environment(PatientClock()))
    left = find_leftovers(local_location, short_lease_environment(PatientClock()))
    assert [text for text in left if "locked" not in text] == []
