"""Helpers of the tests of export: a runner in this process, loads of records, and the tables of a graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

import omnigraph as og
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.manifest.stamp import FORMAT, StorageFormat
from omnigraph.pipeline.export.run import ExportOptions, ExportResult, export
from omnigraph.pipeline.export.target import parse_target
from omnigraph.pipeline.export.tasks import ExportFormat
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.inputs.files import find_inputs
from omnigraph.pipeline.load.inputs.ndjson import plan_json_pieces
from omnigraph.pipeline.load.run import Loaded, LoadRequest, load
from omnigraph.pipeline.load.source import InputSource
from omnigraph.pipeline.runner import Result, Task, run_here, task_info
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location

Record = Mapping[str, Any]


@dataclass(slots=True)
class InProcessRunner:
    """Runs tasks in this process and records the step and the number of tasks of each call."""

    has_shared_disk: bool = True
    steps: list[tuple[str, int]] = field(default_factory=list)

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> Sequence[Result]:
        self.steps.append((task_info(function).step, len(tasks)))
        return run_here(function, tasks)

    description = "local"

    def shares_disk(self, _job_bytes: int, /) -> bool:
        return self.has_shared_disk


def make_graph(location: Location, schema: str) -> Location:
    og.init(location.uri, schema, storage_options=dict(location.options), actor="ada")
    return location


def load_file(root: Location, path: Path, branch: str = MAIN, mode: LoadMode = LoadMode.APPEND) -> Loaded:
    source = InputSource(plan_json_pieces(find_inputs([str(path)])))
    return load(root, LoadRequest(source=source, mode=mode, actor="ada", branch=branch), run_here)


def load_records(
    root: Location, folder: Path, records: Sequence[Record], branch: str = MAIN, mode: LoadMode = LoadMode.APPEND
) -> Loaded:
    path = folder / f"records-{uuid4().hex}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return load_file(root, path, branch, mode)


def export_here(
    root: Location,
    out: str | Path,
    format_: ExportFormat = ExportFormat.NDJSON,
    *,
    runner: InProcessRunner | None = None,
    force: bool = False,
    storage_format: StorageFormat = FORMAT,
    **selection: Any,
) -> ExportResult:
    options = dict(root.options) or None if str(out).startswith("s3:") else None
    target = parse_target(str(out), format_, options, force=force)
    request = ExportOptions(target=target, format=format_, **selection)
    return export(root, request, runner or InProcessRunner(), storage_format)


def contents(root: Location, branch: str = MAIN, storage_format: StorageFormat = FORMAT) -> dict[str, pa.Table]:
    """Return every table with its rows in id order, blobs with their bytes."""
    tables = {}
    snapshot = read_snapshot(root, branch, storage_format=storage_format)
    for alias, table in snapshot.tables.items():
        dataset = open_dataset(root.child(table.path), branch=table.pin.branch, version=table.pin.version)
        rows = dataset.native.scanner(blob_handling="all_binary").to_table().combine_chunks()
        assert rows.num_rows == table.row_count
        tables[alias] = rows.sort_by("id").replace_schema_metadata()
    return tables


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]
