"""The class-data archive: written by the second session, used by the next one, and harmless if damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.pipeline.spark.class_archive import flags_to_use
from tests.pipeline.process import ProcessEnvironment, processes_with
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def archive(spark_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run two sessions; the JVM of the second writes the archive after its command has ended."""
    world = ProcessEnvironment(spark_home, tmp_path_factory.mktemp("build"))
    for _ in range(2):
        world.run("flags", {"OMNIGRAPH_CLASS_ARCHIVE": "on"})
    wait_until(lambda: processes_with(f"SCENARIO_FOLDER={world.folder}\0") == [])
    [path] = spark_home.glob("spark/classes-*.jsa")
    assert flags_to_use(path)
    return path


@pytest.mark.soak
def test_a_session_uses_it(archive: Path, world: ProcessEnvironment) -> None:
    before = archive.stat()
    assert f"-XX:SharedArchiveFile={archive}" in world.run("flags", {"OMNIGRAPH_CLASS_ARCHIVE": "on"})["flags"]
    assert (archive.stat().st_ino, archive.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.soak
def test_damaged_archive_is_not_fatal(archive: Path, fresh_world: ProcessEnvironment) -> None:
    """The JVM ignores a truncated archive, or dies and is started again without it."""
    damaged = fresh_world.home / "spark" / archive.name
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(archive.read_bytes()[: 1024 * 1024])
    outcome = fresh_world.run("flags")
    assert outcome["results"] == [0, 1]
    assert damaged.exists() == (f"-XX:SharedArchiveFile={damaged}" in outcome["flags"])
