"""Compares schema changes of a large and a small table: to add, rename or drop a property changes only metadata.

Both tables have the same columns and indexes on their ids; each round adds a nullable property, renames it and drops
it, each as one commit through the complete write path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import omnigraph
from bench.harness import Ratio, compare, median_seconds, sized
from bench.writes import commit_rows
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.maintenance.schema_apply import SchemaRequest, apply_schema
from omnigraph.pipeline.runner import Result, Task
from omnigraph.storage.location import Location, parse_location

LARGE: Final = sized(5_000_000, 50_000)
SMALL: Final = sized(5_000, 1_000)
APPENDS: Final = 5
ROUNDS: Final = sized(10, 3)
RATIO_MAX: Final = 2.0
BASE: Final = "node Thing { size: I64?  name: String }\n"
ADDED: Final = BASE.replace("size: I64?", "size: I64?  note: String?")
RENAMED: Final = BASE.replace("size: I64?", "size: I64?  remark: String? @rename_from(note)")


def run(folder: Path, large: int = LARGE) -> list[Ratio]:
    """Return all ratios of this benchmark."""
    large_root, small_root = (_make_graph(folder / "large.omni", large), _make_graph(folder / "small.omni", SMALL))
    actions = {
        f"{step} {size}": _apply(root, text)
        for step, text in (("add", ADDED), ("rename", RENAMED), ("drop", BASE))
        for size, root in (("large", large_root), ("small", small_root))
    }
    times = median_seconds(actions, ROUNDS)
    return [
        compare(f"{step} a property, {large} rows over {SMALL}", times, (f"{step} large", f"{step} small"), RATIO_MAX)
        for step in ("add", "rename", "drop")
    ]


def _make_graph(path: Path, rows: int) -> Location:
    root = parse_location(str(path))
    omnigraph.init(root.uri, BASE)
    for numbers in np.array_split(np.arange(rows), APPENDS):
        ids = pa.array(numbers).cast(pa.utf8())
        commit_rows(root, "node:Thing", pa.table({"id": ids, "size": pa.array(numbers), "name": ids}))
    return root


def _apply(root: Location, text: str) -> Callable[[], object]:
    return lambda: apply_schema(root, MAIN, SchemaRequest(source=text, actor="bench"), _no_tasks)


def _no_tasks(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
    raise AssertionError(f"expected no tasks, got {len(tasks)} of {function}: only metadata changes")
