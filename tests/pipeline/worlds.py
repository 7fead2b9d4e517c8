"""Places for the tests of Spark: a cache directory with a class-data archive, made once, and fresh ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.process import WriteEnvironment, processes_with
from tests.waiting import wait_until


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache directory that the tests share, so that all but the first start of Spark are quick."""
    return tmp_path_factory.mktemp("spark-home")


@pytest.fixture
def world(spark_home: Path, tmp_path: Path) -> Iterator[WriteEnvironment]:
    """A fresh working directory. Whatever a test starts there must have ended by itself when the test has."""
    yield WriteEnvironment(spark_home, tmp_path)
    wait_until(lambda: processes_with(f"SCENARIO_FOLDER={tmp_path}\0") == [])


@pytest.fixture
def fresh_world(tmp_path: Path) -> Iterator[WriteEnvironment]:
    """A cache directory of its own as well."""
    folder = tmp_path / "work"
    folder.mkdir()
    yield WriteEnvironment(tmp_path / "home", folder)
    wait_until(lambda: processes_with(f"SCENARIO_FOLDER={folder}\0") == [])
