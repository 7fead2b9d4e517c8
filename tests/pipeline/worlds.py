"""Directories for the tests of Spark: one cache directory with a class-data archive, and fresh ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.process import ProcessEnvironment, processes_with
from tests.waiting import wait_until


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache directory that the tests share, so that all but the first start of Spark are fast."""
    return tmp_path_factory.mktemp("spark-home")


@pytest.fixture
def world(spark_home: Path, tmp_path: Path) -> Iterator[ProcessEnvironment]:
    """Return a fresh working directory. Every process that a test starts there must end with the test."""
    yield ProcessEnvironment(spark_home, tmp_path)
    wait_until(lambda: processes_with(f"SCENARIO_FOLDER={tmp_path}\0") == [])


@pytest.fixture
def fresh_world(tmp_path: Path) -> Iterator[ProcessEnvironment]:
    """Return a fresh working directory with a cache directory of its own."""
    folder = tmp_path / "work"
    folder.mkdir()
    yield ProcessEnvironment(tmp_path / "home", folder)
    wait_until(lambda: processes_with(f"SCENARIO_FOLDER={folder}\0") == [])
