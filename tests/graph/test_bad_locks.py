"""A damaged, foreign or future lock: reported with its path, never deleted; reads and opens go on."""

from __future__ import annotations

import msgspec
import pytest

import omnigraph
from omnigraph.base.errors import FormatError
from omnigraph.graph.coordination.lease import acquire_lease
from omnigraph.graph.manifest.layout import RECOVERY, lock_folder
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
    "nothing of ours": (f"{EPOCH}.json", b'{"hello": "world"}'),
    "foreign name": ("notes.txt", b"mine"),
    "foreign mark": (f"{EPOCH}.later.json", b"{}"),
    "short number": ("7.json", b"{}"),
}


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    return local_location


def leave(graph: Location, what: str) -> tuple[str, bytes]:
    name, data = BAD[what]
    path = f"{lock_folder(read_snapshot(graph).branch.id)}/{name}"
    assert ObjectStore(graph).create(path, data)
    return path, data


@pytest.mark.parametrize("what", BAD)
def test_it_is_reported_and_stays(what: str, graph: Location) -> None:
    path, data = leave(graph, what)
    for _ in range(2):
        with pytest.raises(FormatError) as caught:
            run(graph, [Change(COMPANY, insert=("a",))])
        assert caught.value.code == "lock_unreadable"
        assert path in caught.value.message
    assert ObjectStore(graph).read(path) == data
    assert not ObjectStore(graph).list(RECOVERY)


@pytest.mark.parametrize("what", BAD)
def test_reads_and_opens_go_on(what: str, graph: Location) -> None:
    """Also when an intent is pending, which then stays pending."""
    path, data = leave(graph, what)
    good = good_intent(graph)
    intent = f"{RECOVERY}/{good['op_id']}.json"
    ObjectStore(graph).create(intent, msgspec.json.encode({**good, "lease_epoch": 7}))
    for read_only in (True, False):
        assert omnigraph.open(graph.uri, read_only=read_only).snapshot().tables[COMPANY].row_count == 0
    assert ObjectStore(graph).read(path) == data
    assert ObjectStore(graph).read(intent) is not None


def test_a_future_lock_below_the_top_is_kept_as_evidence(graph: Location) -> None:
    """Its holder is over, so writes go on; what it said is not ours to delete."""
    path, data = leave(graph, "future")
    ObjectStore(graph).create(path.replace(".json", ".release.json"), b"{}")
    run(graph, [Change(COMPANY, insert=("a",))])
    run(graph, [Change(COMPANY, insert=("b",))])
    assert ObjectStore(graph).read(path) == data


def test_a_bad_lock_of_one_branch_does_not_stop_the_graph_lease(graph: Location) -> None:
    leave(graph, "damaged")
    acquire_lease(ObjectStore(graph), None, "test").release()
