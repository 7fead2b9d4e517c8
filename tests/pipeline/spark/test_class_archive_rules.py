"""When an archive is complete, and when it is built, without Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.pipeline.spark.class_archive import ClassArchive, build_when_worthwhile, class_archive, describe_file
from omnigraph.pipeline.spark.java import Java
from tests.pipeline.process import processes_with
from tests.waiting import SECONDS_MAX, wait_until


@pytest.fixture
def archive(tmp_path: Path) -> ClassArchive:
    made = ClassArchive(tmp_path / "classes.jsa")
    made.path.write_bytes(b"classes")
    made.seal.write_text(json.dumps(describe_file(made.path)))
    return made


def test_complete_archive_is_used(archive: ClassArchive) -> None:
    assert archive.flags() == (f"-XX:SharedArchiveFile={archive.path}",)


def test_changed_archive_is_not_used(archive: ClassArchive) -> None:
    archive.path.write_bytes(b"class")
    assert archive.flags() == ()


def test_archive_without_a_seal_is_not_used(archive: ClassArchive) -> None:
    archive.seal.unlink()
    assert archive.flags() == ()
    archive.seal.write_text("{")
    assert archive.flags() == ()


def test_missing_archive_is_not_used(archive: ClassArchive) -> None:
    archive.path.unlink()
    assert archive.flags() == ()


def test_discarded_archive_is_deleted(archive: ClassArchive) -> None:
    archive.discard()
    assert archive.flags() == ()
    archive.discard()


def test_another_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    java = Java(tmp_path / "java", 17, "JAVA_HOME")
    java.home.mkdir()
    first = class_archive(java)
    (java.home / "release").write_text('JAVA_VERSION="17.0.16"')
    assert class_archive(java) != first
    assert class_archive(Java(java.home, 21, "JAVA_HOME")) not in (first, class_archive(java))


def test_it_is_built_from_the_second_start_on(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[object] = []
    monkeypatch.setattr("atexit.register", lambda *words: registered.append(words))
    monkeypatch.delenv("OMNIGRAPH_CLASS_ARCHIVE", raising=False)
    build_when_worthwhile(archive)
    assert registered == []
    build_when_worthwhile(archive)
    assert len(registered) == 1
    monkeypatch.setenv("OMNIGRAPH_CLASS_ARCHIVE", "off")
    build_when_worthwhile(archive)
    assert len(registered) == 1


HANGING_JAVA = """\
#!/bin/sh
case "$1" in -XshowSettings*)
  echo "java.home = $(dirname "$(dirname "$0")")" >&2
  echo "java.specification.version = 17" >&2
  exit;;
esac
touch "$OMNIGRAPH_HOME/hangs"
sleep 3600
"""
BUILD = """\
import signal
from omnigraph.base import limits
from omnigraph.pipeline.spark import class_archive_build

start = class_archive_build.start_classic_session

def start_within_the_limit(*words):
    assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= limits.CLASS_ARCHIVE_BUILD_SECONDS_MAX
    return start(*words)

class_archive_build.start_classic_session = start_within_the_limit
limits.CLASS_ARCHIVE_BUILD_SECONDS_MAX = 3600.0
class_archive_build.main()
"""


def test_a_build_that_hangs_ends_with_all_that_it_started(tmp_path: Path) -> None:
    """The time limit ends while Java hangs."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(HANGING_JAVA)
    java.chmod(0o755)
    environ = {"JAVA_HOME": str(tmp_path / "java"), "OMNIGRAPH_HOME": str(tmp_path / "home")}
    build = subprocess.Popen([sys.executable, "-c", BUILD], env={**os.environ, **environ}, start_new_session=True)
    wait_until((tmp_path / "home" / "hangs").exists, "Java hangs")
    build.send_signal(signal.SIGALRM)
    assert build.wait(SECONDS_MAX) == -signal.SIGKILL
    wait_until(lambda: processes_with(f"OMNIGRAPH_HOME={tmp_path / 'home'}\0") == [])
    assert len(list((tmp_path / "home" / "spark").glob("*.failed"))) == 1
