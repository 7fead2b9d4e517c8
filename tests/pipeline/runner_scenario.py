"""The same load, export, optimize and cleanup on one runner: `python -m tests.pipeline.runner_scenario NAME`.

NAME is `local`, `spark` or `session`, where the program has a session before it calls Omnigraph. Prints JSON with the
published rows and the reports, without what differs between two runs on one runner: ids, times and file names.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import omnigraph as og
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.progress import Progress
from omnigraph.wire.errors import error_document
from omnigraph.wire.maintenance import cleanup_row, optimize_row

SCHEMA = """
node Person { slug: String @key  age: I32?  bio: String? @index }
edge Knows: Person -> Person { number: String  @key(src, dst, number) }
"""
PEOPLE = 300
FILES = 6
VARYING = {"commit", "seconds", "bytes_before", "bytes_after", "bytes_removed"}


def main() -> None:
    folder = Path(os.environ["SCENARIO_FOLDER"])
    name = sys.argv[1]
    runner: Literal["auto", "local", "spark"] = "local" if name == "local" else "spark"
    spark = None
    if name == "session":
        from omnigraph.pipeline.spark.session import session

        spark, runner = session("local[2]"), "auto"
    og.init(folder / "graph.omni", SCHEMA, actor="ada")
    graph = og.open(folder / "graph.omni", actor="ada", spark=spark)
    events: list[Progress] = []
    loads = [
        graph.load(_write_people(folder, number), mode="merge", runner=runner, progress=events.append)
        for number in range(FILES)
    ]
    os.chdir(folder)
    rejected = Path("rejected.jsonl")  # the error names the file as it was passed
    rejected.write_text('{"type": "Person", "data": {"slug": 1, "age": "x"}}\n{"type": "Ghost"}\n', encoding="utf-8")
    optimized = graph.optimize(runner=runner)
    indexed = graph.build_indexes(runner=runner)
    exported = graph.export(folder / "dump.jsonl", runner=runner)
    cleaned = graph.cleanup(keep=1, dry_run=False, runner=runner)
    runners = {optimized.runner, exported.runner, cleaned.runner, *(load.runner for load in loads)}
    document = {
        "runners": sorted(runners),
        "loads": [[dict(load.counts), load.unindexed] for load in loads],
        "steps": sorted({event.step for event in events}),
        "rejected": _error(lambda: graph.load(rejected, runner=runner)),
        "optimized": [_stable(optimize_row(row)) for row in optimized.tables],
        "indexed": [row.status for row in indexed.indexes],
        "cleaned": sorted(_stable(cleanup_row(row))["table_key"] for row in cleaned.tables),
        "exported": (folder / "dump.jsonl").read_text(encoding="utf-8"),
        "counts": dict(exported.counts),
        "files": _count_files(folder / "graph.omni"),
    }
    sys.stdout.write(json.dumps(document, default=str))


def _write_people(folder: Path, number: int) -> Path:
    path = folder / f"people-{number}.jsonl"
    slugs = [f"p{number * PEOPLE // 2 + row}" for row in range(PEOPLE)]
    people = [{"type": "Person", "data": {"slug": slug, "age": number, "bio": f"of file {number}"}} for slug in slugs]
    edges = [
        {"edge": "Knows", "from": slug, "to": slugs[0], "data": {"number": f"{slug}-{number}"}} for slug in slugs[::10]
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in [*people, *edges]), encoding="utf-8")
    return path


def _count_files(graph: Path) -> dict[str, int]:
    """Return how many files each directory has, without the random names of tables. Locks depend on the time."""
    paths = [path.relative_to(graph).parent.parts for path in graph.rglob("*") if path.is_file()]
    directories = ["/".join((parts[0], *parts[2:3])) for parts in paths if parts and parts[0] != "__locks"]
    return dict(sorted(Counter(directories).items()))


def _error(action: Any) -> dict[str, Any]:
    try:
        action()
    except OmnigraphError as error:
        return dict(error_document(error, str(error.advice)))
    raise AssertionError("the load succeeded")


def _stable(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in VARYING}


if __name__ == "__main__":
    main()
