"""An export on Spark, in a process of its own whose driver cannot read a row.

`python -m tests.pipeline.export_scenario FOLDER` exports `graph.omni` of the working directory, made before, to
that folder and prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import lance

from omnigraph.pipeline.export import ExportRequest, export
from omnigraph.pipeline.export_part import ExportFormat
from omnigraph.pipeline.export_target import parse_target
from omnigraph.pipeline.export_workers import SparkWorkers
from omnigraph.storage.location import parse_location

PART_BYTES = 150_000
_READS = ("scanner", "take", "to_table", "to_batches", "read_blobs", "take_blobs")


def _forbid_rows() -> None:
    """From now on this process reads no rows of nodes and edges; its executors are other processes."""

    def guard(name: str) -> Any:
        read = getattr(lance.LanceDataset, name)

        def refuse(self: lance.LanceDataset, *arguments: Any, **settings: Any) -> Any:
            assert not {"nodes", "edges"} & set(Path(str(self.uri)).parts), f"the driver called {name}"
            return read(self, *arguments, **settings)

        return refuse

    for name in _READS:
        setattr(lance.LanceDataset, name, guard(name))


def main() -> None:
    _forbid_rows()
    folder = Path(os.environ["SCENARIO_FOLDER"])
    target = parse_target(f"{folder}/{sys.argv[1]}/", ExportFormat.NDJSON)
    workers = SparkWorkers()
    exported = export(
        parse_location(str(folder / "graph.omni")), ExportRequest(target, part_bytes=PART_BYTES), workers
    )
    sys.stdout.write(json.dumps({"total": exported.total, "share_disk": workers.share_disk()}))


if __name__ == "__main__":
    main()
