"""Ensure indices on a real session: `python -m tests.maintenance.index_scenario NAME` prints observations as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnigraph.api.graph import Graph
from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.failpoints import observed
from omnigraph.base.ids import new_ulid
from omnigraph.base.progress import Progress
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions, TableCleanupStats
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.maintenance.optimize.options import OptimizeOptions
from omnigraph.maintenance.optimize.plan import MaintenanceRequest
from omnigraph.maintenance.optimize.rewrite import RewriteTask, rewrite_group
from omnigraph.maintenance.optimize.run import ensure_indices, optimize_all_tables
from omnigraph.maintenance.optimize.task_result import TaskOutcome
from omnigraph.pipeline.runner import CONCURRENCY_VARIABLE, RunTasks
from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.storage.lance.compaction import FragmentRewrite
from omnigraph.storage.lance.indexes import read_indexes
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from omnigraph.wire.errors import error_document
from omnigraph.wire.maintenance import cleanup_row, index_result_output, optimize_row
from tests.maintenance.cleaning import DAY, TomorrowClock
from tests.maintenance.graphs import CITES, DOC, append, create, open_table, rows_scanned
from tests.maintenance.schema_scenario import evolve_on

ROWS = 120_000  # more than small segments share a task for
PROBES = 30


def run_cluster() -> dict[str, Any]:
    """Build, run again without work, append, extend. The driver itself builds nothing."""
    setattr(limits, "SEARCH_EXACT_BYTES", 0)  # noqa: B010 - so that this table gets a vector index
    root = _root()
    create(root)
    append(root, "a", ROWS)
    effects: list[str] = []
    events: list[Progress] = []
    workers = SparkRunner(report=events.append)
    with observed(lambda effect, _: effects.append(effect)):
        first = ensure_indices(root, MAIN, workers)
        idle = ensure_indices(root, MAIN, workers)
        built = _observe(root)
        append(root, "b")
        second = ensure_indices(root, MAIN, workers, MaintenanceRequest(types=frozenset({"Doc"})))
        extended, head = _observe(root), read_snapshot(root).head
        for prefix in "defgh":
            append(root, prefix)
        optimized = optimize_all_tables(Graph(root), OptimizeOptions(rows_per_task=40), _marking(root, workers))
    orphan = _plant_orphan(root)
    os.environ[CONCURRENCY_VARIABLE] = "2"
    previewed, cleaned = _clean_up(root, workers)
    del os.environ[CONCURRENCY_VARIABLE]
    evolved = evolve_on(workers)
    return {
        "evolved": evolved,
        "previewed": [cleanup_row(row) for row in previewed],
        "cleaned": [cleanup_row(row) for row in cleaned],
        "same_files": [row.files for row in previewed] == [row.files for row in cleaned],
        "orphan": orphan,
        "removed": [file for row in cleaned for file in row.files],
        "rows_after": open_table(root, DOC).count_rows(),
        "optimized": [optimize_row(row) for row in optimized],
        "executors": sorted({mark.name.split("-")[0] for mark in Path("marks").iterdir()}),
        "first": index_result_output(first),
        "idle": index_result_output(idle),
        "second": index_result_output(second),
        "built": built,
        "extended": extended,
        "driver_effects": sorted(set(effects)),
        "head": head,
        "find_files": [event.tasks_total for event in events if event.is_last and event.step == "find files"],
        "steps": {event.step: [event.tasks_total, event.rows] for event in events if event.is_last},
        "failure": _failure(root),
    }


def _clean_up(root: Location, workers: RunTasks) -> tuple[list[TableCleanupStats], list[TableCleanupStats]]:
    """Preview in this process and clean up on the executors, as if every file were a day old."""
    environment, policy = WriteEnvironment(clock=TomorrowClock()), CleanupPolicyOptions(keep_versions=1)
    preview = cleanup_all_tables(Graph(root), policy, environment=environment)
    done = cleanup_all_tables(Graph(root), replace(policy, confirm=True), run_tasks=workers, environment=environment)
    return preview, done


def _root() -> Location:
    """Return a graph in the working directory, or on S3 if the environment names one."""
    uri = os.environ.get("SCENARIO_GRAPH", str(Path("graph.omni").resolve()))
    return parse_location(uri, json.loads(os.environ.get("SCENARIO_OPTIONS", "{}")))


def _plant_orphan(root: Location) -> str | None:
    """Write an unreferenced data file that is beyond the grace; on S3 a file cannot get an old date."""
    if not root.is_local:
        return None
    path = f"{read_snapshot(root).tables[DOC].path}/data/abandoned.lance"
    Path(root.uri, path).write_bytes(b"left by a failed write")
    long_ago = SYSTEM_CLOCK.now_us() / 1e6 - 9 * DAY
    os.utime(Path(root.uri, path), (long_ago, long_ago))
    return path


def rewrite_and_mark(task: RewriteTask) -> TaskOutcome[FragmentRewrite]:
    """Rewrite on an executor, and write a file named after the parent process."""
    marks = Path(os.environ["SCENARIO_FOLDER"], "marks")
    marks.mkdir(exist_ok=True)
    (marks / f"{os.getppid()}-{new_ulid()}").touch()
    return rewrite_group(task)


def _marking(root: Location, workers: RunTasks) -> RunTasks:
    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Sequence[Any]:
        return workers(rewrite_and_mark if function is rewrite_group else function, tasks)

    return run


def _observe(root: Location) -> dict[str, Any]:
    return {
        "types": {index.name: index.lance_type for index in read_indexes(open_table(root, DOC))},
        "nearest": _count_found_probes(root),
        "doc": rows_scanned(open_table(root, DOC), "size = 3"),
        "cites": rows_scanned(open_table(root, CITES), "src = 'a3'"),
    }


def _count_found_probes(root: Location) -> int:
    """Return for how many of `PROBES` vectors the index finds the vector itself among the five nearest.

    The index holds codes of vectors, so a few may be missed because many others have the same code.
    """
    table = open_table(root, DOC)
    rows = table.native.take(list(range(PROBES)), columns=["id", "face"]).to_pylist()
    count = 0
    for row in rows:
        query = {"column": "face", "q": row["face"], "k": 5, "metric": "cosine", "refine_factor": 20}
        near = table.native.scanner(nearest=query, columns=["id", "_distance"])
        hits = {hit["id"] for hit in near.to_table().to_pylist()}
        count += row["id"] in hits and "ANNSubIndex" in str(near.explain_plan())
    return count


def _failure(root: Location) -> dict[str, Any] | None:
    """Return the error that a missing data file causes."""
    append(root, "c")
    table = open_table(root, DOC)
    newest = table.native.get_fragments()[-1].metadata.files[0].path
    ObjectStore(table.location).delete(f"data/{newest}")
    try:
        ensure_indices(root, MAIN, SparkRunner(), MaintenanceRequest(types=frozenset({"Doc"})))
    except OmnigraphError as error:
        return {"class": type(error).__name__, **error_document(error, error.hint)}
    return None


def main() -> None:
    assert sys.argv[1] == "cluster"
    sys.stdout.write(json.dumps(run_cluster()))


if __name__ == "__main__":
    from tests.maintenance import index_scenario  # so that workers know the functions by this name

    index_scenario.main()
