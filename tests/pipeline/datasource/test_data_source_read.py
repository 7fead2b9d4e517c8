"""Reads of the Spark data source without Spark: one pinned state, its columns, its filter."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, InputPartition

from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.refs import SnapshotSelector
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.pipeline.datasource.options import DataSourceError, ReadOptions
from omnigraph.pipeline.datasource.read import SparkTableReader, plan_read
from omnigraph.pipeline.datasource.source import OmnigraphDataSource
from omnigraph.storage.location import Location
from tests.graph.writers import PERSON, SCHEMA, Change, create, run
from tests.maintenance.evolving import evolve


@pytest.fixture
def root(durable_location: Location) -> Location:
    create(durable_location)
    run(durable_location, [Change(PERSON, upsert=(("a", 1), ("b", 2)))])
    run(durable_location, [Change(PERSON, upsert=(("b", 3), ("c", 4)))])
    return durable_location


def rows(reader: SparkTableReader) -> list[dict[str, Any]]:
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return sorted((row for batch in batches for row in batch.to_pylist()), key=str)


def ages(root: Location, **options: Any) -> dict[str, int]:
    read = plan_read(ReadOptions(root=root, type="Person", **options))
    return {row["id"]: row["age"] for row in rows(SparkTableReader(read))}


def test_no_filter_is_pushed() -> None:
    """Spark 4.3.0 keeps pushed filters for the next query on the same DataFrame; test_source.py shows it."""
    assert SparkTableReader.pushFilters is DataSourceReader.pushFilters


def test_the_head_and_earlier_states(root: Location) -> None:
    snapshot = read_snapshot(root)
    newest, before, *_ = make_lineage(snapshot.head, snapshot.manifest.read_commits()).history()
    assert ages(root) == {"a": 1, "b": 3, "c": 4}
    assert ages(root, selector=SnapshotSelector(commit=before.id)) == {"a": 1, "b": 2}
    assert ages(root, selector=SnapshotSelector(version=before.manifest_hint.version)) == {"a": 1, "b": 2}
    assert ages(root, selector=SnapshotSelector(time_us=newest.created_us)) == {"a": 1, "b": 3, "c": 4}
    assert ages(root, selector=SnapshotSelector(time_us=newest.created_us - 1)) == {"a": 1, "b": 2}
    with pytest.raises(NotFoundError) as early:
        ages(root, selector=SnapshotSelector(time_us=0))
    assert early.value.code == "moment_too_early"


def test_earlier_states_across_renames(root: Location) -> None:
    """A read has the column names of its state; the same rows are available under the new names."""
    before = read_snapshot(root).head
    renamed = SCHEMA.replace("node Person", "node Human @rename_from(Person)")
    renamed = renamed.replace("age: I64?", "years: I64? @rename_from(age)").replace(
        ": Person -> Person", ": Human -> Human"
    )
    evolve(root, renamed)
    run(root, [Change("node:Human", delete=("a",))])
    assert ages(root, selector=SnapshotSelector(commit=before)) == {"a": 1, "b": 3, "c": 4}
    now = {row["id"]: row["years"] for row in rows(SparkTableReader(plan_read(ReadOptions(root=root, type="Human"))))}
    assert now == {"b": 3, "c": 4}
    filtered = ReadOptions(
        root=root, type="Person", columns=("slug",), where="age > 2", selector=SnapshotSelector(commit=before)
    )
    assert rows(SparkTableReader(plan_read(filtered))) == [{"slug": "b"}, {"slug": "c"}]
    for wrong in (
        ReadOptions(root=root, type="Person"),
        ReadOptions(root=root, type="Human", selector=SnapshotSelector(commit=before)),
        ReadOptions(root=root, type="Human", columns=("age",)),
    ):
        with pytest.raises((NotFoundError, UsageError)):
            plan_read(wrong)


def test_read_keeps_its_pinned_version(root: Location) -> None:
    options = {"uri": root.uri, "type": "Person", **{f"storage.{k}": v for k, v in root.options}}
    source = OmnigraphDataSource(CaseInsensitiveDict(options))
    schema = source.schema()
    run(root, [Change(PERSON, insert=("later",), delete=())])
    reader = source.reader(schema)
    assert isinstance(reader, SparkTableReader)
    assert [row["id"] for row in rows(reader)] == ["a", "b", "c"]


def test_columns_and_a_filter_on_another_column(root: Location) -> None:
    read = plan_read(ReadOptions(root=root, type="node:Person", columns=("slug",), where="age > 2 AND id <> 'x)'"))
    assert rows(SparkTableReader(read)) == [{"slug": "b"}, {"slug": "c"}]


@pytest.mark.parametrize(
    "where", ["years > 3", "age >", "age > 3) OR (age < 2", "age > 3; drop", "age", "age > 'x'", "(age > 1"]
)
def test_bad_filter_is_rejected_before_any_task_starts(root: Location, where: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan_read(ReadOptions(root=root, type="Person", where=where))
    assert refused.value.code == "filter_malformed"


def test_unknown_names_are_reported_with_the_valid_ones(root: Location) -> None:
    with pytest.raises(UsageError, match="unknown column 'years' of Person: expected id, slug, age"):
        plan_read(ReadOptions(root=root, type="Person", columns=("id", "years")))
    with pytest.raises(NotFoundError, match="unknown type 'Persn': did you mean 'Person'"):
        plan_read(ReadOptions(root=root, type="Persn"))


def test_schema_of_the_caller_must_match_the_type(root: Location) -> None:
    options = {"uri": root.uri, "type": "Person", **{f"storage.{k}": v for k, v in root.options}}
    source = OmnigraphDataSource(CaseInsensitiveDict(options))
    source.reader(source.schema())
    with pytest.raises(DataSourceError, match="Omit the schema"):
        source.reader(plan_read(ReadOptions(root=root, type="Person", columns=("id",))).schema)


def test_partition_that_spark_adds_is_empty(root: Location) -> None:
    reader = SparkTableReader(plan_read(ReadOptions(root=root, type="Company")))
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []
