"""The Spark data source on real sessions: `python -m tests.pipeline.source_scenario NAME` prints JSON.

A process has one Spark session, which takes seconds to start, so a scenario does many things and prints the results.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

import omnigraph as og
from omnigraph.api.results import Result
from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.lance.read import TableScan, scan_fragments
from omnigraph.storage.location import parse_location
from tests.docs.markdown import ROOT, blocks
from tests.graph.writers import PERSON, Change, run
from tests.waiting import wait_until

SCHEMA: Final = """\
node Person { slug: String @key  age: I64?  @range(age, 0..150) }
node Thing {
  name: String @key
  b: Bool?  i: I32?  l: I64?  u: U32?  ul: U64?  f: F32?  d: F64?
  day: Date?  at: DateTime?  raw: Blob?  kind: enum(small, large)?
  v: Vector(3)?  tags: [String]?  sizes: [U64]?  moments: [DateTime]?
}
edge Knows: Person -> Person { weight: F64? }
"""
THINGS: Final = (
    "name string, b boolean, i int, l bigint, u bigint, ul decimal(20,0), f float, d double, day date, at timestamp, "
    "raw binary, kind string, v array<float>, tags array<string>, sizes array<decimal(20,0)>, "
    "moments array<timestamp>"
)
PEOPLE: Final = "slug string, age bigint"
FIRST_MOMENT: Final = datetime(1, 1, 1, tzinfo=UTC)
LAST_MOMENT: Final = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


class SourceScenario:
    """The data source on one graph, with short methods."""

    def __init__(self, spark: SparkSession, name: str, schema: str = SCHEMA) -> None:
        self.spark = spark
        self.uri = str(Path(name).resolve())
        self.graph = og.init(self.uri, schema, actor="ada")

    def read(self, of: str, **options: str) -> DataFrame:
        reader = self.spark.read.format("omnigraph").option("uri", self.uri).option("type", of)
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.load()

    def write(self, frame: DataFrame, of: str, save: str = "append", **options: str) -> None:
        writer = frame.write.format("omnigraph").option("uri", self.uri).option("type", of)
        for name, value in options.items():
            writer = writer.option(name, value)
        writer.mode(save).save()

    def rows(self, alias: str, branch: str = "main") -> list[dict[str, Any]]:
        """Return the rows of a table as Lance has them."""
        snapshot = read_snapshot(parse_location(self.uri), branch)
        table = snapshot.tables[alias]
        dataset = open_dataset(snapshot.root.child(table.path), branch=table.pin.branch, version=table.pin.version)
        scan = TableScan(tuple(dataset.schema.names))
        batches = scan_fragments(dataset, tuple(dataset.fragment_rows()), scan)
        return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: str(row["id"]))

    def data_files(self) -> int:
        return len(list(Path(self.uri).glob("*/*/data/*.lance")))

    def people(self, *rows: tuple[str, int | None]) -> DataFrame:
        return self.spark.createDataFrame(list(rows), PEOPLE)


def run_local() -> dict[str, Any]:
    """Run the example of the documentation and every type on one local session."""
    seen: dict[str, Any] = {"document": _run_document()}
    spark = _session()
    seen["types"] = _types(spark, SourceScenario(spark, "things.omni"))
    return seen


def run_stream() -> dict[str, Any]:
    """Stream commits of one graph to another on one local session."""
    return _stream_twice(_session())


def run_failures() -> dict[str, Any]:
    """Run failing reads and writes on one local session."""
    spark = _session()
    source = SourceScenario(spark, "things.omni")
    return {
        "emptied": _overwrite_with_nothing(source),
        "errors": _errors(source),
        "abort": _abort(source),
        "pushed": _pushed(spark),
    }


def run_executors() -> dict[str, Any]:
    """Write on two executor processes at the same time."""
    spark = _session()
    source = SourceScenario(spark, "graph.omni")
    frame = spark.range(0, 4_000, 1, 2).mapInArrow(_together(os.environ["SCENARIO_FOLDER"]), PEOPLE)
    source.write(frame, "Person")
    frame = source.read("Person")
    return {
        "executors": len({row["age"] for row in source.rows(PERSON)}),
        "files": source.data_files(),
        "read": frame.selectExpr("count(*)", "count(DISTINCT slug)").collect()[0].asDict(),
        "commits": len(list(source.graph.log(None))),
    }


def run_connect() -> dict[str, Any]:
    """Read, write and stream on a Spark Connect server."""
    spark = _session()
    source = SourceScenario(spark, "graph.omni")
    source.write(source.people(("a", 1), ("b", 2)), "Person")
    source.write(source.people(("b", 3)), "Person", mode="merge")
    source.graph.mutate('query m() { insert Knows { from: "a", to: "b" } insert Knows { from: "b", to: "b" } }')
    pairs = "match { $p: Person  $p knows{1,2} $f  not { $p knows $p } } return { $p.slug, $f.age }"
    ages = "match { $p: Person  optional { $p knows $f } } return { $p.slug, count($f) as n } order { n desc, $p.slug }"
    asked = [f"query q() {{ {text} }}" for text in (pairs, ages)]
    overflow_error = "query q() { match { $p: Person } return { sum($p.age * 9000000000000000000) as n } }"
    return {
        "kind": type(spark).__module__,
        "queries": [source.graph.query(text, runner="spark").to_pylist() for text in asked],
        "same": [source.graph.query(text).to_pylist() for text in asked],
        "refused": [
            _error_message(partial(source.graph.query, asked[0], runner="spark", limits=few))
            for few in (og.QueryLimits(seconds=1e-6), og.QueryLimits(memory_bytes=1))
        ],
        "overflow": _error_message(partial(source.graph.query, overflow_error, runner="spark")),
        "rows": [row.asDict() for row in source.read("Person").orderBy("id").collect()],
        "error": _failure(lambda: source.read("Person", filter="nope = 1").collect()),
    }


def _run_document() -> dict[str, Any]:
    """Run the example of the documentation, cell by cell, as a notebook does."""
    names: dict[str, Any] = {}
    text = (ROOT / "docs" / "user" / "spark.md").read_text(encoding="utf-8")
    cells = [block.text for block in blocks(text) if block.language == "python"]
    for cell in cells:
        exec(compile(cell, "spark.md", "exec"), names)
    return {"cells": len(cells), "copied": names["copy"].count()}


def _session() -> SparkSession:
    spark = og.spark.session()
    spark.dataSource.register(og.spark.OmnigraphDataSource)
    return spark


def _types(spark: SparkSession, source: SourceScenario) -> dict[str, Any]:
    """Write every type to Lance, read it, and write it to another graph unchanged."""
    full = (
        "full", True, -(2**31), 2**63 - 1, 2**32 - 1, Decimal(2**64 - 1), 1.5, 0.1,
        date(1, 1, 1), LAST_MOMENT, b"\x00\xff", "small",
        [1.0, -2.5, 3.25], ["a", "", "é"], [Decimal(0), Decimal(2**64 - 1)], [FIRST_MOMENT],
    )  # fmt: skip
    empty: tuple[Any, ...] = ("empty", *[None] * 15)
    hollow: tuple[Any, ...] = ("hollow", *[None] * 12, [], [], [])
    source.write(spark.createDataFrame([full, empty, hollow], THINGS), "Thing")
    frame = source.read("Thing")
    other = SourceScenario(spark, "other.omni")
    other.write(frame, "node:Thing")
    return {
        "schema": frame.schema.simpleString(),
        "stored": str(source.rows("node:Thing")[1]),
        "copied": other.rows("node:Thing") == source.rows("node:Thing"),
    }


def _overwrite_with_nothing(source: SourceScenario) -> int:
    source.write(source.people(("ada", 36)), "Person")
    source.write(source.people(("ada", 36)).filter("false"), "Person", "overwrite")
    return len(source.rows(PERSON))


def _errors(source: SourceScenario) -> dict[str, str]:
    """Return the errors of the three stages in which Spark runs our code: planning, a task, the commit."""
    source.write(source.people(("ada", 36)), "Person")
    return {
        "plan": _failure(lambda: source.read("Person", filter="years > 3")),
        "column": _failure(lambda: source.write(source.people(("x", 1)).drop("age"), "Knows")),
        "commit": _failure(lambda: source.write(source.people(("x", 200), ("ada", 1)), "Person")),
    }


def _abort(source: SourceScenario) -> dict[str, Any]:
    """Fail one task after the other task has written its fragment on its executor."""
    before = source.data_files()
    frame = source.spark.range(0, 2, 1, 2).mapInArrow(_fail_when_written(source.uri, before), PEOPLE)
    failure = _failure(lambda: source.write(frame, "Person"))
    return {"failure": failure, "left": source.data_files() - before}


def _fail_when_written(uri: str, before: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            number = batch.column(0).to_pylist()[0]
            if number == 1:
                wait_until(lambda: len(list(Path(uri).glob("*/*/data/*.lance"))) > before, "the other task writes")
                raise ValueError("on purpose")
            yield pa.RecordBatch.from_pydict({"slug": ["staged"], "age": [1]})

    return work


def _together(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Wait until both tasks run, so that both executors take part. The age of a row is the number of its executor."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            own = f"executor-{os.getppid()}"
            Path(folder, own).touch()
            wait_until(lambda: len(list(Path(folder).glob("executor-*"))) >= 2, "both executors take part")
            names = sorted(path.name for path in Path(folder).glob("executor-*"))
            slugs = [f"p{number}" for number in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"slug": slugs, "age": [names.index(own)] * len(slugs)})

    return work


class _Pushing(DataSource):
    """A source of ten numbers with the filter pushdown that ours does not have."""

    @classmethod
    def name(cls) -> str:
        return "pushing"

    def schema(self) -> str:
        return "x int"

    def reader(self, schema: object) -> DataSourceReader:
        return _PushingReader()


class _PushingReader(DataSourceReader):
    def __init__(self) -> None:
        self.pushed_value: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        for pushed_filter in filters:
            if isinstance(pushed_filter, EqualTo):
                self.pushed_value = pushed_filter.value
            else:
                yield pushed_filter

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield from ((x,) for x in range(10) if self.pushed_value in (None, x))


def _pushed(spark: SparkSession) -> list[int]:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(_Pushing)
    frame = spark.read.format("pushing").load()
    return [frame.count(), frame.filter("x = 3").count(), frame.count()]


def _stream_twice(spark: SparkSession) -> dict[str, Any]:
    """Append new commits of one graph to another, and repeat the first batch."""
    first, second = SourceScenario(spark, "first.omni"), SourceScenario(spark, "second.omni")
    location = parse_location(first.uri)
    run(location, [Change(PERSON, insert=("a", "b"))])
    _copy(first, second)
    for name in ("0", ".0.crc"):  # as if Spark had died before it recorded the batch
        Path("stream-checkpoint/commits", name).unlink()
    run(location, [Change(PERSON, insert=("c",))])
    run(location, [Change(PERSON, insert=("d",))])
    _copy(first, second)
    batches = [commit.stream and (len(commit.stream.query), commit.stream.batch) for commit in second.graph.log(None)]
    return {"rows": [row["id"] for row in second.rows(PERSON)], "batches": batches}


def _copy(source: SourceScenario, target: SourceScenario) -> None:
    frame = source.spark.readStream.format("omnigraph").option("uri", source.uri).option("type", "Person")
    changes = frame.option("startingCommit", "first").load()
    writer = changes.writeStream.format("omnigraph").option("uri", target.uri).option("type", "Person")
    writer = writer.option("mode", "append").option("checkpointLocation", "stream-checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def _failure(act: Callable[[], object]) -> str:
    """Return the text of a Spark failure, starting with our message."""
    try:
        act()
    except PySparkException as error:
        return str(error).rpartition("DataSourceError: ")[2]
    return "no failure"


def _error_message(act: Callable[[], Result]) -> str:
    """Return the message of an Omnigraph error."""
    try:
        act().to_pylist()
    except OmnigraphError as error:
        return error.message
    return "no failure"


def main() -> None:
    run_scenario: Callable[[], dict[str, Any]] = globals()[f"run_{sys.argv[1]}"]
    sys.stdout.write(json.dumps(run_scenario()))


if __name__ == "__main__":
    from tests.pipeline import source_scenario  # so that workers know the functions by this name

    source_scenario.main()
