"""Loads whose workers run in this process, and what a graph holds afterwards: for tests that need no Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.plan import LoadOptions, open_source, plan_load
from omnigraph.pipeline.load.run import Loaded, LoadRejectedError, LoadRequest, load
from omnigraph.pipeline.load.source import PieceSource
from omnigraph.pipeline.runner import Result, Task
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore


class LargeSource(PieceSource):
    """Files that are treated as if there were too many keys for the driver."""

    @property
    def text_bytes(self) -> None:  # type: ignore[override]
        return None


def in_place(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    return [function(task) for task in tasks]


def load_here(root: Location, data: object, type_name: str | None = None, mode: str = "append") -> Loaded:
    """What `Graph.load` does, without Spark."""
    options = LoadOptions(mode=mode, actor="ada", type=type_name)
    plan = plan_load(root, MAIN, data, options)
    with open_source(plan, options) as source:
        return load(root, LoadRequest(source, LoadMode(mode), "ada"), in_place)


def violations(root: Location, data: object, type_name: str | None = None) -> list[tuple[Any, ...]]:
    """What a refused load says: file, line, property, code and value of each mistake; empty when it is taken."""
    try:
        load_here(root, data, type_name)
    except LoadRejectedError as rejected:
        return [
            (Path(found.file).name, found.line, found.property, found.rule.code, found.value)
            for found in rejected.report.first
        ]
    return []


def contents(root: Location) -> dict[str, list[dict[str, Any]]]:
    """The rows of each type in the order of their ids."""
    found = {}
    for alias, table in read_snapshot(root).tables.items():
        dataset = open_dataset(root.child(table.path), branch=table.pin.branch, version=table.pin.version)
        found[alias] = sorted(dataset.read().to_pylist(), key=lambda row: str(row["id"]))
    return found


def files(root: Location) -> set[str]:
    """Every file of the graph but for its locks."""
    return {entry.path for entry in ObjectStore(root).list("") if not entry.path.startswith("__locks/")}


def written(place: Path, name: str, data: bytes | str) -> str:
    """A new file."""
    path = place / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)
