"""Ensure indices on a real session: `python -m tests.maintenance.index_scenario NAME` prints what was seen as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from omnigraph.base.effects import observed
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.progress import Progress
from omnigraph.graph.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.ensure_indices import IndexOptions, ensure_indices
from omnigraph.maintenance.spark_workers import on_spark
from omnigraph.pipeline.session import SparkSettings
from omnigraph.storage.coverage import read_indexes
from omnigraph.storage.location import Location, parse_location
from tests.maintenance.graphs import CITES, DOC, append, create, open_table, rows_scanned

ROWS = 120_000  # more than small segments share a task for


def run_cluster() -> dict[str, Any]:
    """Build, find nothing to do, append, extend. The driver builds nothing itself."""
    root = parse_location(str(Path("graph.omni").resolve()))
    create(root)
    append(root, "a", ROWS)
    effects: list[str] = []
    events: list[Progress] = []
    workers = on_spark(SparkSettings(), events.append)
    with observed(lambda effect, _: effects.append(effect)):
        first = ensure_indices(root, MAIN, workers)
        idle = ensure_indices(root, MAIN, workers)
        built = _seen(root)
        append(root, "b")
        second = ensure_indices(root, MAIN, workers, IndexOptions(types=frozenset({"Doc"})))
    return {
        "first": first.to_json(),
        "idle": idle.to_json(),
        "second": second.to_json(),
        "built": built,
        "extended": _seen(root),
        "driver_effects": sorted(set(effects)),
        "head": read_snapshot(root).head,
        "steps": {event.step: [event.tasks_total, event.rows] for event in events if event.is_last},
        "failure": _failure(root),
    }


def _seen(root: Location) -> dict[str, Any]:
    return {
        "segments": {index.name: index.segments for index in read_indexes(open_table(root, DOC))},
        "doc": rows_scanned(open_table(root, DOC), "size = 3"),
        "cites": rows_scanned(open_table(root, CITES), "src = 'a3'"),
    }


def _failure(root: Location) -> dict[str, Any] | None:
    """A data file that is gone is told as what it is."""
    append(root, "c")
    table = open_table(root, DOC)
    newest = table.native.get_fragments()[-1].metadata.files[0].path
    Path(table.location.uri, "data", newest).unlink()
    try:
        ensure_indices(root, MAIN, on_spark(SparkSettings()), IndexOptions(types=frozenset({"Doc"})))
    except OmnigraphError as error:
        return {"class": type(error).__name__, **error.to_json()}
    return None


def main() -> None:
    assert sys.argv[1] == "cluster"
    sys.stdout.write(json.dumps(run_cluster()))


if __name__ == "__main__":
    from tests.maintenance import index_scenario  # so that workers know the functions by this name

    index_scenario.main()
