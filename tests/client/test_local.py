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
from omnigraph.wire.changes import ChangeFeedOutput
from omnigraph.wire.errors import http_status
from omnigraph.wire.requests import FeedParameters, QueryRequest
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


def test_types_of_a_feed_are_names_or_aliases(tmp_path: Path) -> None:
    """A renamed type is found by its new name in all commits, and a consumer that follows a feed survives a drop."""
    graph = og.init(tmp_path / "graph.omni", "node Person { k: String @key }  node Old { k: String @key }")
    graph.mutate('query q() { insert Person { k: "a" }  insert Old { k: "b" } }')
    graph.apply_schema("node Human @rename_from(Person) { k: String @key }  node Old { k: String @key }")
    client = LocalGraph(graph=graph, uri="graphs/default")

    def poll(name: str, cursor: str | None = None) -> ChangeFeedOutput:
        start = None if cursor else "beginning"
        return client.poll_changes(FeedParameters(type=[name], start=start, cursor=cursor))

    for name, ids in (("Human", ["a"]), ("node:Human", ["a"]), ("Old", ["b"])):
        assert [change.id for block in poll(name).blocks for change in block.changes] == ids, name
    for name in ("Person", "edge:Old"):
        with pytest.raises(og.NotFoundError, match=f"unknown type '{name}'"):
            poll(name)
    cursor = poll("Old").cursor
    graph.mutate('query q() { insert Old { k: "c" } }')
    graph.apply_schema("node Human { k: String @key }", allow_data_loss=True)
    assert isinstance(cursor, str)
    blocks = poll("Old", cursor=cursor).blocks
    changes = [(change.op, change.id) for block in blocks for change in block.changes]
    assert changes == [("insert", "c"), ("delete", "b"), ("delete", "c")]


def test_a_cancelled_query_ends(client: LocalGraph) -> None:
    cancelled = Event()
    Timer(0.1, cancelled.set).start()
    with pytest.raises(OmnigraphError) as ended:
        client.for_request("ada", cancelled).query(QueryRequest(query=PRODUCT))
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
