"""Schema changes on a real session: executors check rows and write columns, the driver commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omnigraph.base.failpoints import observed
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.schema_apply import SchemaRejectedError, SchemaRequest, apply_schema
from omnigraph.pipeline.runner import RunTasks
from omnigraph.storage.location import Location, parse_location
from tests.maintenance.graphs import DOC, SCHEMA, append, create, open_table

ROWS = 5_000
BROKEN = SCHEMA.replace("size: I32? @index", "size: I32? @index @range(size, 0..3999)").replace(
    "tag: enum(red, blue)? @index", "tag: enum(red, blue)? @index @unique"
)
CHANGED = SCHEMA.replace("note: String?", "rank: I64 @default(7)").replace(
    "title: String @index", "title: String @index @unique @range(size, 0..200000)"
)
REQUIRED = CHANGED.replace("tag: enum(red, blue)? @index", "tag: enum(red, blue) @index @default(blue)")


def evolve_on(workers: RunTasks) -> dict[str, Any]:
    """Apply a schema that rows break, and one that checks, fills and drops permanently."""
    root = parse_location(str(Path("evolved.omni").resolve()))
    create(root)
    append(root, "a", ROWS)
    effects: list[tuple[str, str]] = []
    rejected: dict[str, Any] = {}
    with observed(lambda effect, target: effects.append((effect, target))):
        try:
            _apply(root, BROKEN, workers)
        except SchemaRejectedError as error:
            rejected = {"code": error.code, **error.facts}
        done = _apply(root, CHANGED, workers)
    table = open_table(root, DOC)
    return {
        "rejected": rejected,
        "commit": None if done is None else done.id,
        "head": read_snapshot(root).head,
        "rows": table.count_rows(),
        "filled": table.count_rows("rank = 7"),
        "columns": table.schema.names,
        "driver_writes": sorted({effect for effect, target in effects if "/nodes/" in target}),
    }


def _apply(root: Location, text: str, workers: RunTasks) -> Any:
    request = SchemaRequest(source=text, actor="tester", hard=True, rows_per_task=1_000)
    return apply_schema(root, MAIN, request, workers).commit
