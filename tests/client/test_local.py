"""What a graph in this process does beyond the Python surface: the limit of a result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.client.local import LocalGraph, ResultTooLongError
from omnigraph.wire.requests import QueryRequest
from tests.server.process import ALL_PEOPLE, LINES, SCHEMA


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
