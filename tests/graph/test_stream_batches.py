"""A batch of a streaming query is committed once, even if it is repeated and wherever the first attempt stopped."""

from __future__ import annotations

from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.records import CommitRecord, StreamBatch, WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.location import Location
from tests.graph.crash.death import PatientClock, Victim, short_lease_environment
from tests.graph.writers import PERSON, Change, create, run, stage_changes

QUERY = "6f1c7c2e-0000-4000-8000-000000000001"


def write_batch(
    location: Location, batch: int, name: str, environment: WriteEnvironment | None = None, query: str = QUERY
) -> CommitRecord | None:
    stage = stage_changes([Change(PERSON, insert=(name,))])
    request = WriteRequest(
        kind=WriteOperation.LOAD,
        actor="ada",
        stage=stage,
        restage=lambda again, _: stage(again),
        stream=StreamBatch(query, batch),
    )
    return write(location, MAIN, request, environment)


def commits(location: Location) -> list[CommitRecord]:
    return [commit for commit in read_snapshot(location).manifest.read_commits() if commit.stream is not None]


def test_repeated_batch_writes_nothing(store_location: Location) -> None:
    create(store_location)
    first = write_batch(store_location, 0, "a")
    assert first is not None
    assert first.stream == StreamBatch(QUERY, 0)
    assert write_batch(store_location, 1, "b") is not None
    head = read_snapshot(store_location).head
    assert write_batch(store_location, 1, "again") is None
    assert write_batch(store_location, 0, "long ago") is None
    assert read_snapshot(store_location).head == head
    assert write_batch(store_location, 0, "c", query="another-query") is not None
    assert sorted(commit.stream.batch for commit in commits(store_location) if commit.stream) == [0, 0, 1]


def test_batch_committed_by_another_writer_is_found_under_the_lease(store_location: Location) -> None:
    create(store_location)
    plain = stage_changes([Change(PERSON, insert=("late",))])

    def stage(area: StagingArea) -> StagedWrite:
        assert write_batch(store_location, 7, "first") is not None
        return plain(area)

    request = WriteRequest(
        kind=WriteOperation.LOAD,
        actor="ada",
        stage=stage,
        restage=lambda again, _: plain(again),
        stream=StreamBatch(QUERY, 7),
    )
    assert write(store_location, MAIN, request) is None
    assert len(commits(store_location)) == 1


def test_batch_is_committed_once_after_a_crash_at_any_durable_call(store_location: Location) -> None:
    has_survived, call = False, 0
    create(store_location)
    while not has_survived:
        call += 1
        clock = PatientClock(1_000.0 * call)
        environment = short_lease_environment(clock)
        batch, name = call, f"row-{call}"
        has_survived = Victim(call).run(lambda: write_batch(store_location, batch, name, environment))  # noqa: B023
        clock.sleep(60)
        write_batch(store_location, batch, name, environment)
        records = [record for record in commits(store_location) if record.stream == StreamBatch(QUERY, batch)]
        assert len(records) == 1, f"died at its durable call {call}"
        assert read_snapshot(store_location).tables[PERSON].row_count == call
    assert call > 5


def test_other_commits_have_no_batch(store_location: Location) -> None:
    create(store_location)
    run(store_location, [Change(PERSON, insert=("a",))])
    assert commits(store_location) == []
