"""When an archive is used, and when it is written, without Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.pipeline.spark.class_archive import archive_path, flags_to_use, flags_to_write
from omnigraph.pipeline.spark.java import Java


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("OMNIGRAPH_CLASS_ARCHIVE", raising=False)
    return tmp_path / "spark" / "classes.jsa"


def test_complete_archive_is_used(archive: Path) -> None:
    archive.parent.mkdir()
    archive.write_bytes(b"\xa8\xab\x0b\xf0 classes")
    report = archive.with_name("jvm-error-%p.log")
    assert flags_to_use(archive) == (f"-XX:SharedArchiveFile={archive}", f"-XX:ErrorFile={report}")


@pytest.mark.parametrize("content", [b"", bytes(4), bytes(4) + b"classes"])
def test_archive_without_a_header_is_not_used(archive: Path, content: bytes) -> None:
    archive.parent.mkdir()
    archive.write_bytes(content)
    assert flags_to_use(archive) == ()


def test_missing_archive_is_not_used(archive: Path) -> None:
    assert flags_to_use(archive) == ()


def test_another_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    java = Java(tmp_path / "java", 17, "JAVA_HOME")
    java.home.mkdir()
    first = archive_path(java)
    (java.home / "release").write_text('JAVA_VERSION="17.0.16"')
    assert archive_path(java) != first
    assert archive_path(Java(java.home, 21, "JAVA_HOME")) not in (first, archive_path(java))


def test_the_second_start_writes_it(archive: Path) -> None:
    assert flags_to_write(archive) == ()
    assert flags_to_write(archive) == (f"-XX:ArchiveClassesAtExit={archive}",)


def test_another_start_writes_it_a_day_later(archive: Path) -> None:
    flags_to_write(archive)
    flags = flags_to_write(archive)
    assert flags_to_write(archive) == ()
    a_day_ago = SYSTEM_CLOCK.now_us() / 1e6 - limits.CLASS_ARCHIVE_RETRY_SECONDS - 1
    os.utime(archive.with_suffix(".attempt"), (a_day_ago, a_day_ago))
    assert flags_to_write(archive) == flags


def test_it_is_not_written_when_it_is_switched_off(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_CLASS_ARCHIVE", "off")
    assert [flags_to_write(archive) for _ in range(3)] == [()] * 3
    assert not archive.parent.exists()


def test_an_unwritable_cache_is_not_an_error(archive: Path) -> None:
    archive.parent.write_text("a file")
    assert [flags_to_write(archive) for _ in range(3)] == [()] * 3
