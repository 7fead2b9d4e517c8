"""The class-data archive: built once, used by the next session, and harmless if damaged."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.process import ProcessEnvironment, processes_with
from tests.waiting import SECONDS_MAX, wait_until

pytestmark = pytest.mark.xdist_group("spark")

BUILD = (  # as the package does, but not at low priority
    sys.executable,
    "-c",
    "from omnigraph.pipeline.spark.java import find_java\n"
    "from omnigraph.pipeline.spark.class_archive_build import build_class_archive\n"
    "build_class_archive(find_java())",
)


@pytest.fixture(scope="module")
def archive(spark_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run two builds at the same time, which create one archive and delete what an earlier build left."""
    world = ProcessEnvironment(spark_home, tmp_path_factory.mktemp("build"))
    left = spark_home / "spark" / "classes-draft-dead"
    left.parent.mkdir(mode=0o700, exist_ok=True)
    left.mkdir()
    builds = [world.start(*BUILD) for _ in range(2)]
    assert [build.communicate(timeout=SECONDS_MAX) for build in builds] == [("", "")] * 2
    assert [build.returncode for build in builds] == [0, 0]
    assert not list(left.parent.glob("classes-draft-*"))
    [path] = left.parent.glob("classes-*.jsa")
    yield path
    wait_until(lambda: processes_with(f"SCENARIO_FOLDER={world.folder}\0") == [])


@pytest.mark.soak
def test_it_is_built_once(archive: Path, world: ProcessEnvironment) -> None:
    before = archive.stat()
    build = world.start(*BUILD)
    assert build.communicate(timeout=SECONDS_MAX) == ("", "")
    assert (archive.stat().st_ino, archive.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.soak
def test_a_session_uses_it(archive: Path, world: ProcessEnvironment) -> None:
    assert f"-XX:SharedArchiveFile={archive}" in world.run("flags")["flags"]


@pytest.mark.soak
def test_damaged_archive_is_not_fatal(archive: Path, fresh_world: ProcessEnvironment) -> None:
    """A truncated archive is not used. With a wrong seal the JVM ignores it or dies, and is then started again."""
    folder = fresh_world.home / "spark"
    folder.mkdir(parents=True)
    damaged = folder / archive.name
    seal = archive.with_suffix(".seal")
    damaged.write_bytes(archive.read_bytes()[: 1024 * 1024])
    (folder / seal.name).write_bytes(seal.read_bytes())
    stat = damaged.stat()
    assert seal.read_text() != f"[{stat.st_size}, {stat.st_mtime_ns}]"
    (folder / seal.name).write_text(f"[{stat.st_size}, {stat.st_mtime_ns}]")
    outcome = fresh_world.run("flags")
    assert outcome["results"] == [0, 1]
    assert damaged.exists() == (f"-XX:SharedArchiveFile={damaged}" in outcome["flags"])
