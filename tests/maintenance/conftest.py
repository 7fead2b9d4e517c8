"""Fixtures for the tests of maintenance: Spark, an external tool, and a process that kills writers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph.base import limits
from tests.graph.crash.killer import Killer, start_killer
from tests.maintenance.repairing import ExternalTool, external_tool_process
from tests.pipeline.worlds import spark_home, world

__all__ = ["spark_home", "world"]


@pytest.fixture(scope="session")
def tool() -> Iterator[ExternalTool]:
    with external_tool_process() as running:
        yield running


@pytest.fixture(scope="session")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    with start_killer(tmp_path_factory.mktemp("killer")) as running:
        yield running


@pytest.fixture(autouse=True)
def indexes_for_small_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables get vector indexes, which otherwise only tables with more than 64 MiB of vectors need."""
    monkeypatch.setattr(limits, "SEARCH_EXACT_BYTES", 0)
