"""The health of a graph over HTTP, and how long it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance

import omnigraph as og
from omnigraph.api.graph import Graph
from omnigraph.client.local import LocalGraph
from omnigraph.server.health import HealthCache
from omnigraph.storage.location import parse_location
from omnigraph.wire.maintenance import GraphHealthOutput
from tests.server.process import serve


def test_health_has_the_findings_of_doctor_and_figures_of_tables(graph_path: Path, tmp_path: Path) -> None:
    graph = og.open(graph_path)
    graph.create_branch("side").mutate('query a() { insert Person { slug: "side" } }')
    graph.mutate('query d() { delete Person where slug = "ada" }')
    table = next(table for table in graph.snapshot().tables.values() if table.alias == "node:Team")
    dataset = lance.dataset(graph_path / table.path)
    dataset.delete("true")  # an external tool changes the table, so that its head is not published
    with serve(graph_path, tmp_path) as server:
        document = server.send("GET", "health").document
        again = server.send("GET", "health").document
    assert document["uri"] == "graphs/default"
    assert document["checked_at"] == again["checked_at"]
    checks = {finding["check"] for finding in document["findings"]}
    assert "drift" in checks
    assert "machine" not in checks
    expected = [finding for finding in graph.doctor() if finding.check.value != "machine"]
    assert [finding["check"] for finding in document["findings"]] == [finding.check.value for finding in expected]
    assert str(tmp_path) not in str(document)
    (drift,) = [finding for finding in document["findings"] if finding["check"] == "drift"]
    assert (drift["where"], drift["branch"]) == ("node:Team", "main")
    assert drift["fix"] == "omnigraph repair GRAPH"
    assert drift["advice"]["parts"] == [{"name": "repair", "arguments": []}]
    people = {row["branch"]: row for row in document["tables"] if row["table_key"] == "node:Person"}
    assert people["main"]["rows"] == 1
    assert people["main"]["deleted_share"] == 0.5
    assert people["side"]["rows"] == 3
    assert people["side"]["fragments"] == people["side"]["small_fragments"] == 2


class StepClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_us(self) -> int:
        return int(self.seconds * 1_000_000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def test_a_check_is_kept_for_a_minute(graph_path: Path) -> None:
    graph = LocalGraph(graph=Graph(parse_location(str(graph_path))), uri="graphs/default")
    checks: list[Any] = []

    def check() -> GraphHealthOutput:
        checks.append(None)
        return graph.health()

    clock = StepClock()
    cache = HealthCache(check, clock)
    first = cache.read()
    clock.sleep(59)
    assert cache.read() is first
    clock.sleep(1)
    assert cache.read() is not first
    assert len(checks) == 2
