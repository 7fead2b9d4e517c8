"""Every durable call fails once: the error reports the true outcome, and no other writer has to recover the write."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import Applied, StorageError
from omnigraph.base.failpoints import observed
from omnigraph.graph.manifest.layout import RECOVERY
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.death import PatientClock, short_lease_environment
from tests.graph.crash.observe import find_leftovers
from tests.graph.writers import create, read_contents, run, triple

# Stage 1 to 3, lease 4, delete old locks 5 and 6, arm 7, tables 8 to 10, publish 11 and 12, disarm 13, release 14.
TABLES_AT = range(8, 11)
LATER = range(11, 15)
EARLIER = (1, 2, 3, 4, 7)


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    run(local_location, triple(["a"]))
    return local_location


def write_failing_at(graph: Location, k: int) -> None:
    calls: list[str] = []

    def fail(effect: str, target: str) -> None:
        calls.append(effect)
        if len(calls) == k:
            raise StorageError(f"{effect} failed", code="planted")

    with observed(fail):
        run(graph, triple(["b"]), environment=short_lease_environment(PatientClock()))


@pytest.mark.parametrize("k", [*EARLIER, *TABLES_AT])
def test_failed_write_is_not_applied(graph: Location, k: int) -> None:
    with pytest.raises(StorageError) as caught:
        write_failing_at(graph, k)
    assert (caught.value.code, caught.value.applied) == ("planted", Applied.NO)
    assert {frozenset(rows) for rows in read_contents(graph).values()} == {frozenset("a")}
    assert find_leftovers(graph, short_lease_environment(PatientClock())) == []
    run(graph, triple(["b"]))


@pytest.mark.parametrize("k", LATER)
def test_write_that_moved_every_table_is_applied(graph: Location, k: int) -> None:
    """The writer itself finishes a failed publish; a failed disarm or release is only a warning."""
    write_failing_at(graph, k)
    assert {frozenset(rows) for rows in read_contents(graph).values()} == {frozenset("ab")}
    run(graph, triple(["c"]), environment=short_lease_environment(PatientClock()))
    assert ObjectStore(graph).list(RECOVERY) == ()
    assert {frozenset(rows) for rows in read_contents(graph).values()} == {frozenset("abc")}
