"""`to_networkx`: nodes, edges and their properties by type, by query, and at an earlier state."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import networkx as nx
import pytest

import omnigraph as og

SCHEMA = """
node Person { slug: String @key  born: Date?  photo: Vector(2)? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company
"""
ROWS = """
query rows() {
  insert Person { slug: "ada", born: "1815-12-10", photo: [1.0, 2.0] }
  insert Person { slug: "acme" }
  insert Company { name: "acme" }
  insert Knows { from: "ada", to: "acme", since: "1833-06-05" }
  insert Knows { from: "ada", to: "acme" }
  insert WorksAt { from: "ada", to: "acme" }
}
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g.omni", SCHEMA)
    graph.mutate(ROWS)
    return graph


def test_whole_graph(graph: og.Graph) -> None:
    result = graph.to_networkx()
    assert isinstance(result, nx.MultiDiGraph)
    assert dict(result.nodes) == {
        ("Person", "ada"): {"slug": "ada", "born": date(1815, 12, 10)},
        ("Person", "acme"): {"slug": "acme"},
        ("Company", "acme"): {"name": "acme"},
    }
    edges = sorted(
        (source, target, key[0], tuple(row)) for source, target, key, row in result.edges(keys=True, data=True)
    )
    assert edges == [
        (("Person", "ada"), ("Company", "acme"), "WorksAt", ()),
        (("Person", "ada"), ("Person", "acme"), "Knows", ()),
        (("Person", "ada"), ("Person", "acme"), "Knows", ("since",)),
    ]


def test_types_by_name_or_alias(graph: og.Graph) -> None:
    assert set(graph.to_networkx(["node:Company"])) == {("Company", "acme")}
    works_at = graph.to_networkx(["WorksAt"])
    assert dict(works_at.nodes) == {("Person", "ada"): {}, ("Company", "acme"): {}}
    with pytest.raises(og.NotFoundError, match="unknown type 'Persn': did you mean 'Person'"):
        graph.to_networkx(["Persn"])


def test_query(graph: og.Graph) -> None:
    text = "query q($s: String) { match { $a: Person {slug: $s}  $a $e:worksAt $b } return { $a, $e, $b, $a.slug } }"
    result = graph.to_networkx(text, {"s": "ada"})
    assert (sorted(result), result.number_of_edges()) == ([("Company", "acme"), ("Person", "ada")], 1)
    assert len(graph.to_networkx(text, {"s": "acme"})) == 0
    with pytest.raises(og.UsageError, match="returns nodes or edges, got the columns a"):
        graph.to_networkx("query q() { match { $a: Person } return { $a.slug } }")


def test_earlier_state(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.mutate('query drop() { delete Person where slug = "ada" }')
    assert len(graph.to_networkx()) == 2
    assert len(graph.to_networkx(as_of=before)) == 3
