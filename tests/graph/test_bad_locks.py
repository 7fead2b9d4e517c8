"""A damaged, external or newer lock is reported with its path and never deleted; reads and opens still work."""

from __future__ import annotations

import msgspec
import pytest

import omnigraph
from omnigraph.base.errors import FormatError
from omnigraph.graph.coordination.lease import acquire_lease
from omnigraph.graph.manifest.layout import RECOVERY, lock_directory
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.test_bad_intents import good_intent
from tests.graph.writers import COMPANY, Change, create, run

EPOCH = f"{7:020d}"
BAD = {
    "damaged": (f"{EPOCH}.json", b"{"),
    "empty": (f"{EPOCH}.json", b""),
    "future": (f"{EPOCH}.json", b'{"v": 2, "token": "t", "purpose": "p"}'),
    "other content": (f"{EPOCH}.json", b'{"hello": "world"}'),
    "other name": ("notes.txt", b"mine"),
    "other mark": (f"{EPOCH}.later.json", b"{}"),
    "short number": ("7.json", b"{}"),
}


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    return local_location


def create_object(graph: Location, case: str) -> tuple[str, bytes]:
    name, data = BAD[case]
    path = f"{lock_directory(read_snapshot(graph).branch.id)}/{name}"
    assert ObjectStore(graph).create(path, data)
    return path, data


@pytest.mark.parametrize("case", BAD)
def test_unreadable_object_is_reported_and_kept(case: str, graph: Location) -> None:
    path, data = create_object(graph, case)
    for _ in range(2):
        with pytest.raises(FormatError) as caught:
            run(graph, [Change(COMPANY, insert=("a",))])
        assert caught.value.code == "lock_unreadable"
        assert path in caught.value.message
    assert ObjectStore(graph).read(path) == data
    assert not ObjectStore(graph).list(RECOVERY)


@pytest.mark.parametrize("case", BAD)
def test_reads_and_opens_still_work(case: str, graph: Location) -> None:
    """A pending intent remains pending."""
    path, data = create_object(graph, case)
    good = good_intent(graph)
    intent = f"{RECOVERY}/{good['op_id']}.json"
    ObjectStore(graph).create(intent, msgspec.json.encode({**good, "lease_epoch": 7}))
    for read_only in (True, False):
        assert omnigraph.open(graph.uri, read_only=read_only).snapshot().tables[COMPANY].row_count == 0
    assert ObjectStore(graph).read(path) == data
    assert ObjectStore(graph).read(intent) is not None


def test_unreadable_lock_of_an_earlier_epoch_is_kept(graph: Location) -> None:
    """Its epoch is over, so writes work, but it is not deleted."""
    path, data = create_object(graph, "future")
    ObjectStore(graph).create(path.replace(".json", ".release.json"), b"{}")
    run(graph, [Change(COMPANY, insert=("a",))])
    run(graph, [Change(COMPANY, insert=("b",))])
    assert ObjectStore(graph).read(path) == data


def test_unreadable_lock_of_a_branch_does_not_block_the_graph_lease(graph: Location) -> None:
    create_object(graph, "damaged")
    acquire_lease(ObjectStore(graph), None, "test").release()
