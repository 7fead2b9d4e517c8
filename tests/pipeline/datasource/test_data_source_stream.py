"""Streams of the Spark data source without Spark: offsets, and exactly the rows that changed between two of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.pipeline.datasource.options import DataSourceError, ReadOptions
from omnigraph.pipeline.datasource.read import plan_read
from omnigraph.pipeline.datasource.source import OmnigraphDataSource
from omnigraph.pipeline.datasource.stream import CommitStream, Offset
from omnigraph.storage.location import Location
from tests.graph.writers import COMPANY, PERSON, SCHEMA, Change, create, run, run_compaction
from tests.maintenance.evolving import evolve


@pytest.fixture
def root(durable_location: Location) -> Location:
    create(durable_location)
    run(durable_location, [Change(PERSON, upsert=(("a", 1), ("b", 2)))])
    return durable_location


def stream(root: Location, **options: Any) -> CommitStream:
    chosen = ReadOptions(root=root, type="Person", **options)
    return CommitStream(chosen, plan_read(ReadOptions(root=root, type="Person", columns=chosen.columns)).schema)


class StreamReplay:
    """Does what Spark does with a stream: it keeps an offset as JSON."""

    def __init__(self, root: Location, **options: Any) -> None:
        self.stream = stream(root, **options)
        self.offset = json.dumps(self.stream.initialOffset())

    def batch(self) -> list[tuple[str, int | None]] | None:
        """Return the rows of the next batch; None without a new batch."""
        start = json.loads(self.offset)
        end = self.stream.latestOffset(start, ReadAllAvailable())
        if end == start:
            return None
        self.offset = json.dumps(end)
        parts = self.stream.partitions(start, json.loads(self.offset))
        batches = [batch for part in parts for batch in self.stream.read(part)]
        return sorted((row["id"], row["age"]) for batch in batches for row in batch.to_pylist())


def test_new_query_sees_only_later_commits(root: Location) -> None:
    query = StreamReplay(root)
    assert query.batch() is None
    run(root, [Change(PERSON, insert=("c",))])
    assert query.batch() == [("c", None)]
    assert query.batch() is None


def test_inserted_and_updated_rows_with_current_values(root: Location) -> None:
    query = StreamReplay(root)
    run(root, [Change(PERSON, upsert=(("b", 3), ("c", 4)))])
    run(root, [Change(PERSON, upsert=(("c", 5),))])
    run(root, [Change(PERSON, delete=("a",))])
    assert query.batch() == [("b", 3), ("c", 5)]


def test_commit_of_other_types_gives_no_batch(root: Location) -> None:
    query = StreamReplay(root)
    run(root, [Change(COMPANY, insert=("x",))])
    assert query.batch() is None


@pytest.mark.parametrize(
    "steps", [["years: I64? @rename_from(age)"], [""], ["", "age: I64?"]], ids=["renamed", "dropped", "replaced"]
)
def test_replaced_column(root: Location, steps: list[str]) -> None:
    query = StreamReplay(root)
    for properties in steps:
        evolve(root, SCHEMA.replace("age: I64?", properties))
    with pytest.raises(DataSourceError, match="column 'age' of Person was renamed"):
        query.batch()
    assert StreamReplay(root, columns=("id", "slug")).batch() is None


def test_new_column(root: Location) -> None:
    query = StreamReplay(root)
    evolve(root, SCHEMA.replace("age: I64?", "age: I64?  note: String?"))
    run(root, [Change(PERSON, upsert=(("c", 4),))])
    assert query.batch() == [("c", 4)]


def test_a_compaction_changes_no_row(root: Location) -> None:
    run(root, [Change(PERSON, insert=("c",))])
    query = StreamReplay(root)
    run_compaction(root, [PERSON])
    assert query.batch() == []
    run(root, [Change(PERSON, insert=("d",))])
    assert query.batch() == [("d", None)]


def test_where_a_query_starts(root: Location) -> None:
    before = read_snapshot(root).head
    run(root, [Change(PERSON, insert=("c",))])
    assert StreamReplay(root, starting_commit=before).batch() == [("c", None)]
    assert StreamReplay(root, starting_commit="first").batch() == [("a", 1), ("b", 2), ("c", None)]
    with pytest.raises(DataSourceError, match="has no commit"):
        StreamReplay(root, starting_commit="never")


def test_columns_and_a_filter(root: Location) -> None:
    chosen = stream(root, starting_commit="first", columns=("slug",), where="age = 2 OR age = 9")
    start = chosen.initialOffset()
    parts = chosen.partitions(start, chosen.latestOffset(start, ReadAllAvailable()))
    rows = [row for part in parts for batch in chosen.read(part) for row in batch.to_pylist()]
    assert rows == [{"slug": "b"}]


def test_branch_forks_its_table_between_two_batches(root: Location) -> None:
    create_branch(root, "review", "ada", read_snapshot(root))
    query = StreamReplay(root, branch="review")
    run(root, [Change(PERSON, upsert=(("a", 100), ("m", 100)))])
    assert query.batch() is None
    run(root, [Change(PERSON, upsert=(("b", 3), ("c", 4)))], branch="review")
    assert query.batch() == [("b", 3), ("c", 4)]
    run(root, [Change(PERSON, upsert=(("c", 5),))], branch="review")
    assert query.batch() == [("c", 5)]


def test_a_branch_of_a_branch(root: Location) -> None:
    create_branch(root, "one", "ada", read_snapshot(root))
    query = StreamReplay(root, branch="one")
    start = query.offset
    run(root, [Change(PERSON, insert=("c",))], branch="one")
    create_branch(root, "two", "ada", read_snapshot(root, "one"))
    run(root, [Change(PERSON, insert=("d",))], branch="two")
    two = StreamReplay(root, branch="two")
    two.offset = start
    assert two.batch() == [("c", None), ("d", None)]


def test_unrelated_table_is_delivered_completely(root: Location) -> None:
    create_branch(root, "review", "ada", read_snapshot(root))
    run(root, [Change(PERSON, insert=("c",))], branch="review")
    query = StreamReplay(root, branch="review")
    other = StreamReplay(root)
    other.offset = query.offset
    assert other.batch() == [("a", 1), ("b", 2)]
    facts = {**json.loads(StreamReplay(root).offset), "table": "0000000000000009:0000000000000009"}
    other.offset = json.dumps(facts)
    assert other.batch() == [("a", 1), ("b", 2)]


def test_available_now_ends_at_the_head_of_the_start(root: Location) -> None:
    query = StreamReplay(root, starting_commit="first")
    query.stream.prepareForTriggerAvailableNow()
    run(root, [Change(PERSON, insert=("late",))])
    assert query.batch() == [("a", 1), ("b", 2)]
    assert query.batch() is None
    assert query.stream.reportLatestOffset()["version"] > json.loads(query.offset)["version"]


def test_an_offset_is_json_without_nulls(root: Location) -> None:
    offset = Offset.of(read_snapshot(root), "Person")
    facts = json.loads(json.dumps(offset.to_json()))
    assert None not in facts.values()
    assert Offset.from_json(facts) == offset


def test_stream_rejects_a_commit(root: Location) -> None:
    options = {"uri": root.uri, "type": "Person", **{f"storage.{k}": v for k, v in root.options}}
    source = OmnigraphDataSource(CaseInsensitiveDict({**options, "commit": read_snapshot(root).head}))
    with pytest.raises(DataSourceError, match="unknown option 'commit' of a streaming read"):
        source.streamReader(source.schema())
    plain = OmnigraphDataSource(CaseInsensitiveDict({**options, "startingCommit": "first"}))
    assert isinstance(plain.streamReader(plain.schema()), CommitStream)
    with pytest.raises(DataSourceError, match="unknown option 'startingcommit' of a read"):
        plain.reader(plain.schema())
