"""Schema changes whose tasks run in this process, and graphs for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.api.graph import init
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.maintenance.schema_apply import SchemaRequest, SchemaResult, apply_schema
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.location import Location
from tests.pipeline.in_place import in_place


def create(root: Location, schema: str) -> None:
    init(root.uri, schema, storage_options=dict(root.options), actor="tester")


def evolve(
    root: Location,
    schema: str,
    branch: str = MAIN,
    *,
    tasks: bool = False,
    hard: bool = False,
    environment: WriteEnvironment | None = None,
) -> SchemaResult:
    """Apply a schema. `tasks`: in small tasks, as if every table were too large for the driver."""
    request = SchemaRequest(source=schema, actor="tester", hard=hard)
    if tasks:
        request = replace(request, rows_per_task=2)
    return apply_schema(root, branch, request, in_place, environment)


def opened(snapshot: Snapshot, alias: str) -> Dataset:
    table = snapshot.tables[alias]
    return open_dataset(snapshot.root.child(table.path), branch=table.pin.branch, version=table.pin.version)


def contents(root: Location, branch: str = MAIN) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the rows of every type by id, as a reader of the branch sees them now."""
    return snapshot_contents(read_snapshot(root, branch))


def snapshot_contents(snapshot: Snapshot) -> dict[str, dict[str, dict[str, Any]]]:
    tables = {}
    for alias in snapshot.tables:
        rows = opened(snapshot, alias).read().to_pylist()
        tables[alias] = {row.pop("id"): row for row in rows}
    return tables
