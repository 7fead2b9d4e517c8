"""Publish: requirements, conflicts, repeated publishes, and when it reports success."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from omnigraph.base import limits
from omnigraph.base.errors import Applied
from omnigraph.base.ids import BranchId, CommitId, OperationId, SchemaHash, new_ulid
from omnigraph.graph.manifest.compaction import compact_manifest
from omnigraph.graph.manifest.encoding import branch_object_id, encode_schema, encode_table, encode_tombstone
from omnigraph.graph.manifest.publish import ManifestChange, PublishContentionError, Publisher, publish
from omnigraph.graph.manifest.records import (
    BranchRecord,
    Pin,
    RecoveryRecord,
    TableMove,
    TombstoneRecord,
    WriteOperation,
)
from omnigraph.graph.manifest.requirements import (
    BranchIs,
    HeadIs,
    PinIs,
    PreconditionFailedError,
    ReadSetConflictError,
    Requirement,
    SchemaIs,
)
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.storage.location import Location
from tests.graph.publishing import QuickClock, make_graph, moved, new_draft, newest, publish_next, target_of, tree
from tests.graph.writers import COMPANY, PERSON


@dataclass(slots=True)
class Interruptions:
    """A `hold` that runs something else between opening and writing the manifest, `times` times."""

    interrupt: Callable[[], object]
    times: int = 1
    calls: list[int] = field(default_factory=list)

    def __call__(self) -> None:
        self.calls.append(len(self.calls))
        if len(self.calls) <= self.times:
            self.interrupt()


def _branch(name: str) -> BranchRecord:
    branch_id = BranchId(new_ulid())
    return BranchRecord(name=name, id=branch_id, lance_branch=f"b-{branch_id}", parent=None, creator="me", created_us=1)


def test_publish_computes_parent_hint_and_moves(store_location: Location) -> None:
    first = make_graph(store_location)
    draft = new_draft()
    table = moved(first.tables[PERSON])
    record = publish(target_of(first), ManifestChange(commit=draft, tables=(table,)))
    assert record is not None
    assert (record.id, record.parent, record.manifest_hint) == (draft.id, first.head, Pin(None, 2))
    assert record.tables == (TableMove(table.id, Pin(None, 1), Pin(None, 2)),)
    assert (record.branch, record.branch_id, record.schema_hash) == ("main", first.branch.id, first.schema.hash)
    assert newest(store_location).find_commit(draft.id) == record
    assert read_snapshot(store_location).tables[PERSON] == table


def test_two_publishers_of_branch_rows_conflict(store_location: Location) -> None:
    """Every publish rewrites the head, so that two publishers always conflict."""
    first = make_graph(store_location)
    target = target_of(first)

    def rival() -> None:
        publish(target, ManifestChange(branches=(_branch("theirs"),)))

    hold = Interruptions(rival)
    publish(target, ManifestChange(branches=(_branch("ours"),)), (), Publisher(hold, QuickClock()))
    assert len(hold.calls) == 2
    assert set(newest(store_location).read_state().branches) == {"main", "ours", "theirs"}
    assert read_snapshot(store_location).head == first.head


def test_publish_without_a_commit_rewrites_the_head_row(store_location: Location) -> None:
    first = make_graph(store_location)
    before = _head_address(store_location)
    publish(target_of(first), ManifestChange(branches=(_branch("x"),)))
    assert _head_address(store_location) != before
    assert read_snapshot(store_location).head == first.head


def _head_address(location: Location) -> int:
    native = newest(location).dataset.native
    rows = native.scanner(filter="object_id = 'graph_head'", with_row_address=True).to_table()
    return int(rows.column("_rowaddr")[0].as_py())


def _requirements(snapshot: Snapshot) -> dict[str, tuple[Requirement, Requirement]]:
    """Return each requirement as met and as unmet."""
    table = snapshot.tables[PERSON]
    return {
        "head": (HeadIs(snapshot.head), HeadIs(CommitId("OTHER"))),
        "schema": (SchemaIs(snapshot.schema.hash), SchemaIs(SchemaHash("other"))),
        "pin": (PinIs(table.id, table.pin), PinIs(table.id, Pin(None, 9))),
        "no pin": (PinIs(replace(table, type_id="f").id, None), PinIs(table.id, None)),  # type: ignore[arg-type]
        "branch": (BranchIs("main", snapshot.branch.id), BranchIs("main", BranchId("OTHER"))),
        "no branch": (BranchIs("x", None), BranchIs("main", None)),
    }


@pytest.mark.parametrize("name", ["head", "schema", "pin", "no pin", "branch", "no branch"])
def test_unmet_requirement_writes_nothing(durable_location: Location, name: str) -> None:
    snapshot = make_graph(durable_location)
    met, unmet = _requirements(snapshot)[name]
    before = tree(durable_location)
    with pytest.raises((PreconditionFailedError, ReadSetConflictError)):
        publish_next(durable_location, PERSON, unmet)
    assert tree(durable_location) == before
    publish_next(durable_location, PERSON, met)
    assert newest(durable_location).version == 2


@pytest.mark.parametrize("name", ["head", "pin"])
def test_requirement_is_checked_again_after_a_lost_race(store_location: Location, name: str) -> None:
    """It held when the manifest was opened, and another publish made it false before the write."""
    snapshot = make_graph(store_location)
    met, _ = _requirements(snapshot)[name]
    hold = Interruptions(lambda: publish_next(store_location, PERSON))
    error = PreconditionFailedError if name == "head" else ReadSetConflictError
    with pytest.raises(error):
        publish_next(store_location, PERSON, met, publisher=Publisher(hold, QuickClock()))
    assert newest(store_location).version == 2


def test_publish_that_loses_to_a_compaction_is_retried_with_if_commit(durable_location: Location) -> None:
    make_graph(durable_location)
    for _ in range(3):
        publish_next(durable_location)
    head = read_snapshot(durable_location).head
    hold = Interruptions(lambda: compact_manifest(newest(durable_location)))
    commit = publish_next(durable_location, PERSON, HeadIs(head), publisher=Publisher(hold, QuickClock()))
    assert len(hold.calls) == 2
    assert commit is not None
    assert (commit.parent, newest(durable_location).version) == (head, 7)


def test_repeated_publish_returns_the_first_commit(store_location: Location) -> None:
    first = make_graph(store_location)
    change = ManifestChange(commit=new_draft(), tables=(moved(first.tables[PERSON]),))
    once = publish(target_of(first), change, (HeadIs(first.head),))
    publish_next(store_location, COMPANY)
    again = publish(target_of(first), change, (HeadIs(first.head),))
    assert again == once is not None
    assert newest(store_location).version == 3
    assert read_snapshot(store_location).tables[COMPANY].pin.version == 2


def test_repeated_recovery_publish_writes_nothing(store_location: Location) -> None:
    target = target_of(make_graph(store_location))
    audit = RecoveryRecord(
        operation_id=OperationId(new_ulid()),
        operation=WriteOperation.LOAD,
        actor="me",
        action="rolled_back",
        recovered_us=1,
        tables={},
    )
    publish(target, ManifestChange(recovery=audit))
    publish(target, ManifestChange(commit=new_draft("recovery"), recovery=audit))
    assert newest(store_location).version == 2
    assert len(newest(store_location).read_commits()) == 1


def test_branch_row_is_added_and_removed_by_one_publish_each(store_location: Location) -> None:
    first = make_graph(store_location)
    target, record = target_of(first), _branch("x")
    publish(target, ManifestChange(branches=(record,)), (BranchIs("x", None),))
    with pytest.raises(ReadSetConflictError):
        publish(target, ManifestChange(branches=(_branch("x"),)), (BranchIs("x", None),))
    removal = ManifestChange(removed=(branch_object_id("x"),))
    publish(target, removal, (BranchIs("x", record.id),))
    assert set(newest(store_location).read_state().branches) == {"main"}
    with pytest.raises(ReadSetConflictError):
        publish(target, removal, (BranchIs("x", record.id),))
    assert (newest(store_location).version, read_snapshot(store_location).head) == (3, first.head)


def test_encoded_rows_of_an_intent_are_listed_in_the_commit(store_location: Location) -> None:
    """Recovery publishes a schema change from encoded rows. The commit is the same as that of the write itself."""
    first = make_graph(store_location)
    table, dropped = moved(first.tables[PERSON]), first.tables[COMPANY]
    schema = replace(first.schema, hash=SchemaHash("next"))
    stone = TombstoneRecord(dropped.id, COMPANY, dropped.pin.version)
    rows = (encode_table(table), encode_tombstone(stone), encode_schema(schema))
    commit = publish(target_of(first), ManifestChange(commit=new_draft("schema_apply"), rows=rows))
    assert commit is not None
    assert commit.schema_hash == "next"
    assert [move.table for move in commit.tables] == [table.id, dropped.id]
    after = read_snapshot(store_location)
    assert (set(after.tables), after.schema.hash) == ({PERSON, "edge:Knows"}, "next")


def test_contention_is_bounded_and_not_applied(local_location: Location) -> None:
    first = make_graph(local_location)
    target, clock = target_of(first), QuickClock()
    hold = Interruptions(lambda: publish(target, ManifestChange()), times=limits.PUBLISHER_RETRY_BUDGET)
    draft = new_draft()
    with pytest.raises(PublishContentionError) as caught:
        publish(target, ManifestChange(commit=draft), (), Publisher(hold, clock, lambda: 1.0))
    assert caught.value.applied is Applied.NO
    assert len(clock.slept) == limits.PUBLISHER_RETRY_BUDGET
    assert clock.slept == sorted(clock.slept)
    assert clock.slept[-1] == limits.PUBLISHER_BACKOFF_SECONDS_MAX
    assert newest(local_location).find_commit(draft.id) is None


def test_lease_is_checked_between_open_and_write(local_location: Location) -> None:
    first = make_graph(local_location)
    before = tree(local_location)

    def lost() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        publish(target_of(first), ManifestChange(commit=new_draft()), (), Publisher(lost))
    assert tree(local_location) == before
