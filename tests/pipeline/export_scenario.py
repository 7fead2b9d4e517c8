"""An export on Spark, in a process whose driver cannot read rows.

`python -m tests.pipeline.export_scenario FOLDER` exports the existing `graph.omni` of the working directory to
that folder and prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance

from omnigraph.pipeline.export.run import ExportOptions, export
from omnigraph.pipeline.export.target import parse_target
from omnigraph.pipeline.export.tasks import ExportFormat
from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.storage.location import parse_location

PART_BYTES = 150_000
_READS = ("scanner", "take", "to_table", "to_batches", "read_blobs", "take_blobs")


@contextmanager
def rows_forbidden() -> Iterator[None]:
    """Fail if this process reads rows of nodes or edges; its executors are other processes."""
    reads = {name: getattr(lance.LanceDataset, name) for name in _READS}

    def guard(name: str) -> Any:
        def refuse(self: lance.LanceDataset, *arguments: Any, **settings: Any) -> Any:
            assert not {"nodes", "edges"} & set(Path(str(self.uri)).parts), f"the driver called {name}"
            return reads[name](self, *arguments, **settings)

        return refuse

    for name in _READS:
        setattr(lance.LanceDataset, name, guard(name))
    try:
        yield
    finally:
        for name, read in reads.items():
            setattr(lance.LanceDataset, name, read)


def main() -> None:
    folder = Path(os.environ["SCENARIO_FOLDER"])
    target = parse_target(f"{folder}/{sys.argv[1]}/", ExportFormat.NDJSON)
    runner = SparkRunner()
    with rows_forbidden():
        exported = export(
            parse_location(str(folder / "graph.omni")), ExportOptions(target=target, part_bytes=PART_BYTES), runner
        )
    sys.stdout.write(json.dumps({"total": exported.total, "shares_disk": runner.shares_disk(0)}))


if __name__ == "__main__":
    main()
