"""Where cleanup runs: in this process, or on Spark for a large graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.maintenance.cleanup.run import is_for_spark
from omnigraph.storage.location import Location, parse_location


@pytest.fixture
def graph(tmp_path: Path) -> Location:
    """Return a graph with two versions of a manifest and three files of tables."""
    for name in ("__manifest/_versions/1", "__manifest/_versions/2", "nodes/a/1", "nodes/a/2", "nodes/b/3"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return parse_location(str(tmp_path))


@pytest.mark.parametrize(
    ("versions", "files", "expected"), [(2, 5, False), (1, 5, True), (2, 4, True), (2, 100, False)]
)
def test_spark_is_used_by_versions_and_by_files(
    graph: Location, monkeypatch: pytest.MonkeyPatch, versions: int, files: int, expected: bool
) -> None:
    monkeypatch.setattr("omnigraph.base.limits.CLEANUP_DRIVER_VERSIONS_MAX", versions)
    monkeypatch.setattr("omnigraph.base.limits.CLEANUP_DRIVER_FILES_MAX", files)
    assert is_for_spark(graph) is expected
