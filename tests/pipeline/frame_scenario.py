"""`Graph.load` on a real session: `python -m tests.pipeline.frame_scenario load` prints JSON.

One process runs everything, because a session takes seconds to start.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import functions

import omnigraph as og
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.progress import Progress
from omnigraph.pipeline.load.run import LoadRejectedError
from tests.pipeline.in_place import contents, files

SCHEMA = """\
node Person { slug: String @key  age: I32?  @range(age, 0..150) }
edge Knows: Person -> Person { weight: F64? }
"""


def load() -> dict[str, Any]:
    graph = og.init("graph.omni", SCHEMA)
    Path("people.jsonl").write_text('{"type":"Person","data":{"slug":"ada","age":36}}\n', encoding="utf-8")
    Path("people.csv").write_text("slug,age\ngrace,\n", encoding="utf-8")
    spark = og.spark.session()
    events: list[Progress] = []
    first = graph.load("people.jsonl", actor="ada")
    second = graph.create_branch("import").load(["people.csv"], type="Person")
    numbers = spark.range(0, 1_000, 1, numPartitions=3)
    name = functions.format_string("p%04d", "id")
    people = numbers.select(name.alias("slug"), (functions.col("id") % 100).cast("int").alias("age"))
    knows = pa.table({"from": ["p0001"], "to": ["ada"], "weight": [0.5]})
    third = graph.load({"Person": people, "Knows": knows}, progress=events.append)
    return {
        "kind": type(spark).__module__,
        "counts": [dict(outcome.counts) for outcome in (first, second, third)],
        "branches": [outcome.branch for outcome in (first, second, third)],
        "heads": [outcome.commit.id if outcome.commit else None for outcome in (first, second, third)],
        "head": graph.snapshot().head,
        "ages": {row["slug"]: row["age"] for row in contents(graph.location)["node:Person"]},
        "edges": [(row["src"], row["dst"]) for row in contents(graph.location)["edge:Knows"]],
        "events": [asdict(event) for event in events],
        "empty": graph.load(people.limit(0), type="Person").commit,
        "dry": graph.load(people, type="Person", mode="merge", dry_run=True).total,
        "bad": _bad(graph),
        "errors": [
            _code(lambda: graph.load(people, type="Knows")),
            _code(lambda: graph.load(people.selectExpr("slug", "age", "age"), type="Person")),
        ],
        "scratch": sorted(path for path in files(graph.location) if path.startswith("__scratch")),
    }


def _bad(graph: og.Graph) -> list[Any]:
    """Load a frame with one bad row in its second partition; the good rows must be deleted."""
    before = files(graph.location)
    spark = og.spark.session()
    rows = spark.range(0, 100, 1, numPartitions=4).selectExpr(
        "concat('new', id) as slug", "cast(if(id = 30, 1000, 1) as int) as age"
    )
    try:
        graph.load({"Person": rows})
    except LoadRejectedError as rejected:
        assert files(graph.location) == before
        return [(violation.file, violation.line, violation.property) for violation in rejected.report.first]
    return []


def _code(work: Any) -> str | None:
    try:
        work()
    except OmnigraphError as error:
        return error.code
    return None


if __name__ == "__main__":
    sys.stdout.write(json.dumps(load()))
