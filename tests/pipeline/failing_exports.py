"""Exports on a failing disk: `python -m tests.pipeline.failing_exports GRAPH FOLDER` prints the problems as JSON.

It runs with the library of `tests/file_faults.py`. For every k, the k-th write fails, and the k-th sync.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from omnigraph.base.errors import OmnigraphError
from omnigraph.pipeline.export.tasks import ExportFormat
from omnigraph.storage.location import parse_location
from tests.file_faults import arm, counted
from tests.pipeline.exporting import export_here

TARGETS = (("dump.jsonl", ExportFormat.NDJSON), ("parts", ExportFormat.PARQUET))


def main(graph: str, folder: str) -> list[str]:
    """Return the exports that left or reported something wrong."""
    root, place = parse_location(graph), Path(folder)
    problems: list[str] = []
    failed = 0
    for name, format_ in TARGETS:
        target = place / name
        arm(folder)
        export_here(root, target, format_)
        writes, syncs = counted()
        expected = _content(target)
        if not writes or syncs < 2 * writes:
            problems.append(f"{name}: expected a sync of each file and of its directory, got {syncs} for {writes}")
        faults = [{"write": number} for number in range(1, writes + 1)]
        for fault in [*faults, *({"sync": number} for number in range(1, syncs + 1))]:
            _remove(target)
            arm(folder, write=fault.get("write", 0), sync=fault.get("sync", 0))
            try:
                export_here(root, target, format_)
            except OmnigraphError:
                failed += 1
                arm(folder)
                if "write" in fault and list(place.iterdir()):
                    problems.append(f"{name}: {fault} failed and left {sorted(place.iterdir())}")
                continue
            arm(folder)
            if "sync" in fault or _content(target) != expected:
                problems.append(f"{name}: {fault} was acknowledged")
        _remove(target)
    if not failed:
        problems.append("no export failed")
    return problems


def _content(target: Path) -> dict[str, bytes]:
    paths = sorted(target.rglob("*")) if target.is_dir() else [target]
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def _remove(target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
