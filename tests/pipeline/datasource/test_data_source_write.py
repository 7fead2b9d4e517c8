"""Writes of the Spark data source without Spark: what tasks write, and what is committed."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from omnigraph.base.errors import UsageError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.publish import ManifestChange, PublishTarget, publish
from omnigraph.graph.manifest.records import SchemaRecord, StreamBatch
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.datasource.options import WriteOptions
from omnigraph.pipeline.datasource.write import (
    BatchWriter,
    TableMovedError,
    TableWriter,
    WritePlan,
    WrittenPart,
    commit_parts,
    plan_write,
    write_part,
)
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.run import Loaded, LoadRejectedError
from omnigraph.schema.build import build_catalog
from omnigraph.schema.catalog_json import catalog_to_json, schema_hash
from omnigraph.schema.parser import parse_schema
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.writers import KNOWS, PERSON, SCHEMA, Change, create, read_contents, run

PEOPLE = StructType().add("slug", StringType()).add("age", LongType())


@pytest.fixture
def root(store_location: Location) -> Location:
    create(store_location)
    run(store_location, [Change(PERSON, upsert=(("a", 1), ("b", 2)))])
    return store_location


def plan(root: Location, mode: LoadMode = LoadMode.APPEND, branch: str = MAIN) -> WritePlan:
    return plan_write(WriteOptions(root=root, type="Person", mode=mode, actor="ada", branch=branch), PEOPLE)


def people(**ages: int | None) -> pa.RecordBatch:
    columns = {"slug": pa.array(list(ages)), "age": pa.array(list(ages.values()), pa.int64())}
    return pa.RecordBatch.from_pydict(columns)


def written(write_plan: WritePlan, *partitions: pa.RecordBatch) -> list[WrittenPart]:
    """Return what tasks return, after pickling."""
    parts = [write_part(write_plan, number, [batch]) for number, batch in enumerate(partitions)]
    return [pickle.loads(pickle.dumps(part)) for part in parts]


def save(root: Location, *partitions: pa.RecordBatch, **options: Any) -> Loaded:
    write_plan = plan(root, **options)
    return commit_parts(write_plan, written(write_plan, *partitions))


def fragments(parts: list[WrittenPart]) -> int:
    return sum(len(rows.fragments) for part in parts for rows in part.part.rows.values())


def files(root: Location) -> set[str]:
    return {entry.path for entry in ObjectStore(root).list("") if not entry.path.startswith("__locks/")}


def test_tasks_write_fragments_for_one_commit(root: Location) -> None:
    write_plan = plan(root)
    parts = written(write_plan, people(c=3), people(d=None, e=5))
    assert fragments(parts) == 2
    loaded = commit_parts(write_plan, parts)
    assert loaded.commit is not None
    assert (loaded.counts, loaded.commit.actor) == ({PERSON: 3}, "ada")
    assert read_contents(root)[PERSON] == {"a": 1, "b": 2, "c": 3, "d": None, "e": 5}


def test_a_merge_replaces_and_inserts(root: Location) -> None:
    save(root, people(b=20), people(c=3), mode=LoadMode.MERGE)
    assert read_contents(root)[PERSON] == {"a": 1, "b": 20, "c": 3}


def test_a_patch_keeps_the_values_of_omitted_columns(root: Location) -> None:
    save(root, people(b=20).select(["slug"]), people(c=3).select(["slug"]), mode=LoadMode.PATCH)
    assert read_contents(root)[PERSON] == {"a": 1, "b": 2, "c": None}


def test_a_patch_fails_if_the_table_changed(root: Location) -> None:
    write_plan = plan(root, LoadMode.PATCH)
    parts = written(write_plan, people(b=20).select(["slug"]))
    save(root, people(b=21), mode=LoadMode.MERGE)
    with pytest.raises(TableMovedError, match="the table changed during the write"):
        commit_parts(write_plan, parts)
    assert read_contents(root)[PERSON]["b"] == 21


def test_overwrite_replaces_the_type_also_with_no_rows(root: Location) -> None:
    save(root, people(z=9), mode=LoadMode.OVERWRITE)
    assert read_contents(root)[PERSON] == {"z": 9}
    assert save(root, people(), mode=LoadMode.OVERWRITE).commit is not None
    assert read_contents(root)[PERSON] == {}


@pytest.mark.parametrize("mode", [LoadMode.APPEND, LoadMode.MERGE])
def test_no_commit_without_rows(root: Location, mode: LoadMode) -> None:
    head = read_snapshot(root).head
    assert save(root, people(), mode=mode).commit is None
    assert read_snapshot(root).head == head


def test_violations_of_all_partitions_are_reported_and_nothing_is_left(root: Location) -> None:
    before = files(root)
    with pytest.raises(LoadRejectedError) as rejected:
        save(root, people(c=3, d=4), people(a=5), people(c=6))
    report = rejected.value.report
    assert dict(report.counts) == {Rule.KEY_CONFLICT: 1, Rule.DUPLICATE_ID: 1}
    assert [(violation.file, violation.line) for violation in report.first] == [("<Person>", 3), ("<Person>", 4)]
    assert files(root) == before


@pytest.mark.parametrize("mode", [LoadMode.APPEND, LoadMode.OVERWRITE, LoadMode.MERGE])
def test_branch_without_a_fork_of_the_type(root: Location, mode: LoadMode) -> None:
    create_branch(root, "review", "ada", read_snapshot(root))
    write_plan = plan(root, mode, "review")
    parts = written(write_plan, people(c=3))
    assert fragments(parts) == 0, "files staged on another Lance branch would make the fork unreadable"
    commit_parts(write_plan, parts)
    expected = {} if mode is LoadMode.OVERWRITE else {"a": 1, "b": 2}
    assert read_contents(root, "review")[PERSON] == {**expected, "c": 3}
    assert read_contents(root)[PERSON] == {"a": 1, "b": 2}
    again = written(plan(root, LoadMode.APPEND, "review"), people(d=4))
    assert fragments(again) == 1


def test_concurrent_writers_are_allowed(root: Location) -> None:
    write_plan = plan(root)
    parts = written(write_plan, people(c=3))
    run(root, [Change(PERSON, insert=("d",))])
    commit_parts(write_plan, parts)
    assert sorted(read_contents(root)[PERSON]) == ["a", "b", "c", "d"]


def test_row_of_a_concurrent_writer_is_a_conflict(root: Location) -> None:
    write_plan = plan(root)
    parts = written(write_plan, people(c=3))
    run(root, [Change(PERSON, insert=("c",))])
    with pytest.raises(LoadRejectedError):
        commit_parts(write_plan, parts)


@pytest.mark.parametrize("mode", [LoadMode.APPEND, LoadMode.MERGE])
def test_concurrent_schema_change_is_a_conflict(root: Location, mode: LoadMode) -> None:
    write_plan = plan(root, mode)
    parts = written(write_plan, people(c=3))
    change_schema(root)
    with pytest.raises(TableMovedError, match="the schema of the graph changed"):
        commit_parts(write_plan, parts)
    assert sorted(read_contents(root)[PERSON]) == ["a", "b"]


def test_an_aborted_write_leaves_no_files(root: Location) -> None:
    before = files(root)
    write_plan = plan(root)
    done, _ = written(write_plan, people(c=3), people(d=4))
    TableWriter(write_plan).abort([done, None])
    BatchWriter(write_plan).abort([_, None], 0)
    assert files(root) == before


def test_an_abort_after_a_commit_that_may_have_happened_deletes_nothing(root: Location) -> None:
    write_plan = plan(root)
    parts = written(write_plan, people(c=3))
    commit_parts(write_plan, parts)
    TableWriter(write_plan).abort(list(parts))
    assert read_contents(root)[PERSON]["c"] == 3


def test_a_repeated_batch_is_not_committed_and_leaves_no_files(root: Location) -> None:
    write_plan = plan(root)
    first = [write_part(write_plan, 0, [people(c=3)], "a-query")]
    BatchWriter(write_plan).commit(list(first), 4)
    assert read_snapshot(root).manifest.has_stream_batch(StreamBatch("a-query", 4))
    before, head = files(root), read_snapshot(root).head
    for batch in (4, 3):
        again = [write_part(plan(root), 0, [people(c=3)], "a-query")]
        BatchWriter(plan(root)).commit(list(again), batch)
    assert (files(root), read_snapshot(root).head) == (before, head)
    BatchWriter(write_plan).commit([], 5)
    BatchWriter(plan(root)).commit([write_part(plan(root), 0, [people(d=4)], "a-query")], 5)
    assert sorted(read_contents(root)[PERSON]) == ["a", "b", "c", "d"]


def test_edges_by_column_names_or_load_names(root: Location) -> None:
    for number, (source, target) in enumerate((("src", "dst"), ("from", "to"))):
        schema = StructType().add(source, StringType()).add(target, StringType()).add("since", LongType())
        write_plan = plan_write(WriteOptions(root=root, type="Knows", mode=LoadMode.APPEND, actor="ada"), schema)
        batch = pa.RecordBatch.from_pydict({source: ["a"], target: ["b"], "since": [number]})
        commit_parts(write_plan, written(write_plan, batch))
    assert sorted(read_contents(root)[KNOWS].values(), key=str) == [0, 1]


@pytest.mark.parametrize("names", [("slug", "years"), ("src", "from", "to")])
def test_unknown_columns(root: Location, names: tuple[str, ...]) -> None:
    of = "Person" if "slug" in names else "Knows"
    schema = StructType()
    for name in names:
        schema = schema.add(name, StringType())
    with pytest.raises(UsageError) as refused:
        plan_write(WriteOptions(root=root, type=of, mode=LoadMode.APPEND, actor="ada"), schema)
    assert refused.value.code == "source_column"


def change_schema(root: Location) -> None:
    """Publish another catalog of the same tables."""
    before = read_snapshot(root)
    source = SCHEMA.replace("age: I64?", "age: I64?  @range(age, 0..200)")
    catalog = build_catalog(parse_schema(source, "<schema>"))
    record = SchemaRecord(source, catalog_to_json(catalog), schema_hash(catalog))
    branch = before.branch
    publish(PublishTarget(root, branch.name, branch.id, branch.lance_branch), ManifestChange(schema=record))
