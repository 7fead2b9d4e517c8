"""The memory of a process does not grow with the commits that it writes and reads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from omnigraph.base import limits
from tests.graph.writers import TABLES

Reports = list[dict[str, Any]]


def _run(folder: Path, commits: int, report_every: int) -> Reports:
    command = [sys.executable, "-m", "tests.api.committing", str(folder), str(commits), str(report_every)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _check_bounds(reports: Reports) -> None:
    for report in reports:
        # The limit includes datasets of the manifest: each cached snapshot has one.
        assert report["open_datasets"] <= len(TABLES) * limits.ENGINE_CACHE_VERSIONS_MAX + 8
        assert report["cached_bytes"] <= limits.ENGINE_CACHE_BYTES
        assert report["session_bytes"] <= limits.LANCE_METADATA_CACHE_BYTES + limits.LANCE_INDEX_CACHE_BYTES


def test_open_datasets_are_bounded(tmp_path: Path) -> None:
    """Each commit changes three tables. Without a bound it would leave three datasets open."""
    _check_bounds(_run(tmp_path, commits=40, report_every=40))


@pytest.mark.soak
def test_memory_is_flat_over_ten_thousand_commits_and_queries(tmp_path: Path) -> None:
    reports = _run(tmp_path, commits=10_000, report_every=500)
    print("\n".join(map(json.dumps, reports)))  # noqa: T201
    _check_bounds(reports)
    warm = max(report["resident_bytes"] for report in reports[3:7])
    assert reports[-1]["resident_bytes"] < 1.25 * warm
