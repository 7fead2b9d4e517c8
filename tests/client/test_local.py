"""What a graph in this process does beyond the Python surface: the limits of a query, and its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event, Timer

import pytest

import omnigraph as og
from omnigraph.base.errors import OmnigraphError
from omnigraph.client.local import LocalGraph, ResultTooLongError
from omnigraph.engine.options import QueryLimits
from omnigraph.wire.errors import http_status
from omnigraph.wire.requests import QueryRequest
from tests.server.process import ALL_PEOPLE, LINES, SCHEMA

PRODUCT = "query endless() { match { $a: Person  $b: Person  $c: Person  $d: Person } return { count($d) as n } }"


@pytest.fixture
def client(tmp_path: Path) -> LocalGraph:
    """A graph on which `PRODUCT` runs for minutes."""
    graph = og.init(tmp_path / "graph.omni", SCHEMA)
    (tmp_path / "people.jsonl").write_text(
        "".join(f'{{"type":"Person","data":{{"slug":"m{number}"}}}}\n' for number in range(400))
    )
    graph.load(tmp_path / "people.jsonl")
    return LocalGraph(graph=graph, uri="graphs/default")


def test_a_cancelled_query_ends(client: LocalGraph) -> None:
    cancelled = Event()
    Timer(0.1, cancelled.set).start()
    with pytest.raises(OmnigraphError) as ended:
        client.until(cancelled).query(QueryRequest(query=PRODUCT))
    assert ended.value.code == "query_cancelled"


def test_a_query_above_its_time_is_a_timeout(client: LocalGraph) -> None:
    with pytest.raises(OmnigraphError) as ended:
        replace(client, limits=QueryLimits(seconds=0.1)).query(QueryRequest(query=PRODUCT))
    assert (ended.value.code, http_status(ended.value)) == ("query_time", 504)


def test_a_result_above_the_limit_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text(LINES)
    graph = og.init(tmp_path / "graph.omni", SCHEMA)
    graph.load(tmp_path / "data.jsonl")
    client = LocalGraph(graph=graph, uri="graphs/default", result_bytes_max=1_000)
    request = QueryRequest(query=ALL_PEOPLE)
    assert client.query(request).row_count == 2
    with pytest.raises(ResultTooLongError) as rejected:
        replace(client, result_bytes_max=5).query(request)
    limit = rejected.value.facts["resource_limit"]
    assert isinstance(limit, dict)
    assert (limit["resource"], limit["limit"]) == ("result", 5)
