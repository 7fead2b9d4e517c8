"""A damaged, external or newer intent is reported with its path, never deleted, and blocks only some writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import omnigraph
from omnigraph.base.errors import FormatError
from omnigraph.base.ids import CommitId, OperationId, new_ulid
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.intent import INTENT_VERSION, Intent, IntentTable, read_intents
from omnigraph.graph.manifest.layout import RECOVERY
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.writers import COMPANY, Change, create, read_contents, run

DEV = "dev"


def good_intent(location: Location) -> dict[str, Any]:
    """Return an intent as a crashed writer of main leaves it."""
    snapshot = read_snapshot(location)
    table = snapshot.tables[COMPANY]
    entry = IntentTable(
        id=table.id,
        path=table.path,
        lance_branch=None,
        owner=snapshot.branch.id,
        base=table.pin.version,
        uuid="none",
        preserving=False,
        forked_from=None,
        result_rows=1,
    )
    intent = Intent(
        v=INTENT_VERSION,
        op_id=OperationId(new_ulid()),
        kind="load",
        actor="tester",
        commit_id=CommitId(new_ulid()),
        branch=MAIN,
        branch_id=snapshot.branch.id,
        lease_epoch=0,
        schema_hash=snapshot.schema.hash,
        head=snapshot.head,
        created_us=1,
        tables=[entry],
    )
    decoded = msgspec.json.decode(msgspec.json.encode(intent))
    assert isinstance(decoded, dict)
    return decoded


def changed(location: Location, **changes: object) -> bytes:
    return msgspec.json.encode({**good_intent(location), **changes})


def without_uuid(location: Location) -> bytes:
    """Return an intent with a table that Lance commits by itself, of a writer that never does that."""
    good = good_intent(location)
    return msgspec.json.encode({**good, "tables": [{**good["tables"][0], "uuid": None}]})


def outside(location: Location) -> bytes:
    good = good_intent(location)
    return msgspec.json.encode({**good, "tables": [{**good["tables"][0], "path": "../elsewhere"}]})


BRANCH_KNOWN: dict[str, Callable[[Location], bytes]] = {
    "future": lambda location: changed(location, v=INTENT_VERSION + 1),
    "other operation": changed,  # Its path names another operation.
    "unknown kind": lambda location: changed(location, kind="compact"),
    "member of another type": lambda location: changed(location, lease_epoch="many"),
    "member missing": lambda location: msgspec.json.encode({"v": 1, "branch_id": good_intent(location)["branch_id"]}),
    "no transaction where one is required": without_uuid,
    "a path outside the graph": outside,
}
BRANCH_UNKNOWN: dict[str, Callable[[Location], bytes]] = {
    "empty": lambda _: b"",
    "half": lambda location: changed(location)[:40],
    "no object": lambda _: b"[1, 2]",
    "not text": lambda _: b"\xff\xfe",
    "other content": lambda _: b'{"hello": "world"}',
}
EVERY = {**BRANCH_KNOWN, **BRANCH_UNKNOWN}


@pytest.fixture
def graph(local_location: Location) -> Location:
    create(local_location)
    create_branch(local_location, DEV, "tester", read_snapshot(local_location))
    return local_location


def create_object(graph: Location, case: str) -> tuple[str, bytes]:
    """Create an object in the directory of intents."""
    data = EVERY[case](graph)
    has_operation = b'"op_id"' in data and case not in ("other operation", "half")
    operation = msgspec.json.decode(data)["op_id"] if has_operation else new_ulid()
    path = f"{RECOVERY}/{operation}.json"
    assert ObjectStore(graph).create(path, data)
    return path, data


@pytest.mark.parametrize("case", EVERY)
def test_unreadable_object_is_reported_and_kept(case: str, graph: Location) -> None:
    path, data = create_object(graph, case)
    readable, unreadable = read_intents(ObjectStore(graph))
    assert readable == ()
    assert [intent.path for intent in unreadable] == [f"{graph.uri}/{path}"]
    with pytest.raises(FormatError) as caught:
        run(graph, [Change(COMPANY, insert=("a",))])
    assert caught.value.code == "intent_unreadable"
    assert path in caught.value.message
    assert ObjectStore(graph).read(path) == data


def test_intent_of_version_1_is_recovered(graph: Location) -> None:
    """It has no table with `lead` or `is_new`."""
    good = good_intent(graph)
    table = {key: value for key, value in good["tables"][0].items() if key not in {"lead", "is_new"}}
    data = msgspec.json.encode({**good, "v": 1, "tables": [table]})
    assert ObjectStore(graph).create(f"{RECOVERY}/{good['op_id']}.json", data)
    run(graph, [Change(COMPANY, insert=("a",))])
    assert read_intents(ObjectStore(graph)) == ((), ())


@pytest.mark.parametrize("case", EVERY)
def test_reads_and_opens_still_work(case: str, graph: Location) -> None:
    path, data = create_object(graph, case)
    for read_only in (True, False):
        opened = omnigraph.open(graph.uri, read_only=read_only)
        assert opened.snapshot().tables[COMPANY].row_count == 0
    assert ObjectStore(graph).read(path) == data


@pytest.mark.parametrize("case", EVERY)
def test_other_branches_can_write_if_the_intent_names_its_branch(case: str, graph: Location) -> None:
    path, _ = create_object(graph, case)
    if case in BRANCH_KNOWN:
        run(graph, [Change(COMPANY, insert=("a",))], branch=DEV)
        assert set(read_contents(graph, DEV)[COMPANY]) == {"a"}
    else:
        with pytest.raises(FormatError, match="cannot read the intent"):
            run(graph, [Change(COMPANY, insert=("a",))], branch=DEV)
    assert ObjectStore(graph).read(path) is not None


def test_other_file_in_the_directory_is_reported(graph: Location) -> None:
    ObjectStore(graph).create(f"{RECOVERY}/notes.txt", b"mine")
    with pytest.raises(FormatError, match=r"notes\.txt"):
        run(graph, [Change(COMPANY, insert=("a",))])
    assert ObjectStore(graph).read(f"{RECOVERY}/notes.txt") == b"mine"


def test_valid_intent_next_to_an_unreadable_one_is_not_recovered(graph: Location) -> None:
    """No intent of a branch is recovered while one of its intents cannot be read."""
    good = good_intent(graph)
    path = f"{RECOVERY}/{good['op_id']}.json"
    ObjectStore(graph).create(path, msgspec.json.encode(good))
    create_object(graph, "future")
    omnigraph.open(graph.uri)
    assert ObjectStore(graph).read(path) is not None
