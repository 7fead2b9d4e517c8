"""Loads whose tasks run in this process, and the contents of a graph, for tests without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from omnigraph.base.authorization import AllowAll
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.plan import LoadOptions, open_source, plan_load
from omnigraph.pipeline.load.run import Loaded, LoadRejectedError, LoadRequest, load
from omnigraph.pipeline.load.source import InputSource
from omnigraph.pipeline.runner import Result, Task
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore


class BucketedSource(InputSource):
    """Files that are checked in buckets, whatever their size."""

    @property
    def text_bytes(self) -> None:
        return None


def in_place(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    return [function(task) for task in tasks]


def load_here(root: Location, data: object, type_name: str | None = None, mode: str = "append") -> Loaded:
    """Load as `Graph.load` does, without Spark."""
    options = LoadOptions(mode=mode, actor="ada", gate=AllowAll(), type=type_name)
    plan = plan_load(root, MAIN, data, options)
    with open_source(plan) as source:
        named = plan.inputs.type_names
        return load(root, LoadRequest(source=source, mode=LoadMode(mode), actor="ada", named_types=named), in_place)


def violations(root: Location, data: object, type_name: str | None = None) -> list[tuple[Any, ...]]:
    """Return file, line, property, code and value of each violation; empty if the load succeeds."""
    try:
        load_here(root, data, type_name)
    except LoadRejectedError as rejected:
        return [
            (Path(violation.file).name, violation.line, violation.property, violation.rule.code, violation.value)
            for violation in rejected.report.first
        ]
    return []


def contents(root: Location) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each type in id order."""
    rows_by_alias = {}
    for alias, table in read_snapshot(root).tables.items():
        dataset = open_dataset(root.child(table.path), branch=table.pin.branch, version=table.pin.version)
        rows_by_alias[alias] = sorted(dataset.read().to_pylist(), key=lambda row: str(row["id"]))
    return rows_by_alias


def files(root: Location) -> set[str]:
    """Return every file of the graph except its locks."""
    return {entry.path for entry in ObjectStore(root).list("") if not entry.path.startswith("__locks/")}


def written(place: Path, name: str, data: bytes | str) -> str:
    """Write a file and return its path."""
    path = place / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)
