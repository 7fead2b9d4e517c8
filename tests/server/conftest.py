"""Graphs and servers for the tests of HTTP. The server is shared: tests use ids and branches of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from tests.server.process import LINES, SCHEMA, ServerProcess, serve


@pytest.fixture
def graph_path(tmp_path: Path) -> Path:
    """A graph with two people and an edge."""
    return make_graph(tmp_path)


def make_graph(directory: Path) -> Path:
    path, data = directory / "graph.omni", directory / "data.jsonl"
    data.write_text(LINES)
    og.init(path, SCHEMA).load(data)
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that allows everything, for all tests of a module."""
    directory = tmp_path_factory.mktemp("server")
    with serve(make_graph(directory), directory) as running:
        yield running
